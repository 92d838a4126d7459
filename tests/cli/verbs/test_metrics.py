"""`agentctl metrics`, with a daemon and without."""

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentctl.metrics.families import FAMILIES, daemon_only_names
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


def test_without_a_daemon_it_looks_itself_and_names_what_is_missing(stage: DemoStage) -> None:
    stage.start().do("ask")
    ran = agentctl_of(stage, "metrics")
    assert (ran.code, ran.err) == (0, "")
    assert values(ran.out)["agentctl_sessions", ("demo", "waiting")] == 1
    assert ran.lines[-1].startswith("# note: no daemon was asked; only a daemon counts these: ")
    assert all(name in ran.lines[-1] for name in daemon_only_names())


def test_a_daemon_is_asked(stage: DemoStage) -> None:
    stage.start().do("ask")
    daemon_of(stage)
    ran = agentctl_of(stage, "metrics")
    assert (ran.code, ran.err) == (0, "")
    samples = values(ran.out)
    assert samples["agentctl_sessions", ("demo", "waiting")] == 1
    assert ("agentctl_daemon_start_time_seconds", ()) in samples
    assert "# note" not in ran.out
    for alone in (
        agentctl_of(stage, "metrics", "--no-daemon"),
        agentctl_of(stage, "metrics", AGENTCTL_NO_DAEMON="1"),
    ):
        assert ("agentctl_daemon_start_time_seconds", ()) not in values(alone.out)


def test_json(stage: DemoStage) -> None:
    stage.start().do("ask")
    answer = agentctl_of(stage, "metrics", "--json").json()
    assert answer["version"] == 1
    assert answer["missing"] == daemon_only_names()
    assert {f["name"] for f in answer["families"]} | set(answer["missing"]) == set(FAMILIES)
    [sessions] = [f for f in answer["families"] if f["name"] == "agentctl_sessions"]
    labels = {"adapter": "demo", "status": "waiting"}
    assert sessions["samples"] == [{"name": "agentctl_sessions", "labels": labels, "value": 1}]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('"result": {}', "the daemon's hello is of an unknown shape"),
        ('"error": {"code": -32601, "message": "no method"}', "no method"),
    ],
)
def test_a_daemon_that_cannot_answer_is_reported_and_not_used(
    stage: DemoStage, answer: str, message: str
) -> None:
    """It may be another user's, of another protocol, or older: this one always answers the same."""
    home = Path(stage.environ["AGENTCTL_HOME"])
    home.mkdir()
    child = subprocess.Popen([sys.executable, "-c", DAEMON, f'{{"id": 1, {answer}}}'], cwd=home)
    try:
        until((home / "daemon.sock").exists, "it listens")
        ran = agentctl_of(stage, "metrics")
        assert ran.code == 0
        assert ran.err.endswith(f"{message}; looked without the daemon\n")
        assert "agentctl_build_info" in ran.out
    finally:
        child.kill()
        child.wait()
