"""`agentctl metrics`, with a daemon and without."""

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentctl.metrics.families import FAMILIES, only_of_a_daemon
from tests.daemon.serving import daemon_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import until

# Its socket has the name only once it listens.
DAEMON = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind("s")
listening.listen()
os.rename("s", "daemon.sock")
while True:
    connection, _ = listening.accept()
    connection.recv(999)
    connection.sendall(sys.argv[1].encode() + b"\\n")
"""


def values(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_without_a_daemon_it_looks_itself_and_says_what_is_missing(stage: DemoStage) -> None:
    stage.start().do("ask")
    ran = agentctl_of(stage, "metrics")
    assert (ran.code, ran.err) == (0, "")
    assert values(ran.out)["agentctl_sessions", ("demo", "waiting")] == 1
    assert ran.lines[-1].startswith("# note: no daemon was asked; only a daemon counts these: ")
    assert all(name in ran.lines[-1] for name in only_of_a_daemon())


def test_a_daemon_is_asked(stage: DemoStage) -> None:
    stage.start().do("ask")
    daemon_of(stage)
    told = agentctl_of(stage, "metrics")
    assert (told.code, told.err) == (0, "")
    found = values(told.out)
    assert found["agentctl_sessions", ("demo", "waiting")] == 1
    assert ("agentctl_daemon_start_time_seconds", ()) in found
    assert "# note" not in told.out
    for alone in (
        agentctl_of(stage, "metrics", "--no-daemon"),
        agentctl_of(stage, "metrics", AGENTCTL_NO_DAEMON="1"),
    ):
        assert ("agentctl_daemon_start_time_seconds", ()) not in values(alone.out)


def test_json(stage: DemoStage) -> None:
    stage.start().do("ask")
    told = agentctl_of(stage, "metrics", "--json").json()
    assert told["version"] == 1
    assert told["missing"] == only_of_a_daemon()
    assert {f["name"] for f in told["families"]} | set(told["missing"]) == set(FAMILIES)
    [sessions] = [f for f in told["families"] if f["name"] == "agentctl_sessions"]
    labels = {"adapter": "demo", "status": "waiting"}
    assert sessions["samples"] == [{"name": "agentctl_sessions", "labels": labels, "value": 1}]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ('"result": {}', "the daemon says hello in a way that is not known here"),
        ('"error": {"code": -32601, "message": "no method"}', "no method"),
    ],
)
def test_a_daemon_that_cannot_be_asked_is_told_and_passed_over(
    stage: DemoStage, answer: str, told: str
) -> None:
    """Another user's, or of another protocol, or an older one: here, one that always says the same."""
    home = Path(stage.environ["AGENTCTL_HOME"])
    home.mkdir()
    child = subprocess.Popen([sys.executable, "-c", DAEMON, f'{{"id": 1, {answer}}}'], cwd=home)
    try:
        until((home / "daemon.sock").exists, "it listens")
        ran = agentctl_of(stage, "metrics")
        assert ran.code == 0
        assert ran.err.endswith(f"{told}; looked without it\n")
        assert "agentctl_build_info" in ran.out
    finally:
        child.kill()
        child.wait()
