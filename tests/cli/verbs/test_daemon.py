"""`agentctl daemon`."""

import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from agentctl import __version__
from agentctl.cli.verbs import daemon
from agentctl.daemon_client import protocol
from agentctl.errors import Fault
from agentctl.system.pidfd import Handle
from agentctl.wire.state import DAEMON_FIELDS
from tests.cli import hostile
from tests.daemon.serving import daemon_of, daemons_of, home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("begin",), "unknown command 'daemon begin'"),
        (("start", "--json"), "daemon start takes no --json"),
        (("stop", "--foreground"), "daemon stop takes no --foreground"),
        (("status", "-f"), "daemon status takes no -f"),
        (("-n", "3"), "daemon status takes no -n"),
        (("logs", "-n", "0"), "-n: not a whole number above 0: '0'"),
        (("logs", "-n", "x"), "-n: not a whole number above 0: 'x'"),
        (("start", "--force"), "daemon start takes no --force"),
    ],
)
def test_wrong_words_are_usage_errors(stage: DemoStage, words: tuple[str, ...], message: str) -> None:
    ran = agentctl_of(stage, "daemon", *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_help_has_exit_codes_and_examples(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "help", "daemon")
    assert ran.code == 0
    for word in ("Exit codes: 3", "agentctl daemon logs -f", "AGENTCTL_NO_DAEMON=1"):
        assert word in ran.out


def test_a_command_has_its_own_help(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "daemon", "logs", "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("usage: agentctl daemon logs ")
    assert "--follow" in ran.out
    assert "--foreground" not in ran.out
    assert agentctl_of(stage, "help", "daemon", "logs") == ran


def test_without_a_daemon_the_exit_code_is_3(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "daemon", "status")
    home = home_of(stage)
    assert (ran.code, ran.out) == (3, f"no daemon runs for {home}; agentctl daemon start starts it\n")
    ran = agentctl_of(stage, "daemon", "status", "--json")
    assert (ran.code, ran.json()) == (3, {"version": 1, "daemon": None})
    ran = agentctl_of(stage, "daemon", "stop")
    assert (ran.code, ran.err) == (3, f"agentctl: no daemon runs for {home}\n")
    assert not os.path.exists(home), "asking creates nothing"


def test_a_running_daemon_is_shown(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    ran = agentctl_of(stage, "daemon", "start")
    runs = f"the daemon runs already: agentctl {__version__}, pid {identity.pid}\n"
    assert (ran.code, ran.out) == (0, runs)
    ran = agentctl_of(stage, "daemon")
    assert ran.code == 0
    assert ran.lines[0].startswith(f"agentctl {__version__} (protocol 1), pid {identity.pid}, for ")
    assert "guard        running" in ran.lines
    facts = agentctl_of(stage, "daemon", "status", "--json").json()["daemon"]
    assert list(facts) == [name for name, _, _ in DAEMON_FIELDS]
    assert (facts["pid"], facts["home"], facts["seq"] >= 1) == (identity.pid, home_of(stage), True)


def test_restart_starts_another_daemon(stage: DemoStage) -> None:
    assert agentctl_of(stage, "daemon", "restart").code == 0, "also where none runs"
    (first,) = daemons_of(stage)
    ran = agentctl_of(stage, "daemon", "restart")
    (second,) = daemons_of(stage)
    assert ran.lines == [
        f"stopped: agentctl {__version__}, pid {first}",
        f"started: agentctl {__version__}, pid {second}",
    ]


def test_a_daemon_that_does_not_answer_is_an_error(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with Handle(identity) as handle:
        handle.signal(signal.SIGSTOP)
        os.unlink(f"{home_of(stage)}/daemon.sock")
        ran = agentctl_of(stage, "daemon", "status")
        handle.signal(signal.SIGKILL)
    assert ran.code == 5
    assert f"pid {identity.pid}" in ran.err


def test_another_version_is_reported_with_the_command_that_helps(
    stage: DemoStage, tmp_path: Path
) -> None:
    home = tmp_path / "other"
    home.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / "daemon.sock"))
        listening.listen()
        thread = threading.Thread(target=_answer_as_another_version, args=(listening,))
        thread.start()
        ran = agentctl_of(stage, "daemon", "status", AGENTCTL_HOME=str(home))
        thread.join()
    assert ran.code == 5
    assert ran.err.splitlines() == [
        f"agentctl: the daemon is agentctl 9.9 (protocol 99), this is {__version__} (protocol 1)",
        "  agentctl daemon restart",
    ]


def _answer_as_another_version(listening: socket.socket) -> None:
    connected, _ = listening.accept()
    with connected, connected.makefile("rb") as file:
        request = protocol.parse_request(file.readline())
        assert not isinstance(request, Fault)
        hello = {"protocol": 99, "version": "9.9", "pid": 1, "start": 1, "home": "/"}
        connected.sendall(protocol.encode_result(request.id, hello))
        file.read()


def test_how_parts_are_shown() -> None:
    facts = {
        "version": "0.0.1",
        "protocol": 1,
        "pid": 7,
        "home": "/home/me/.agentctl",
        "clients": 1,
        "subscribers": 0,
        "seq": None,
        "parts": [
            {"name": "metrics", "state": "failed", "problem": "port 9200 is taken"},
            {"name": "fuses", "state": "running", "armed": 2, "next": None},
            {"name": "post", "state": "running", "targets": {"webhook": ["ci", "me"], "notify": []}},
        ],
    }
    assert list(daemon.status_lines(facts, "/home/me")) == [
        "agentctl 0.0.1 (protocol 1), pid 7",
        f"  this is agentctl {__version__}; agentctl daemon restart",
        "home         ~/.agentctl",
        "last event   not known",
        "clients      1, 0 of them subscribed to events",
        "metrics      failed: port 9200 is taken",
        "fuses        running (armed 2)",
        "post         running (targets webhook ci me)",
    ]


def test_a_hostile_answer_is_shown_harmless() -> None:
    bad = hostile.ALL
    part = {"name": bad, "state": bad, "problem": bad, "more": {bad: [bad]}}
    facts = dict.fromkeys(("version", "protocol", "pid", "home", "clients", "subscribers", "seq"), bad)
    for line in daemon.status_lines({**facts, "parts": [part]}, None):
        assert hostile.harmful(line) == []
