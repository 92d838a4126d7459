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
from tests.daemon.serving import Wire, daemon_of, home_of, log_of
from tests.ending import is_gone
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import DEADLINE, until


class Fake:
    """A part that does what a test says."""

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


class RunningApp:
    """A whole daemon in a thread of the test, with parts of the test."""

    def __init__(self, home: Path, parts: list[Part], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "make_parts", lambda _: parts)
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


def test_a_part_that_fails_is_in_the_status_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[str] = []
    parts: list[Part] = [
        Fake("metrics", _refuses, lambda: stopped.append("metrics")),
        Fake("broken", _breaks, lambda: stopped.append("broken")),
        Fake("good", _nothing, lambda: stopped.append("good")),
        Fake("dumb", _nothing, _breaks),
    ]
    running = RunningApp(tmp_path, parts, monkeypatch)
    parts_by_name = running.status()
    running.end()
    assert parts_by_name["metrics"] == {
        "name": "metrics",
        "state": "failed",
        "problem": "port 9200 is taken",
    }
    assert (parts_by_name["broken"]["state"], parts_by_name["broken"]["problem"]) == (
        "failed",
        "KeyError: 'x'",
    )
    assert parts_by_name["good"] == {"name": "good", "state": "running", "port": 9200}
    assert parts_by_name["dumb"]["state"] == "unknown"
    assert stopped == ["good"], "what never started is not stopped"
    assert "metrics did not start: port 9200 is taken" in caplog.text


def test_a_part_that_could_not_start_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY", (0.01, 0.02))
    tries, stopped = list[str](), list[str]()

    def start() -> None:
        tries.append("once more")
        if len(tries) < 4:
            _refuses()

    running = RunningApp(
        tmp_path, [Fake("metrics", start, lambda: stopped.append("metrics"))], monkeypatch
    )
    until(lambda: running.status()["metrics"]["state"] == "running", "it runs")
    running.end()
    assert (len(tries), stopped) == (4, ["metrics"])
    assert caplog.text.count("metrics did not start") == 1


def test_a_part_that_hangs_at_its_end_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "STOP_LIMIT", 0.1)
    release, stopped = threading.Event(), list[str]()
    parts: list[Part] = [
        Fake("hangs", _nothing, lambda: (release.wait(DEADLINE), None)[1]),
        Fake("good", _nothing, lambda: stopped.append("good")),
    ]
    running = RunningApp(tmp_path, parts, monkeypatch)
    running.end()
    release.set()
    assert stopped == ["good"]
    assert "did not end in time: hangs" in caplog.text
    assert lock_file.read_holder(running.app.home) is None


def test_a_request_that_hangs_does_not_delay_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "STOP_LIMIT", 0.1)
    running = RunningApp(tmp_path, [], monkeypatch)
    called = threading.Event()

    async def hang(*_: object) -> None:
        called.set()
        await asyncio.Event().wait()

    running.app.server.answer = hang
    with Wire(running.app.home) as wire:
        wire.say(protocol.encode_request(1, "x"))
        assert called.wait(DEADLINE)
        running.end()
        assert wire.hear() == {}
    assert "did not end in time: a client" in caplog.text


def test_a_request_at_work_is_answered_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RunningApp(tmp_path, [], monkeypatch)
    called = threading.Event()

    async def wait_for_the_end(*_: object) -> str:
        called.set()
        await running.app._stopping.wait()
        return "well"

    running.app.server.answer = wait_for_the_end
    with Wire(running.app.home) as wire:
        wire.say(protocol.encode_request(1, "x"))
        assert called.wait(DEADLINE)
        running.end()
        assert wire.hear()["result"] == "well"
        assert wire.hear() == {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_clients_of_all_kinds(stage: DemoStage, number: signal.Signals) -> None:
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
    """A part that is just writing may create a database again, but no lock file and no socket."""
    identity = daemon_of(stage)
    with open(f"{home_of(stage)}/daemon.log", encoding="utf-8") as log:
        shutil.rmtree(home_of(stage), ignore_errors=True)  # its own files come and go meanwhile
        until(lambda: is_gone(identity), "it ends")
        assert "is gone, or not ours any more" in log.read()
    assert not os.path.lexists(f"{home_of(stage)}/daemon.lock")
    assert not os.path.lexists(f"{home_of(stage)}/daemon.sock")
    assert daemon_of(stage) != identity


def test_no_part_writes_at_the_end_if_the_home_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []
    running = RunningApp(tmp_path, [Fake("good", _nothing, lambda: stopped.append("good"))], monkeypatch)
    shutil.rmtree(running.app.home)
    running.app.check_home()
    running.thread.join(DEADLINE)
    assert not running.thread.is_alive()
    assert stopped == []
    assert not os.path.exists(running.app.home)


def test_a_moved_lock_file_ends_it(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    os.rename(f"{home_of(stage)}/daemon.lock", f"{home_of(stage)}/moved")
    until(lambda: is_gone(identity), "it ends")


def test_a_socket_that_is_deleted_comes_back(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    path = f"{home_of(stage)}/daemon.sock"
    with rpc.connect(home_of(stage)) as client:
        os.unlink(path)
        until(lambda: os.path.lexists(path), "it is there again")
        assert client.hello().pid == identity.pid
    with rpc.connect(home_of(stage)) as client:
        assert client.hello().pid == identity.pid
    assert agentctl_of(stage, "daemon", "status").code == 0
