"""The daemon from its start to its end."""

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl.daemon import app as module
from agentctl.daemon.app import App, Part
from agentctl.daemon.lock import Singleton
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import lock_file, protocol
from agentctl.errors import Refused
from agentctl.system.pidfd import Handle
from tests.daemon.serving import Wire, daemon_of, home_of, inode, log_of
from tests.ending import is_gone
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import DEADLINE, until


class Fake:
    """A part that does as it is told."""

    def __init__(self, name: str, start: Callable[[], None], stop: Callable[[], None]) -> None:
        self.name = name
        self.start, self.stop = start, stop

    def status(self) -> dict[str, Any]:
        if self.name == "dumb":
            raise ValueError("no word")
        return {"port": 9200}


def _nothing() -> None: ...


def _refuses() -> None:
    raise Refused("port 9200 is taken")


def _breaks() -> None:
    raise KeyError("x")


class Ran:
    """The whole daemon in a thread of the test's own, with parts of the test's own."""

    def __init__(self, home: Path, parts: list[Part], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "parts", lambda _: parts)
        loop = asyncio.SelectorEventLoop  # outside the main thread there are no signals
        monkeypatch.setattr(loop, "add_signal_handler", lambda *_: None)
        self.app = App(Singleton(str(home / "state")), {})
        self.ready = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.app.run(self.ready.set)))
        self.thread.start()
        assert self.ready.wait(DEADLINE)

    def status(self) -> dict[str, dict[str, Any]]:
        with rpc.connect(self.app.home) as client:
            return {part["name"]: part for part in client.call("daemon.status")["parts"]}

    def end(self) -> None:
        self.app.end("the test is over")
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()


def test_a_part_that_fails_is_told_of_and_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[str] = []
    parts: list[Part] = [
        Fake("metrics", _refuses, lambda: stopped.append("metrics")),
        Fake("broken", _breaks, lambda: stopped.append("broken")),
        Fake("good", _nothing, lambda: stopped.append("good")),
        Fake("dumb", _nothing, _breaks),
    ]
    ran = Ran(tmp_path, parts, monkeypatch)
    told = ran.status()
    ran.end()
    assert told["metrics"] == {"name": "metrics", "state": "failed", "problem": "port 9200 is taken"}
    assert (told["broken"]["state"], told["broken"]["problem"]) == ("failed", "KeyError: 'x'")
    assert told["good"] == {"name": "good", "state": "running", "port": 9200}
    assert told["dumb"]["state"] == "unknown"
    assert stopped == ["good"], "what never started is not stopped"
    assert "metrics did not start: port 9200 is taken" in caplog.text


def test_a_part_that_could_not_start_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "AGAIN", (0.01, 0.02))
    tries, stopped = list[str](), list[str]()

    def start() -> None:
        tries.append("once more")
        if len(tries) < 4:
            _refuses()

    ran = Ran(tmp_path, [Fake("metrics", start, lambda: stopped.append("metrics"))], monkeypatch)
    until(lambda: ran.status()["metrics"]["state"] == "running", "it runs")
    ran.end()
    assert (len(tries), stopped) == (4, ["metrics"])
    assert caplog.text.count("metrics did not start") == 1


def test_a_part_that_hangs_at_its_end_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "DRAIN", 0.1)
    release, stopped = threading.Event(), list[str]()
    parts: list[Part] = [
        Fake("hangs", _nothing, lambda: (release.wait(DEADLINE), None)[1]),
        Fake("good", _nothing, lambda: stopped.append("good")),
    ]
    ran = Ran(tmp_path, parts, monkeypatch)
    ran.end()
    release.set()
    assert stopped == ["good"]
    assert "did not end in time: hangs" in caplog.text
    assert lock_file.told(ran.app.home) is None


def test_a_question_without_an_end_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "DRAIN", 0.1)
    ran = Ran(tmp_path, [], monkeypatch)
    asked = threading.Event()

    async def never(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    ran.app.server.answer = never
    with Wire(ran.app.home) as wire:
        wire.say(protocol.request(1, "x"))
        assert asked.wait(DEADLINE)
        ran.end()
        assert wire.hear() == {}
    assert "did not end in time: a client" in caplog.text


def test_an_answer_at_work_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(tmp_path, [], monkeypatch)
    asked = threading.Event()

    async def when_it_ends(*_: object) -> str:
        asked.set()
        await ran.app._over.wait()
        return "well"

    ran.app.server.answer = when_it_ends
    with Wire(ran.app.home) as wire:
        wire.say(protocol.request(1, "x"))
        assert asked.wait(DEADLINE)
        ran.end()
        assert wire.hear()["result"] == "well"
        assert wire.hear() == {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_also_with_clients_of_all_kinds(
    stage: DemoStage, number: signal.Signals
) -> None:
    identity = daemon_of(stage)
    with (
        Wire(home_of(stage)) as half,
        Wire(home_of(stage)) as subscriber,
        Wire(home_of(stage)) as idle,
        Handle(identity) as handle,
    ):
        half.say(b'{"jsonrpc"')
        subscriber.ask("events.subscribe")
        idle.ask("hello")
        before = time.monotonic()
        handle.signal(number)
        assert handle.wait(DEADLINE)
        assert time.monotonic() - before < DEADLINE
        while subscriber.hear():
            pass
    assert not os.path.lexists(f"{home_of(stage)}/daemon.sock")
    assert "ending: SIG" in log_of(stage)
    assert "ended, in" in log_of(stage)


def test_a_home_that_is_deleted_ends_it(stage: DemoStage) -> None:
    """A part may just be writing, and bring a database back; but nothing by which it would be found."""
    identity = daemon_of(stage)
    with open(f"{home_of(stage)}/daemon.log", encoding="utf-8") as log:
        shutil.rmtree(home_of(stage), ignore_errors=True)  # its own files come and go meanwhile
        until(lambda: is_gone(identity), "it ends")
        assert "is gone, or not ours any more" in log.read()
    assert not os.path.lexists(f"{home_of(stage)}/daemon.lock")
    assert not os.path.lexists(f"{home_of(stage)}/daemon.sock")
    assert daemon_of(stage) != identity


def test_in_a_home_that_was_deleted_no_part_has_a_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []
    ran = Ran(tmp_path, [Fake("good", _nothing, lambda: stopped.append("good"))], monkeypatch)
    shutil.rmtree(ran.app.home)
    ran.app.look_after_home()
    ran.thread.join(DEADLINE)
    assert not ran.thread.is_alive()
    assert stopped == []
    assert not os.path.exists(ran.app.home)


def test_a_lock_file_of_another_ends_it(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    os.rename(f"{home_of(stage)}/daemon.lock", f"{home_of(stage)}/moved")
    until(lambda: is_gone(identity), "it ends")


def test_a_socket_that_is_deleted_comes_back(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    path = f"{home_of(stage)}/daemon.sock"
    before = inode(path)
    with rpc.connect(home_of(stage)) as client:
        os.unlink(path)
        until(lambda: os.path.lexists(path), "it is there again")
        assert client.hello().pid == identity.pid
    with rpc.connect(home_of(stage)) as client:
        assert client.hello().pid == identity.pid
    assert before
    assert agentctl_of(stage, "daemon", "status").code == 0
