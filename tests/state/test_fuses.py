"""Fuses are set, extended and cancelled, each with an event; a launch cancels those of its directory."""

import os
import sqlite3
import time
from pathlib import Path

import pytest

from agentctl.errors import NotFound, Refused
from agentctl.state import db, fuse_firing, fuses, journal, launch_writes
from agentctl.state.fuses import FIRING, SET, Action, Claim, Fuse, Moment
from agentctl.system import proc
from agentctl.truth.model import Exit, Launch

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)
CLAIM = Claim(ME, proc.pid_namespace())
DEAD_CLAIM = Claim(DEAD, proc.pid_namespace())
EMIT = (Action("emit", "late"),)
NOON = Moment("boot", 100.0, 1e9)


def list_fuse_events(path: str) -> list[str]:
    return [event.type for event in journal.read_after(path, 0) if event.type.startswith("fuse.")]


def states(path: str) -> list[str]:
    return [each.state for each in fuses.list_fuses(path)]


def later(seconds: float, *, boot: str = "boot", wall: float | None = None) -> Moment:
    return Moment(boot, NOON.elapsed + seconds, NOON.at + (seconds if wall is None else wall))


def set_in_work(path: str, seconds: float = 60.0) -> Fuse:
    return fuses.set_fuse(path, EMIT, seconds, directory="/work", moment=NOON)


def test_only_a_set_fuse_is_active(path: str) -> None:
    assert not fuses.has_active(path)
    fuse = set_in_work(path)
    assert fuses.has_active(path)
    fuses.cancel_fuse(path, fuse.id, "said so")
    assert not fuses.has_active(path)


def test_a_fuse_is_due_when_its_time_is_over(path: str) -> None:
    fuse = set_in_work(path)
    assert fuses.list_due(path, later(59)) == []
    assert [each.id for each in fuses.list_due(path, later(60))] == [fuse.id]
    assert list_fuse_events(path) == ["fuse.set"]
    (event,) = journal.read_after(path, 0)
    assert (event.subject, event.body["data"]["fuse"]) == ("/work", fuse.id)


def test_setting_the_clock_changes_only_the_time_of_day_of_a_fuse(path: str) -> None:
    set_in_work(path)
    assert fuses.list_due(path, later(10, wall=1e6)) == []
    assert len(fuses.list_due(path, later(60, wall=-1e6))) == 1
    fuses.adjust_to_clock(path, later(10, wall=10 + 3600))
    (fuse,) = fuses.list_fuses(path)
    assert fuse.due_at == pytest.approx(NOON.at + 60 + 3600)
    assert fuses.list_due(path, later(10, wall=10 + 3600)) == []
    assert fuses.list_due(path, Moment("next boot", 1.0, NOON.at + 61)) == []  # an hour too early by now
    assert len(fuses.list_due(path, Moment("next boot", 1.0, NOON.at + 61 + 3600))) == 1


def test_adjusting_to_an_unchanged_clock_writes_nothing(path: str) -> None:
    set_in_work(path)
    before = Path(f"{path}").stat().st_mtime_ns
    fuses.adjust_to_clock(path, later(30))
    fuses.adjust_to_clock(path, Moment("another boot", 5.0, 0.0))
    assert Path(path).stat().st_mtime_ns == before
    assert fuses.list_fuses(path)[0].due_at == NOON.at + 60


def test_a_fuse_is_extended_by_a_time_or_from_now(path: str) -> None:
    fuse = set_in_work(path)

    def extend(seconds: float, moment: Moment, *, from_now: bool = False) -> float:
        extended = fuses.extend_fuse(path, fuse.id, seconds, from_now=from_now, moment=moment)
        return extended.seconds_left(moment)

    assert extend(30, later(10)) == 80
    assert extend(30, later(10), from_now=True) == 30
    assert extend(30, later(1000)) == 30, "it was overdue"
    assert extend(5, Moment("next", 3.0, NOON.at + 1010)) == 25, "after a boot"
    assert list_fuse_events(path) == ["fuse.set", *["fuse.extended"] * 4]


