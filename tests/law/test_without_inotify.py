"""inotify makes news arrive early, and nothing else: where the kernel has no instance or no watch left
for this user, everything goes on by the clock, says so with what to do, and returns to inotify by
itself.

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
LOOKING = ("guard", "observer", "clock", "courier")  # the parts that wait for files


@pytest.fixture(params=REASONS)
def limit(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def room(limit: str) -> Iterator[Room]:
    """In which that is used up."""
    with Room() as made:
        made.limit(limit, 0)
        yield made


def did(ran: Ran) -> Ran:
    assert ran.code == 0, ran.err
    return ran


def launched(room: Room, stage: DemoStage, prompt: str) -> str:
    ran = did(room.agentctl(stage, "launch", "demo", "-p", prompt, "--cwd", str(stage.work)))
    return ran.out.strip()


def answer(stage: DemoStage, session_id: str, status: str) -> None:
    """A person answers, once it is in that state: it goes on with its next step."""
    until(lambda: stage.session(session_id).verdict.status == status, f"it is {status}")
    owner = stage.session(session_id).seen.owner
    assert owner is not None
    with Handle(owner.identity) as handle:
        handle.signal(signal.SIGUSR1)


def parts(room: Room, stage: DemoStage) -> dict[str, dict[str, Any]]:
    told = json.loads(did(room.agentctl(stage, "daemon", "status", "--json")).out)["daemon"]["parts"]
    return {part["name"]: part for part in told}


def test_the_daemon_goes_on_says_why_and_recovers(room: Room, stage: DemoStage, limit: str) -> None:
    started = did(room.agentctl(stage, "daemon", "start"))
    assert started.out.startswith("started: ")
    assert REASONS[limit] in started.err
    assert len(started.err.splitlines()) == 1

    session = room.agentctl(stage, "launch", "demo", "-p", "rest", "--cwd", str(stage.work))
    assert did(session).out.strip()
    assert REASONS[limit] in session.err

    def degraded() -> list[str]:
        told = parts(room, stage)
        return [name for name in LOOKING if told[name].get("problem") == REASONS[limit]]

    until(lambda: degraded() == list(LOOKING), "each of its parts says so", beat=0.2)
    shown = did(room.agentctl(stage, "daemon"))
    assert shown.err.count(REASONS[limit]) == 1
    assert f"{REASONS[limit]}\n" in shown.out
    doctor = room.agentctl(stage, "doctor", "--json")
    assert REASONS[limit] in doctor.out

    room.limit(limit, 1000)
    until(lambda: degraded() == [], "each of its parts is told of changes again", beat=0.2)
    assert did(room.agentctl(stage, "daemon", "start")).err == ""


def test_fuses_burn_and_events_are_delivered(room: Room, stage: DemoStage, limit: str) -> None:
    with Receiver() as receiver:
        (stage.root / "state").mkdir()
        config = f'[webhooks.ci]\nurl = "{receiver.url}"\nevents = ["user.*"]\n'
        (stage.root / "state" / "config.toml").write_text(config)
        did(room.agentctl(stage, "daemon", "start"))
        fired = stage.work / "fired"
        words = ("--in", "1s", "--run", f"touch {fired}", "--emit", "late")
        ran = did(room.agentctl(stage, "fuse", "set", str(stage.work), *words))
        assert REASONS[limit] in ran.err
        until(fired.exists, "the fuse has fired")
        until(lambda: bool(receiver.requests), "its event was delivered")


def test_the_daemon_tells_what_changes(room: Room, stage: DemoStage) -> None:
    session = launched(room, stage, "rest, ask, exit 0")
    did(room.agentctl(stage, "daemon", "start"))
    words = ("events", "--session", session, "--count", "1", "--since", "0", "--type")
    did(room.agentctl(stage, *words, "session.idle"))
    answer(stage, session, "idle")
    did(room.agentctl(stage, *words, "session.waiting"))
    answer(stage, session, "waiting")
    did(room.agentctl(stage, *words, "session.stopped"))


def test_a_daemon_whose_home_is_deleted_ends(room: Room, stage: DemoStage) -> None:
    did(room.agentctl(stage, "daemon", "start"))
    assert lock_file.proven(home_of(stage)) is not None
    shutil.rmtree(home_of(stage))
    until(lambda: daemons_of(stage) == [], "it has ended")


def test_wait_and_launch_wait(room: Room, stage: DemoStage) -> None:
    session = launched(room, stage, "rest, ask, exit 0")
    with room.started(stage, "-m", "agentctl", "wait", session, "--for", "waiting") as waits:
        answer(stage, session, "idle")
        read_until(waits, b"waiting")
        assert waits.wait(20) == 0
    with room.started(stage, "-m", "agentctl", "wait", session) as waits:
        answer(stage, session, "waiting")
        read_until(waits, b"stopped (completed")
    ran = room.agentctl(stage, "launch", "demo", "-p", "exit 3", "--cwd", str(stage.work), "--wait")
    assert (ran.code, "exit code 3" in ran.err) == (1, True), ran.err


def test_wait_names_the_limit_and_no_disk(room: Room, stage: DemoStage, limit: str) -> None:
    session = launched(room, stage, "rest")
    ran = room.agentctl(stage, "wait", session, "--timeout", "1s")
    assert ran.code == 124
    assert "it is idle" in ran.err
    assert ran.err.count(REASONS[limit]) == 1
    assert "disk" not in ran.err


def test_logs_and_events_follow(room: Room, stage: DemoStage) -> None:
    with (
        room.started(stage, "-m", "agentctl.demo.agent", "--steps", "the prompt") as agent,
        room.started(stage, "-m", "agentctl", "events", "--no-daemon", "--json") as events,
    ):
        session = read_until(agent, b"\n").decode().strip()

        def watches() -> bool:
            """What is so before it has looked once, it does not tell."""
            for what in ("work", "rest"):
                step(agent, what)
            assert events.stdout is not None
            return bool(select.select([events.stdout], [], [], 1.0)[0])

        until(watches, "events are told")
        with room.started(stage, "-m", "agentctl", "logs", "-f", session) as logs:
            read_until(logs, b"the prompt")
            step(agent, "ask")
            read_until(events, b'"session.waiting"')
            with open(stage.home / ".demo-agent" / "sessions" / f"{session}.jsonl", "a") as file:
                file.write(
                    json.dumps({"type": "say", "at": time.time(), "role": "assistant", "text": "hello"})
                    + "\n"
                )
            read_until(logs, b"hello")


def step(agent: "subprocess.Popen[bytes]", what: str) -> None:
    """Returns when its files say so."""
    assert agent.stdin is not None
    agent.stdin.write(f"{what}\n".encode())
    agent.stdin.flush()
    read_until(agent, b"\n")
