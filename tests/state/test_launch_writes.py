"""Writing launch notes: note and lock in one step, and one end per launch."""

import os
import sqlite3
from pathlib import Path

import pytest

from agentctl.errors import Refused
from agentctl.state import journal, launch_writes, launches, locks
from agentctl.system import proc
from agentctl.truth.model import Exit, HookRun, Launch
from tests.state.events import read_event_types
from tests.state.racing import race

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)


def test_a_launch_begins_with_note_and_lock(path: str, work: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", ME, "4f2a", "the name", cwd=work))
    assert [(note.id, note.cwd) for note in launches.read_launches(path)] == [("1a", work)]
    [lock] = locks.list_held(path)
    assert (lock.directory, lock.launch_id, lock.identity) == (work, "1a", ME)
    assert (lock.session_id, lock.name) == ("4f2a", "the name")


def test_a_refused_launch_leaves_no_note(path: str, work: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", ME, cwd=work))
    with pytest.raises(Refused):
        launch_writes.begin_launch(path, Launch("2b", ME, cwd=work))
    assert [note.id for note in launches.read_launches(path)] == ["1a"]


def test_a_note_that_cannot_be_written_leaves_no_lock(path: str, work: str) -> None:
    with pytest.raises(Exception, match="not UTF-8"):
        launch_writes.begin_launch(path, Launch("1a", ME, name="\udcff", cwd=work))
    assert locks.read_locks(path) == []
    assert launches.read_launches(path) == []


def test_of_twenty_in_one_directory_one_begins(path: str, work: str) -> None:
    code = "launch_writes.begin_launch(sys.argv[1], Launch(str(me.pid), me, cwd=sys.argv[2]))"
    lines = race(20, code, path, work)
    assert lines.count("won") == 1
    assert sum(line.startswith(f"Refused {work} is in use by launch ") for line in lines) == 19
    assert len(launches.read_launches(path)) == 1


def test_twenty_in_directories_of_their_own_all_begin(path: str, work: str) -> None:
    code = (
        "own = f'{sys.argv[2]}/{me.pid}'; os.mkdir(own); "
        "launch_writes.begin_launch(sys.argv[1], Launch(str(me.pid), me, cwd=own))"
    )
    assert race(20, code, path, work) == ["won"] * 20
    assert len(launches.read_launches(path)) == len(locks.read_locks(path)) == 20


def test_the_lock_moves_to_the_process_that_runs_the_session(path: str, work: str) -> None:
    note = Launch("1a", ME, cwd=work)
    launch_writes.begin_launch(path, note)
    launch_writes.record_session(path, note._replace(session_id="4f2a", identity=DEAD))
    [row] = launches.read_launches(path)
    assert (row.session_id, row.identity) == ("4f2a", DEAD)
    assert [lock.identity for lock in locks.read_locks(path)] == [DEAD]
    assert locks.list_held(path) == []  # that one is dead


def test_an_end_is_claimed_once(path: str) -> None:
    assert not launch_writes.claim_end(path, "1a")  # there is no such launch
    launch_writes.begin_launch(path, Launch("1a", ME))
    launch_writes.begin_launch(path, Launch("2b", ME))
    assert launch_writes.claim_end(path, "1a")
    assert not launch_writes.claim_end(path, "1a")
    assert launch_writes.claim_end(path, "2b")


def test_one_of_twenty_processes_claims_an_end(path: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", ME))
    lines = race(
        20, "assert launch_writes.claim_end(sys.argv[1], '1a') or sys.stdout.write('not ')", path
    )
    assert sorted(lines) == [*["not won"] * 19, "won"]


def test_a_note_has_the_exit_and_the_hooks(path: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", ME))
    launch_writes.claim_end(path, "1a", Exit(-9, 12.5, "anywhere"))
    runs = [
        HookRun("on-create", "a 'b' \"c\"\n", 0, 0.5, "/o"),
        HookRun("on-complete", "x", None, 300.0, "/p"),
    ]
    for run in runs:
        launch_writes.record_hook(path, "1a", run)
    [note] = launches.read_launches(path)
    assert note.exit == Exit(-9, 12.5, f"{path}#1a")
    assert note.hooks == tuple(runs)


def test_a_forgotten_launch_leaves_nothing(path: str, work: str) -> None:
    for number, launch_id in enumerate(("1a", "2b", "3c")):
        os.mkdir(f"{work}/{number}")
        launch_writes.begin_launch(path, Launch(launch_id, ME, cwd=f"{work}/{number}"))
    launch_writes.forget_launches(path, ["1a", "3c", "absent"])
    assert [note.id for note in launches.read_launches(path)] == ["2b"]
    assert [lock.launch_id for lock in locks.read_locks(path)] == ["2b"]


def test_a_note_has_the_pid_namespace_of_its_process(path: str) -> None:
    """From another namespace it is not visible whether the process is dead."""
    launch_writes.begin_launch(path, Launch("1a", ME))
    connection = sqlite3.connect(path)
    row = connection.execute("select detail ->> 'namespace' from launch").fetchone()
    connection.close()
    assert row == (os.readlink("/proc/self/ns/pid"),)


def test_a_clock_that_was_set_back_while_it_ran_is_noted(path: str) -> None:
    for name, back in (("1a", 7200.0), ("2b", 0.001)):
        launch_writes.begin_launch(path, Launch(name, ME, created_at=float(back < 1)))
        launch_writes.claim_end(path, name, Exit(0, 12.5, "", back))
    assert [note.exit.clock_back for note in launches.read_launches(path) if note.exit] == [
        7200.0,
        0.0,
    ]


def test_the_shims_record_has_it_too(path: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", ME))
    folder = Path(launches.launch_folder(path, "1a"))
    folder.mkdir(parents=True)
    (folder / "exit").write_text('{"code": 3, "at": 12.5, "clock_back_s": 60.000}   ')
    assert launches.read_exit_record(path, "1a") == Exit(3, 12.5, f"{folder}/exit", 60.0)


def test_a_launch_from_its_start_to_its_end(path: str, tmp_path: Path) -> None:
    note = Launch("1a", ME, name="n", group="g", adapter="demo", cwd=str(tmp_path), created_at=5.0)
    launch_writes.begin_launch(path, note)
    for _ in range(2):  # a second process of the session is no event
        launch_writes.record_session(path, note._replace(session_id="s1"))
    launch_writes.record_hook(path, "1a", HookRun("on-create", "true", 0, 0.1, "/out"))
    launch_writes.record_expiry(path, "1a")
    launch_writes.claim_end(path, "1a", Exit(-15, 9.0, ""))
    launch_writes.claim_end(path, "1a", Exit(-15, 9.0, ""))
    launch_writes.record_hook(path, "1a", HookRun("on-complete", "false", 1, 0.1, "/out"))
    assert read_event_types(path) == [
        "lock.acquired",
        "launch.started",
        "launch.identified",
        "hook.succeeded",
        "launch.expired",
        "launch.ended",
        "hook.failed",
    ]
    start, end = journal.read_after(path, 0)[1], journal.read_after(path, 0)[5]
    assert (start.at, start.subject, start.adapter, start.group) == (5.0, None, "demo", "g")
    assert (end.at, end.subject, end.body["data"]["exit_code"]) == (9.0, "s1", -15)
    assert end.body["data"]["launch"] == "1a"


def test_an_unseen_end_has_no_code(path: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", DEAD))
    launch_writes.claim_end(path, "1a")
    end = journal.read_after(path, 0)[-1]
    assert (end.type, end.body["data"]["exit_code"]) == ("launch.ended", None)


def test_a_refused_launch_is_no_event(path: str, tmp_path: Path) -> None:
    locks.acquire_lock(path, str(tmp_path), "me", None, None)
    with pytest.raises(Refused):
        launch_writes.begin_launch(path, Launch("1a", ME, cwd=str(tmp_path)))
    assert read_event_types(path) == ["lock.acquired"]


def test_a_failed_launch_records_why_and_frees_its_directory(path: str, tmp_path: Path) -> None:
    launch_writes.begin_launch(path, Launch("1a", ME, cwd=str(tmp_path)))
    launch_writes.record_failure(path, "1a", "no such model")
    assert read_event_types(path) == [
        "lock.acquired",
        "launch.started",
        "launch.failed",
        "lock.released",
    ]
    assert journal.read_after(path, 0)[2].body["data"]["why"] == "no such model"


def test_a_hook_of_a_launch_without_a_note_is_no_event(path: str) -> None:
    launch_writes.record_hook(path, "none", HookRun("on-create", "true", 0, 0.1, "/out"))
    assert read_event_types(path) == []


def test_a_lock_is_released_by_a_person_or_by_a_death(path: str, tmp_path: Path) -> None:
    locks.acquire_lock(path, str(tmp_path), "me", "reading", None)
    locks.release_locks(path, str(tmp_path), force=False)
    launch_writes.begin_launch(path, Launch("1a", DEAD, cwd=str(tmp_path)))
    locks.sweep_locks(path)
    releases = [e for e in journal.read_after(path, 0) if e.type == "lock.released"]
    assert [e.body["data"]["why"] for e in releases] == ["released by a person", "its agent has ended"]
    assert {e.subject for e in releases} == {str(tmp_path)}


def test_an_expired_lock_is_an_event(path: str, tmp_path: Path) -> None:
    lock = locks.acquire_lock(path, str(tmp_path), "me", None, 0.001)
    while lock.is_held:
        pass
    locks.acquire_lock(path, str(tmp_path), "you", None, None)
    assert read_event_types(path) == ["lock.acquired", "lock.expired", "lock.acquired"]
    assert journal.read_after(path, 0)[1].at == lock.expires_at


def test_forgetting_a_launch_records_its_end(path: str) -> None:
    for name in ("1a", "2b", "3c"):
        launch_writes.begin_launch(path, Launch(name, DEAD))
    launch_writes.claim_end(path, "3c", Exit(0, 9.0, ""))
    launch_writes.forget_launches(path, ["1a", "2b", "3c", "none"], never_began={"2b"})
    ends = [e for e in journal.read_after(path, 0) if e.type in ("launch.ended", "launch.failed")]
    assert [(e.type, e.body["data"]["launch"]) for e in ends] == [
        ("launch.ended", "3c"),
        ("launch.ended", "1a"),
        ("launch.failed", "2b"),
    ]
