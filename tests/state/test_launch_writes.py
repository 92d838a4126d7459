"""Writes launch notes: note and lock in one step, one end per launch, whoever asks."""

import os
import sqlite3
from pathlib import Path

import pytest

from agentctl.errors import Refused
from agentctl.state import launch_writes, launches, locks
from agentctl.system import proc
from agentctl.truth.model import Exit, HookRun, Launch
from tests.state.racing import race

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
OTHER = ME._replace(start=ME.start - 1)


def test_a_launch_begins_with_note_and_lock(path: str, work: str) -> None:
    launch_writes.begin(path, Launch("1a", ME, "4f2a", "the name", cwd=work))
    assert [(note.id, note.cwd) for note in launches.recorded(path)] == [("1a", work)]
    [lock] = locks.held(path)
    assert (lock.directory, lock.launch_id, lock.identity) == (work, "1a", ME)
    assert (lock.session_id, lock.name) == ("4f2a", "the name")


def test_a_refused_launch_leaves_no_note(path: str, work: str) -> None:
    launch_writes.begin(path, Launch("1a", ME, cwd=work))
    with pytest.raises(Refused):
        launch_writes.begin(path, Launch("2b", ME, cwd=work))
    assert [note.id for note in launches.recorded(path)] == ["1a"]


def test_a_note_that_cannot_be_written_leaves_no_lock(path: str, work: str) -> None:
    with pytest.raises(Exception, match="not UTF-8"):
        launch_writes.begin(path, Launch("1a", ME, name="\udcff", cwd=work))
    assert locks.written(path) == []
    assert launches.recorded(path) == []


def test_of_twenty_in_one_directory_one_begins(path: str, work: str) -> None:
    deed = "launch_writes.begin(sys.argv[1], Launch(str(me.pid), me, cwd=sys.argv[2]))"
    told = race(20, deed, path, work)
    assert told.count("won") == 1
    assert sum(line.startswith(f"Refused {work} is in use by launch ") for line in told) == 19
    assert len(launches.recorded(path)) == 1


def test_twenty_in_directories_of_their_own_all_begin(path: str, work: str) -> None:
    deed = (
        "own = f'{sys.argv[2]}/{me.pid}'; os.mkdir(own); "
        "launch_writes.begin(sys.argv[1], Launch(str(me.pid), me, cwd=own))"
    )
    assert race(20, deed, path, work) == ["won"] * 20
    assert len(launches.recorded(path)) == len(locks.written(path)) == 20


def test_what_is_learned_moves_the_lock_to_the_process_that_runs_it(path: str, work: str) -> None:
    note = Launch("1a", ME, cwd=work)
    launch_writes.begin(path, note)
    launch_writes.learned(path, note._replace(session_id="4f2a", identity=OTHER))
    [known] = launches.recorded(path)
    assert (known.session_id, known.identity) == ("4f2a", OTHER)
    assert [lock.identity for lock in locks.written(path)] == [OTHER]
    assert locks.held(path) == []  # that one is dead


def test_an_end_is_claimed_once(path: str) -> None:
    assert not launch_writes.claim_end(path, "1a")  # nobody knows it
    launch_writes.begin(path, Launch("1a", ME))
    launch_writes.begin(path, Launch("2b", ME))
    assert launch_writes.claim_end(path, "1a")
    assert not launch_writes.claim_end(path, "1a")
    assert launch_writes.claim_end(path, "2b")


def test_of_twenty_who_claim_an_end_one_has_it(path: str) -> None:
    launch_writes.begin(path, Launch("1a", ME))
    told = race(
        20, "assert launch_writes.claim_end(sys.argv[1], '1a') or sys.stdout.write('not ')", path
    )
    assert sorted(told) == [*["not won"] * 19, "won"]


def test_how_it_ended_and_what_its_hooks_did(path: str) -> None:
    launch_writes.begin(path, Launch("1a", ME))
    launch_writes.claim_end(path, "1a", Exit(-9, 12.5, "anywhere"))
    runs = [
        HookRun("on-create", "a 'b' \"c\"\n", 0, 0.5, "/o"),
        HookRun("on-complete", "x", None, 300.0, "/p"),
    ]
    for run in runs:
        launch_writes.hook_ran(path, "1a", run)
    [note] = launches.recorded(path)
    assert note.ended == Exit(-9, 12.5, f"{path}#1a")
    assert note.hooks == tuple(runs)


def test_what_is_forgotten_leaves_nothing(path: str, work: str) -> None:
    for number, launch_id in enumerate(("1a", "2b", "3c")):
        os.mkdir(f"{work}/{number}")
        launch_writes.begin(path, Launch(launch_id, ME, cwd=f"{work}/{number}"))
    launch_writes.forget(path, ["1a", "3c", "absent"])
    assert [note.id for note in launches.recorded(path)] == ["2b"]
    assert [lock.launch_id for lock in locks.written(path)] == ["2b"]


def test_a_note_knows_where_its_process_can_be_seen(path: str) -> None:
    """In which pid namespace, for whoever asks later whether it is dead."""
    launch_writes.begin(path, Launch("1a", ME))
    connection = sqlite3.connect(path)
    told = connection.execute("select detail ->> 'namespace' from launch").fetchone()
    connection.close()
    assert told == (os.readlink("/proc/self/ns/pid"),)


def test_a_clock_that_was_set_back_while_it_ran_is_noted(path: str) -> None:
    for name, back in (("1a", 7200.0), ("2b", 0.001)):
        launch_writes.begin(path, Launch(name, ME, created_at=float(back < 1)))
        launch_writes.claim_end(path, name, Exit(0, 12.5, "", back))
    assert [note.ended.clock_back for note in launches.recorded(path) if note.ended] == [7200.0, 0.0]


def test_the_shims_own_record_tells_it_too(path: str) -> None:
    launch_writes.begin(path, Launch("1a", ME))
    folder = Path(launches.folder(path, "1a"))
    folder.mkdir(parents=True)
    (folder / "exit").write_text('{"code": 3, "at": 12.5, "clock_back_s": 60.000}   ')
    assert launches.exit_record(path, "1a") == Exit(3, 12.5, f"{folder}/exit", 60.0)