def test_a_cancelled_fuse_is_over(path: str) -> None:
    fuse = set_in_work(path)
    assert fuses.cancel_fuse(path, fuse.id, "said so").reason == "said so"
    assert fuses.list_due(path, later(1000)) == []
    assert fuses.list_active(path) == []
    with pytest.raises(Refused, match="has been cancelled"):
        fuses.cancel_fuse(path, fuse.id, "again")
    with pytest.raises(Refused, match="has been cancelled"):
        fuses.extend_fuse(path, fuse.id, 5, from_now=True)
    with pytest.raises(NotFound):
        fuses.cancel_fuse(path, "nosuch", "")
    assert list_fuse_events(path) == ["fuse.set", "fuse.cancelled"]


def test_a_firing_fuse_is_cancelled_only_if_its_process_is_dead(path: str) -> None:
    fuse = set_in_work(path)
    assert fuse_firing.claim_fuse(path, fuse.id, fuse_firing.make_claim(), later(60))
    with pytest.raises(Refused, match=f"is firing, by pid {os.getpid()}"):
        fuses.cancel_fuse(path, fuse.id, "")
    with pytest.raises(Refused, match="is firing"):
        fuses.extend_fuse(path, fuse.id, 5, from_now=True)
    with db.transaction(path) as connection:
        connection.execute("update fuse set claimed_by = json_set(claimed_by, '$[2]', 1)")
    with pytest.raises(Refused, match="is firing"):
        fuses.extend_fuse(path, fuse.id, 5, from_now=True)
    assert fuses.cancel_fuse(path, fuse.id, "").state == "cancelled"


def test_a_launch_cancels_the_fuses_of_its_directory_unless_it_fails(path: str, tmp_path: Path) -> None:
    here, there = str(tmp_path.resolve()), str(tmp_path.resolve() / "sub")
    fuses.set_fuse(path, EMIT, 60, directory=here)
    fuses.set_fuse(path, EMIT, 60, directory=there)
    launch_writes.begin_launch(path, Launch("l1", ME, cwd=here))
    assert states(path) == ["cancelled", "burning"]
    assert fuses.list_fuses(path)[0].reason == "launch l1 began there"
    launch_writes.record_failure(path, "l1", "no such model")
    assert states(path) == ["burning", "burning"]
    assert list_fuse_events(path) == ["fuse.set", "fuse.set", "fuse.cancelled", "fuse.set"]
    launch_writes.begin_launch(path, Launch("l2", ME, cwd=here), cancels_fuses=False)
    assert states(path) == ["burning", "burning"]


def test_a_launch_that_never_began_sets_its_fuses_again(path: str, tmp_path: Path) -> None:
    """Its launcher was killed, or the disk was too full to record the failure."""
    here = str(tmp_path.resolve())
    fuses.set_fuse(path, EMIT, 60, directory=here)
    launch_writes.begin_launch(path, Launch("l1", DEAD, cwd=here))
    launch_writes.forget_launches(path, ["l1"], never_began={"l1"})
    assert states(path) == ["burning"]


def test_a_cancelled_fuse_stays_so_when_its_launch_is_forgotten(path: str, tmp_path: Path) -> None:
    here = str(tmp_path.resolve())
    fuses.set_fuse(path, EMIT, 60, directory=here)
    launch_writes.begin_launch(path, Launch("l1", DEAD, cwd=here))
    launch_writes.forget_launches(path, ["l1"])
    assert states(path) == ["cancelled"]


def test_a_timeout_is_a_fuse_until_its_agent_ends(path: str) -> None:
    launch_writes.begin_launch(path, Launch("l1", ME, "s1", adapter="demo"), timeout=3600)
    (timeout,) = fuses.list_active(path)
    assert (timeout.launch_id, timeout.session_id, timeout.actions) == ("l1", "s1", (Action("stop"),))
    assert fuses.find_timeout(path, "l1") == timeout
    launch_writes.claim_end(path, "l1", Exit(0, 5.0, ""))
    assert fuses.list_active(path) == []
    assert [each.reason for each in fuses.list_fuses(path)] == ["its agent has ended"]
    assert list_fuse_events(path) == ["fuse.set", "fuse.cancelled"]


