"""What we do ourselves is told by the transaction that does it."""

import os
from pathlib import Path

import pytest

from agentctl.errors import Refused
from agentctl.state import journal, launch_writes, locks
from agentctl.system import proc
from agentctl.truth.model import Exit, HookRun, Launch

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def told(path: str) -> list[str]:
    return [event.type for event in journal.after(path, 0)]


def test_a_launch_from_its_start_to_its_end(path: str, tmp_path: Path) -> None:
    note = Launch("1a", ME, name="n", group="g", adapter="demo", cwd=str(tmp_path), created_at=5.0)
    launch_writes.begin(path, note)
    for _ in range(2):  # that another process runs it is nothing to tell
        launch_writes.learned(path, note._replace(session_id="s1"))
    launch_writes.hook_ran(path, "1a", HookRun("on-create", "true", 0, 0.1, "/out"))
    launch_writes.expired(path, "1a")
    launch_writes.claim_end(path, "1a", Exit(-15, 9.0, ""))
    launch_writes.claim_end(path, "1a", Exit(-15, 9.0, ""))
    launch_writes.hook_ran(path, "1a", HookRun("on-complete", "false", 1, 0.1, "/out"))
    assert told(path) == [
        "lock.acquired",
        "launch.started",
        "launch.identified",
        "hook.succeeded",
        "launch.expired",
        "launch.ended",
        "hook.failed",
    ]
    started, ended = journal.after(path, 0)[1], journal.after(path, 0)[5]
    assert (started.at, started.subject, started.adapter, started.group) == (5.0, None, "demo", "g")
    assert (ended.at, ended.subject, ended.body["data"]["exit_code"]) == (9.0, "s1", -15)
    assert ended.body["data"]["launch"] == "1a"


def test_an_end_that_nobody_saw_has_no_code(path: str) -> None:
    launch_writes.begin(path, Launch("1a", DEAD))
    launch_writes.claim_end(path, "1a")
    ended = journal.after(path, 0)[-1]
    assert (ended.type, ended.body["data"]["exit_code"]) == ("launch.ended", None)


def test_a_launch_that_is_refused_is_not_told(path: str, tmp_path: Path) -> None:
    locks.acquire(path, str(tmp_path), "me", None, None)
    with pytest.raises(Refused):
        launch_writes.begin(path, Launch("1a", ME, cwd=str(tmp_path)))
    assert told(path) == ["lock.acquired"]


def test_a_launch_that_failed_says_why_and_frees_its_directory(path: str, tmp_path: Path) -> None:
    launch_writes.begin(path, Launch("1a", ME, cwd=str(tmp_path)))
    launch_writes.failed(path, "1a", "no such model")
    assert told(path) == ["lock.acquired", "launch.started", "launch.failed", "lock.released"]
    assert journal.after(path, 0)[2].body["data"]["why"] == "no such model"


def test_a_launch_without_a_note_is_nobodys_to_tell_of(path: str) -> None:
    launch_writes.hook_ran(path, "none", HookRun("on-create", "true", 0, 0.1, "/out"))
    assert told(path) == []


def test_a_lock_is_released_by_a_person_or_by_a_death(path: str, tmp_path: Path) -> None:
    locks.acquire(path, str(tmp_path), "me", "reading", None)
    locks.release(path, str(tmp_path), force=False)
    launch_writes.begin(path, Launch("1a", DEAD, cwd=str(tmp_path)))
    locks.sweep(path)
    found = [e for e in journal.after(path, 0) if e.type == "lock.released"]
    assert [e.body["data"]["why"] for e in found] == ["released by a person", "its agent has ended"]
    assert {e.subject for e in found} == {str(tmp_path)}


def test_a_lock_whose_time_is_over_has_expired(path: str, tmp_path: Path) -> None:
    lock = locks.acquire(path, str(tmp_path), "me", None, 0.001)
    while lock.held:
        pass
    locks.acquire(path, str(tmp_path), "you", None, None)
    assert told(path) == ["lock.acquired", "lock.expired", "lock.acquired"]
    assert journal.after(path, 0)[1].at == lock.expires_at


def test_what_is_forgotten_before_its_end_was_told_has_ended_all_the_same(path: str) -> None:
    for name in ("1a", "2b", "3c"):
        launch_writes.begin(path, Launch(name, DEAD))
    launch_writes.claim_end(path, "3c", Exit(0, 9.0, ""))
    launch_writes.forget(path, ["1a", "2b", "3c", "none"], never_began={"2b"})
    ends = [e for e in journal.after(path, 0) if e.type in ("launch.ended", "launch.failed")]
    assert [(e.type, e.body["data"]["launch"]) for e in ends] == [
        ("launch.ended", "3c"),
        ("launch.ended", "1a"),
        ("launch.failed", "2b"),
    ]
