"""inotify only makes us notice changes early. Where this user has no inotify instance or watch left, we
poll by the clock, report the limit and a remedy, and return to inotify by ourselves.

Each test lowers the limits of a user namespace of its own, as an ordinary user may.
"""

import json
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agentctl.daemon_client import lock_file
from agentctl.system.inotify import NO_INSTANCE, NO_WATCH
from agentctl.system.pidfd import Handle
from tests.daemon.serving import daemons_of, home_of
from tests.fakes.demo import DemoStage
from tests.receiver import Receiver
from tests.rooms import Room
from tests.running import Ran, read_until
from tests.waiting import until

REASONS = {"max_inotify_instances": NO_INSTANCE, "max_inotify_watches": NO_WATCH}
STAGE = DemoStage
WATCHING_PARTS = ("guard", "observer", "clock", "courier")  # the parts that wait for files


@pytest.fixture(params=REASONS)
def limit(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def room(limit: str) -> Iterator[Room]:
    """A room in which that limit is used up."""
    with Room() as room:
        room.limit(limit, 0)
        yield room


def require_success(ran: Ran) -> Ran:
    assert ran.code == 0, ran.err
    return ran


def launch(room: Room, stage: DemoStage, prompt: str) -> str:
    ran = require_success(room.agentctl(stage, "launch", "demo", "-p", prompt, "--cwd", str(stage.work)))
    return ran.out.strip()


def answer_wait(stage: DemoStage, session_id: str, status: str) -> None:
    """Wait for that status, then let the agent take its next step, as if a person answered."""
    until(lambda: stage.session(session_id).verdict.status == status, f"it is {status}")
    owner = stage.session(session_id).observation.owner
    assert owner is not None
    with Handle(owner.identity) as handle:
        handle.signal(signal.SIGUSR1)


def read_parts(room: Room, stage: DemoStage) -> dict[str, dict[str, Any]]:
    parts = json.loads(require_success(room.agentctl(stage, "daemon", "status", "--json")).out)[
        "daemon"
    ]["parts"]
    return {part["name"]: part for part in parts}


def test_the_daemon_goes_on_and_recovers(room: Room, stage: DemoStage, limit: str) -> None:
    started = require_success(room.agentctl(stage, "daemon", "start"))
    assert started.out.startswith("started: ")
    assert REASONS[limit] in started.err
    assert len(started.err.splitlines()) == 1

    session = room.agentctl(stage, "launch", "demo", "-p", "rest", "--cwd", str(stage.work))
    assert require_success(session).out.strip()
    assert REASONS[limit] in session.err

    def degraded() -> list[str]:
        by_name = read_parts(room, stage)
        return [name for name in WATCHING_PARTS if by_name[name].get("problem") == REASONS[limit]]

    until(lambda: degraded() == list(WATCHING_PARTS), "each of its parts says so", beat=0.2)
    daemon = require_success(room.agentctl(stage, "daemon"))
    assert daemon.err.count(REASONS[limit]) == 1
    assert f"{REASONS[limit]}\n" in daemon.out
    doctor = room.agentctl(stage, "doctor", "--json")
    assert REASONS[limit] in doctor.out

    room.limit(limit, 1000)
    until(lambda: degraded() == [], "each of its parts uses inotify again", beat=0.2)
    assert require_success(room.agentctl(stage, "daemon", "start")).err == ""


@pytest.mark.few(1)
def test_fuses_fire_and_events_are_delivered(room: Room, stage: DemoStage, limit: str) -> None:
    with Receiver() as receiver:
        (stage.root / "state").mkdir()
        config = f'[webhooks.ci]\nurl = "{receiver.url}"\nevents = ["user.*"]\n'
        (stage.root / "state" / "config.toml").write_text(config)
        require_success(room.agentctl(stage, "daemon", "start"))
        fired = stage.work / "fired"
        words = ("--in", "1s", "--run", f"touch {fired}", "--emit", "late")
        ran = require_success(room.agentctl(stage, "fuse", "set", str(stage.work), *words))
        assert REASONS[limit] in ran.err
        until(fired.exists, "the fuse has fired")
        until(lambda: bool(receiver.requests), "its event was delivered")


@pytest.mark.few(1)
def test_the_daemon_sends_events(room: Room, stage: DemoStage) -> None:
    session = launch(room, stage, "rest, ask, exit 0")
    require_success(room.agentctl(stage, "daemon", "start"))
    words = ("events", "--session", session, "--count", "1", "--since", "0", "--type")
    require_success(room.agentctl(stage, *words, "session.idle"))
    answer_wait(stage, session, "idle")
    require_success(room.agentctl(stage, *words, "session.waiting"))
    answer_wait(stage, session, "waiting")
    require_success(room.agentctl(stage, *words, "session.stopped"))


@pytest.mark.few(1)
def test_a_daemon_whose_home_is_deleted_ends(room: Room, stage: DemoStage) -> None:
    require_success(room.agentctl(stage, "daemon", "start"))
    assert lock_file.find_proven(home_of(stage)) is not None
    shutil.rmtree(home_of(stage))
    until(lambda: daemons_of(stage) == [], "it has ended")


@pytest.mark.few(1)
def test_wait_and_launch_wait_return(room: Room, stage: DemoStage) -> None:
    session = launch(room, stage, "rest, ask, exit 0")
    with room.started(stage, "-m", "agentctl", "wait", session, "--for", "waiting") as waits:
        answer_wait(stage, session, "idle")
        read_until(waits, b"waiting")
        assert waits.wait(20) == 0
    with room.started(stage, "-m", "agentctl", "wait", session) as waits:
        answer_wait(stage, session, "waiting")
        read_until(waits, b"stopped (completed")
    ran = room.agentctl(stage, "launch", "demo", "-p", "exit 3", "--cwd", str(stage.work), "--wait")
    assert (ran.code, "exit code 3" in ran.err) == (1, True), ran.err


def test_wait_names_the_limit_and_does_not_blame_the_disk(
    room: Room, stage: DemoStage, limit: str
) -> None:
    session = launch(room, stage, "rest")
    ran = room.agentctl(stage, "wait", session, "--timeout", "1s")
    assert ran.code == 124
    assert "it is idle" in ran.err
    assert ran.err.count(REASONS[limit]) == 1
    assert "disk" not in ran.err


@pytest.mark.few(1)
def test_logs_and_events_follow(room: Room, stage: DemoStage) -> None:
    with (
        room.started(stage, "-m", "agentctl.demo.agent", "--steps", "the prompt") as agent,
        room.started(stage, "-m", "agentctl", "events", "--no-daemon", "--json") as events,
    ):
        session = read_until(agent, b"\n").decode().strip()

        def sees_changes() -> bool:
            """True once a change makes an event: what changes before the first look makes none."""
            for what in ("work", "rest"):
                take_step(agent, what)
            assert events.stdout is not None
            return bool(select.select([events.stdout], [], [], 1.0)[0])

        until(sees_changes, "events arrive")
        with room.started(stage, "-m", "agentctl", "logs", "-f", session) as logs:
            read_until(logs, b"the prompt")
            take_step(agent, "ask")
            read_until(events, b'"session.waiting"')
            with open(stage.home / ".demo-agent" / "sessions" / f"{session}.jsonl", "a") as file:
                file.write(
                    json.dumps({"type": "say", "at": time.time(), "role": "assistant", "text": "hello"})
                    + "\n"
                )
            read_until(logs, b"hello")


def take_step(agent: "subprocess.Popen[bytes]", what: str) -> None:
    """Take one step of the agent. Return when its files show it."""
    assert agent.stdin is not None
    agent.stdin.write(f"{what}\n".encode())
    agent.stdin.flush()
    read_until(agent, b"\n")
