"""Fuses are lit, extended and cancelled, each with its event; a launch puts out what burns there."""

import os
from pathlib import Path

import pytest

from agentctl.errors import NotFound, Refused
from agentctl.state import db, fuse_firing, fuse_rows, fuses, journal, launch_writes
from agentctl.state import fuse as clocks
from agentctl.state.fuse import Action, Fuse, Moment
from agentctl.system import proc
from agentctl.truth.model import Exit, Launch

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)
EMIT = (Action("emit", "late"),)
NOON = Moment("boot", 100.0, 1e9)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def told(path: str) -> list[str]:
    return [event.type for event in journal.after(path, 0) if event.type.startswith("fuse.")]


def states(path: str) -> list[str]:
    return [each.state for each in fuses.recorded(path)]


def later(seconds: float, *, boot: str = "boot", wall: float | None = None) -> Moment:
    return Moment(boot, NOON.elapsed + seconds, NOON.at + (seconds if wall is None else wall))


def in_work(path: str, seconds: float = 60.0) -> Fuse:
    return fuses.light(path, EMIT, seconds, directory="/work", moment=NOON)


def test_whether_there_is_anything_to_see_to(path: str) -> None:
    assert not fuses.any_lit(path)
    made = in_work(path)
    assert fuses.any_lit(path)
    fuses.cancel(path, made.id, "said so")
    assert not fuses.any_lit(path)


def test_it_is_due_when_its_time_is_over(path: str) -> None:
    made = in_work(path)
    assert fuses.due(path, later(59)) == []
    assert [each.id for each in fuses.due(path, later(60))] == [made.id]
    assert told(path) == ["fuse.set"]
    (event,) = journal.after(path, 0)
    assert (event.subject, event.body["data"]["fuse"]) == ("/work", made.id)


def test_to_set_the_clock_changes_nothing_but_the_time_of_day_it_is_due_at(path: str) -> None:
    in_work(path)
    assert fuses.due(path, later(10, wall=1e6)) == []
    assert len(fuses.due(path, later(60, wall=-1e6))) == 1
    fuses.keep_time(path, later(10, wall=10 + 3600))
    (known,) = fuses.recorded(path)
    assert known.due_at == pytest.approx(NOON.at + 60 + 3600)
    assert fuses.due(path, later(10, wall=10 + 3600)) == []
    assert fuses.due(path, Moment("next boot", 1.0, NOON.at + 61)) == []  # an hour too early by now
    assert len(fuses.due(path, Moment("next boot", 1.0, NOON.at + 61 + 3600))) == 1


def test_to_keep_time_writes_nothing_while_nobody_sets_it(path: str) -> None:
    in_work(path)
    before = Path(f"{path}").stat().st_mtime_ns
    fuses.keep_time(path, later(30))
    fuses.keep_time(path, Moment("another boot", 5.0, 0.0))
    assert Path(path).stat().st_mtime_ns == before
    assert fuses.recorded(path)[0].due_at == NOON.at + 60


def test_extended_by_more_or_anew(path: str) -> None:
    made = in_work(path)
    assert fuses.extend(path, made.id, 30, anew=False, moment=later(10)).left(later(10)) == 80
    assert fuses.extend(path, made.id, 30, anew=True, moment=later(10)).left(later(10)) == 30
    overdue = later(1000)
    assert fuses.extend(path, made.id, 30, anew=False, moment=overdue).left(overdue) == 30
    after_a_boot = Moment("next", 3.0, NOON.at + 1010)
    assert fuses.extend(path, made.id, 5, anew=False, moment=after_a_boot).left(after_a_boot) == 25
    assert told(path) == ["fuse.set", *["fuse.extended"] * 4]


def test_cancelled_is_over(path: str) -> None:
    made = in_work(path)
    assert fuses.cancel(path, made.id, "said so").reason == "said so"
    assert fuses.due(path, later(1000)) == []
    assert fuses.lit(path) == []
    with pytest.raises(Refused, match="has been cancelled"):
        fuses.cancel(path, made.id, "again")
    with pytest.raises(Refused, match="has been cancelled"):
        fuses.extend(path, made.id, 5, anew=True)
    with pytest.raises(NotFound):
        fuses.cancel(path, "nosuch", "")
    assert told(path) == ["fuse.set", "fuse.cancelled"]


def test_what_fires_is_not_cancelled_unless_nobody_goes_on_with_it(path: str) -> None:
    made = in_work(path)
    assert fuse_firing.claim(path, made.id, fuse_firing.ourselves(), later(60))
    with pytest.raises(Refused, match=f"is firing, by pid {os.getpid()}"):
        fuses.cancel(path, made.id, "")
    with pytest.raises(Refused, match="is firing"):
        fuses.extend(path, made.id, 5, anew=True)
    with db.transaction(path) as connection:
        connection.execute("update fuse set claimed_by = json_set(claimed_by, '$[2]', 1)")
    with pytest.raises(Refused, match="is firing"):
        fuses.extend(path, made.id, 5, anew=True)
    assert fuses.cancel(path, made.id, "").state == "cancelled"