def test_a_timeout_of_a_dead_process_is_hidden_and_can_be_cancelled(path: str) -> None:
    """Not cancelled at once: the process may be a wrapper of an agent that is not identified yet."""
    launch_writes.begin_launch(path, Launch("l1", DEAD), timeout=3600)
    assert fuses.list_active(path) == []
    assert fuses.list_due(path) == []
    timeout = fuses.find_timeout(path, "l1")
    assert timeout is not None
    assert fuses.find_moot(path, timeout.id) == timeout
    fuses.cancel_moot(path, timeout.id)
    assert fuses.find_moot(path, timeout.id) is None
    assert list_fuse_events(path) == ["fuse.set", "fuse.cancelled"]


def test_a_timeout_of_a_live_agent_is_not_moot(path: str) -> None:
    launch_writes.begin_launch(path, Launch("l1", ME), timeout=3600)
    (timeout,) = fuses.list_active(path)
    assert fuses.find_moot(path, timeout.id) is None
    fuses.cancel_moot(path, timeout.id)
    assert states(path) == ["burning"]
    assert fuses.find_moot(path, "nosuch") is None


def test_forgetting_a_launch_removes_its_timeout(path: str) -> None:
    launch_writes.begin_launch(path, Launch("l1", DEAD), timeout=3600)
    launch_writes.forget_launches(path, ["l1"])
    assert fuses.list_fuses(path) == []
    assert list_fuse_events(path) == ["fuse.set", "fuse.cancelled"]


def test_a_launch_without_a_timeout_has_no_fuse(path: str) -> None:
    launch_writes.begin_launch(path, Launch("l1", ME))
    launch_writes.begin_launch(path, Launch("l2", ME), timeout=0)
    assert fuses.list_fuses(path) == []


def test_old_settled_fuses_are_removed(path: str) -> None:
    old = set_in_work(path)
    fuses.cancel_fuse(path, old.id, "", NOON)
    fuses.set_fuse(path, EMIT, 60, moment=later(fuses.KEEP - 1))
    assert len(fuses.list_fuses(path)) == 2
    fuses.set_fuse(path, EMIT, 60, moment=later(fuses.KEEP + 1))
    assert old.id not in [each.id for each in fuses.list_fuses(path)]


def test_the_next_fuse_is_listed_first(path: str) -> None:
    for seconds in (300, 100, 200):
        fuses.set_fuse(path, EMIT, seconds, label=str(seconds))
    assert [each.label for each in fuses.list_active(path)] == ["100", "200", "300"]


def test_a_password_in_an_address_is_not_in_the_journal(path: str) -> None:
    hook = Action("webhook", "https://me:secret@example.org/x?token=secret")
    fuses.set_fuse(path, (hook,), 60)
    assert "secret" not in str(journal.read_after(path, 0))
    with db.transaction(path) as connection:
        (fuse,) = fuses.select_fuses(connection, "", ())
    assert fuse.actions == (hook,)


def test_the_default_moment_is_now(path: str) -> None:
    fuse = fuses.set_fuse(path, EMIT, 60, directory="/work")
    assert 59 < fuse.seconds_left(fuses.read_clocks()) <= 60


def test_an_expiry_is_recorded_once(path: str) -> None:
    launch_writes.begin_launch(path, Launch("l1", ME), timeout=3600)
    launch_writes.record_expiry(path, "l1")
    launch_writes.record_expiry(path, "l1")
    assert [e.type for e in journal.read_after(path, 0)].count("launch.expired") == 1


ELSEWHERE = DEAD_CLAIM._replace(namespace="pid:[1]")


def make_fuse(**more: object) -> Fuse:
    fuse = Fuse("1a", "/work", None, None, None, None, (), 1000.0, "boot", 50.0, 1050.0, SET)
    return fuse._replace(**more)  # type: ignore[arg-type]


