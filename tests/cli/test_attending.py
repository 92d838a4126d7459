"""`daemon start`, `stop`, `restart`, `status`: what they say."""

import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from agentctl import __version__
from agentctl.cli import attending
from agentctl.daemon_client import client, protocol
from agentctl.errors import Fault, Unreachable
from agentctl.system.pidfd import Handle
from agentctl.wire.daemon_shapes import DAEMON_FIELDS
from tests.daemon.serving import daemon_of, daemons_of, home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


def test_none_runs(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "daemon", "status")
    home = home_of(stage)
    assert (ran.code, ran.out) == (3, f"no daemon runs for {home}; agentctl daemon start starts it\n")
    ran = agentctl_of(stage, "daemon", "status", "--json")
    assert (ran.code, ran.json()) == (3, {"version": 1, "daemon": None})
    ran = agentctl_of(stage, "daemon", "stop")
    assert (ran.code, ran.err) == (3, f"agentctl: no daemon runs for {home}\n")
    assert not os.path.exists(home), "asking makes nothing"


def test_one_runs(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    ran = agentctl_of(stage, "daemon", "start")
    runs = f"the daemon runs already: agentctl {__version__}, pid {identity.pid}\n"
    assert (ran.code, ran.out) == (0, runs)
    ran = agentctl_of(stage, "daemon")
    assert ran.code == 0
    assert ran.lines[0].startswith(f"agentctl {__version__} (protocol 1), pid {identity.pid}, for ")
    assert "guard        running" in ran.lines
    told = agentctl_of(stage, "daemon", "status", "--json").json()["daemon"]
    assert list(told) == [name for name, _, _ in DAEMON_FIELDS]
    assert (told["pid"], told["home"], told["seq"] >= 1) == (identity.pid, home_of(stage), True)


def test_restart(stage: DemoStage) -> None:
    assert agentctl_of(stage, "daemon", "restart").code == 0, "also where none runs"
    (first,) = daemons_of(stage)
    ran = agentctl_of(stage, "daemon", "restart")
    (second,) = daemons_of(stage)
    assert ran.lines == [
        f"stopped: agentctl {__version__}, pid {first}",
        f"started: agentctl {__version__}, pid {second}",
    ]


def test_one_that_does_not_answer(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with Handle(identity) as handle:
        handle.signal(signal.SIGSTOP)
        os.unlink(f"{home_of(stage)}/daemon.sock")
        ran = agentctl_of(stage, "daemon", "status")
        handle.signal(signal.SIGKILL)
    assert ran.code == 5
    assert f"pid {identity.pid}" in ran.err


def test_skew_is_told_in_one_line(stage: DemoStage, tmp_path: Path) -> None:
    home = tmp_path / "other"
    home.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / "daemon.sock"))
        listening.listen()
        thread = threading.Thread(target=_be_another, args=(listening,))
        thread.start()
        ran = agentctl_of(stage, "daemon", "status", AGENTCTL_HOME=str(home))
        thread.join()
    assert ran.code == 5
    assert ran.err.splitlines() == [
        f"agentctl: the daemon is agentctl 9.9 (protocol 99), this is {__version__} (protocol 1)",
        "  agentctl daemon restart",
    ]


def _be_another(listening: socket.socket) -> None:
    connected, _ = listening.accept()
    with connected, connected.makefile("rb") as file:
        asked = protocol.decoded(file.readline())
        assert not isinstance(asked, Fault)
        hello = {"protocol": 99, "version": "9.9", "pid": 1, "start": 1, "home": "/"}
        connected.sendall(protocol.result(asked.id, hello))
        file.read()


def test_how_parts_are_shown() -> None:
    told = {
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
    assert list(attending._lines(told, "/home/me")) == [
        "agentctl 0.0.1 (protocol 1), pid 7",
        f"  this is agentctl {__version__}; agentctl daemon restart",
        "home         ~/.agentctl",
        "last event   not known",
        "clients      1, 0 of them subscribed to events",
        "metrics      failed: port 9200 is taken",
        "fuses        running (armed 2)",
        "post         running (targets webhook ci me)",
    ]


def test_a_status_of_another_kind_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def __enter__(self) -> "Odd":
            return self

        def __exit__(self, *_: object) -> None: ...

        def call(self, _: str) -> object:
            return json.loads("[]")

    monkeypatch.setattr(client, "connect", lambda _: Odd())
    with pytest.raises(Unreachable, match="not known here"):
        attending._status(str(tmp_path))