def test_a_launch_there_cancels_it_and_one_that_fails_does_not(path: str, tmp_path: Path) -> None:
    here, there = str(tmp_path.resolve()), str(tmp_path.resolve() / "sub")
    fuses.light(path, EMIT, 60, directory=here)
    fuses.light(path, EMIT, 60, directory=there)
    launch_writes.begin(path, Launch("l1", ME, cwd=here))
    assert states(path) == ["cancelled", "burning"]
    assert fuses.recorded(path)[0].reason == "launch l1 began there"
    launch_writes.failed(path, "l1", "no such model")
    assert states(path) == ["burning", "burning"]
    assert told(path) == ["fuse.set", "fuse.set", "fuse.cancelled", "fuse.set"]
    launch_writes.begin(path, Launch("l2", ME, cwd=here), cancels_fuses=False)
    assert states(path) == ["burning", "burning"]


def test_a_launch_that_is_found_never_to_have_begun_has_cancelled_nothing(
    path: str, tmp_path: Path
) -> None:
    """Its launcher was killed, or the disk was too full to say that it has failed."""
    here = str(tmp_path.resolve())
    fuses.light(path, EMIT, 60, directory=here)
    launch_writes.begin(path, Launch("l1", DEAD, cwd=here))
    launch_writes.forget(path, ["l1"], never_began={"l1"})
    assert states(path) == ["burning"]


def test_one_that_a_launch_cancelled_stays_so_when_it_is_forgotten(path: str, tmp_path: Path) -> None:
    here = str(tmp_path.resolve())
    fuses.light(path, EMIT, 60, directory=here)
    launch_writes.begin(path, Launch("l1", DEAD, cwd=here))
    launch_writes.forget(path, ["l1"])
    assert states(path) == ["cancelled"]


def test_a_timeout_is_a_fuse_until_its_agent_ends(path: str) -> None:
    launch_writes.begin(path, Launch("l1", ME, "s1", adapter="demo"), timeout=3600)
    (made,) = fuses.lit(path)
    assert (made.launch_id, made.session_id, made.actions) == ("l1", "s1", (Action("stop"),))
    assert fuses.timeout_of(path, "l1") == made
    launch_writes.claim_end(path, "l1", Exit(0, 5.0, ""))
    assert fuses.lit(path) == []
    assert [each.reason for each in fuses.recorded(path)] == ["its agent has ended"]
    assert told(path) == ["fuse.set", "fuse.cancelled"]


def test_a_timeout_of_the_dead_is_not_shown_and_ends_in_its_time(path: str) -> None:
    """Not before: what is dead may be a wrapper, and the agent not known yet."""
    launch_writes.begin(path, Launch("l1", DEAD), timeout=3600)
    assert fuses.lit(path) == []
    assert fuses.due(path) == []
    timeout = fuses.timeout_of(path, "l1")
    assert timeout is not None
    assert fuses.moot(path, timeout.id) == timeout
    fuses.end_moot(path, timeout.id)
    assert fuses.moot(path, timeout.id) is None
    assert told(path) == ["fuse.set", "fuse.cancelled"]


def test_a_timeout_of_the_living_is_not_moot(path: str) -> None:
    launch_writes.begin(path, Launch("l1", ME), timeout=3600)
    (timeout,) = fuses.lit(path)
    assert fuses.moot(path, timeout.id) is None
    fuses.end_moot(path, timeout.id)
    assert states(path) == ["burning"]
    assert fuses.moot(path, "nosuch") is None


def test_a_forgotten_launch_takes_its_timeout_with_it(path: str) -> None:
    launch_writes.begin(path, Launch("l1", DEAD), timeout=3600)
    launch_writes.forget(path, ["l1"])
    assert fuses.recorded(path) == []
    assert told(path) == ["fuse.set", "fuse.cancelled"]


def test_no_timeout_no_fuse(path: str) -> None:
    launch_writes.begin(path, Launch("l1", ME))
    launch_writes.begin(path, Launch("l2", ME), timeout=0)
    assert fuses.recorded(path) == []


def test_settled_ones_do_not_pile_up(path: str) -> None:
    old = in_work(path)
    fuses.cancel(path, old.id, "", NOON)
    fuses.light(path, EMIT, 60, moment=later(fuses.KEEP - 1))
    assert len(fuses.recorded(path)) == 2
    fuses.light(path, EMIT, 60, moment=later(fuses.KEEP + 1))
    assert old.id not in [each.id for each in fuses.recorded(path)]


def test_the_next_one_comes_first(path: str) -> None:
    for seconds in (300, 100, 200):
        fuses.light(path, EMIT, seconds, label=str(seconds))
    assert [each.label for each in fuses.lit(path)] == ["100", "200", "300"]


def test_a_password_in_an_address_is_not_told(path: str) -> None:
    hook = Action("webhook", "https://me:secret@example.org/x?token=secret")
    fuses.light(path, (hook,), 60)
    assert "secret" not in str(journal.after(path, 0))
    with db.transaction(path) as connection:
        (found,) = fuse_rows.within(connection, "", ())
    assert found.actions == (hook,)


def test_of_a_moment_none_is_needed(path: str) -> None:
    made = fuses.light(path, EMIT, 60, directory="/work")
    assert 59 < made.left(clocks.now()) <= 60


def test_that_the_time_is_over_is_told_once_however_often_it_is_fired(path: str) -> None:
    launch_writes.begin(path, Launch("l1", ME), timeout=3600)
    launch_writes.expired(path, "l1")
    launch_writes.expired(path, "l1")
    assert [e.type for e in journal.after(path, 0)].count("launch.expired") == 1