def test_within_a_boot_the_wall_clock_does_not_count() -> None:
    for wall in (0.0, 1049.0, 1e12):
        assert make_fuse().seconds_left(Moment("boot", 20.0, wall)) == 30.0
        assert make_fuse().seconds_left(Moment("boot", 60.0, wall)) == -10.0


def test_after_a_boot_it_is_due_by_the_time_of_day() -> None:
    for elapsed in (0.0, 49.0, 1e9):
        assert make_fuse().seconds_left(Moment("another", elapsed, 1020.0)) == 30.0
        assert make_fuse().seconds_left(Moment("another", elapsed, 1060.0)) == -10.0


def test_now_is_of_this_boot_and_includes_sleep() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    moment = fuses.read_clocks()
    assert before <= moment.elapsed <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert moment.boot == proc.read_boot_id()


@pytest.mark.parametrize(
    ("claim", "may_live", "foreign"),
    [(CLAIM, True, False), (DEAD_CLAIM, False, False), (ELSEWHERE, True, True)],
)
def test_a_claim_is_dead_only_if_that_is_proven(claim: Claim, may_live: bool, foreign: bool) -> None:
    assert (claim.may_live, claim.is_foreign) == (may_live, foreign)
    assert make_fuse(state=FIRING, claim=claim).is_abandoned == (not may_live)
    assert not make_fuse(claim=claim).is_abandoned


def test_a_timeout_is_moot_when_its_agent_has_ended() -> None:
    assert make_fuse(launch_id="l", agent=DEAD_CLAIM).is_moot
    assert make_fuse(launch_id="l", agent=None).is_moot  # its launch is forgotten
    assert not make_fuse(launch_id="l", agent=CLAIM).is_moot
    assert not make_fuse(agent=DEAD_CLAIM).is_moot


def test_the_subject_of_a_fuse() -> None:
    assert make_fuse().subject == "/work"
    assert make_fuse(directory=None, session_id="4f2a").subject == "session 4f2a"
    assert make_fuse(directory=None, launch_id="1b").subject == "launch 1b"


def test_an_address_is_shown_without_its_secrets_and_a_name_as_it_is() -> None:
    assert Action("webhook", "https://me:1@e.org/x?t=1").public_form() == {
        "do": "webhook",
        "what": "https://e.org/x?…",
    }
    assert Action("webhook", "ci").public_form() == {"do": "webhook", "what": "ci"}
    assert Action("webhook", "me:1@e.org").public_form() == {"do": "webhook", "what": "(no web address)"}


RUN = Action("run", "make test")


def _store_and_read(path: str, fuse: Fuse) -> Fuse | None:
    with db.transaction(path) as connection:
        fuses.insert_fuse(connection, fuse)
        return fuses.find_fuse(connection, fuse.id)


def test_a_fuse_on_a_directory_whose_name_is_no_text(tmp_path: Path) -> None:
    fuse = Fuse(
        "1a", "/w\udcff", None, None, None, "l", (RUN, *EMIT), 1.0, "b", 2.0, 3.0, SET,
        results=(None, None),
    )  # fmt: skip
    assert _store_and_read(str(tmp_path / "state.db"), fuse) == fuse
    assert fuses.read_fuses(str(tmp_path / "state.db"), "", ()) == [fuse]


def test_a_timeout_has_the_labels_of_its_launch(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    launch_writes.begin_launch(path, Launch("l1", ME, group="g", adapter="demo"))
    launch_writes.record_session(path, Launch("l1", ME, "s1"))
    fuse = Fuse("1a", None, None, None, "l1", None, (), 1.0, "b", 2.0, 3.0, SET)
    timeout = _store_and_read(path, fuse)
    assert timeout is not None
    assert (timeout.adapter, timeout.session_id, timeout.group) == ("demo", "s1", "g")
    assert timeout.agent == Claim(ME, proc.pid_namespace())


def test_without_a_table_there_are_no_fuses(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    assert fuses.read_fuses(path, "", ()) == []
    sqlite3.connect(path).close()
    assert fuses.read_fuses(path, "", ()) == []
