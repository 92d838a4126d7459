"""Slots side by side: the session of each and its changes."""

import shutil

import pytest

from agentctl.compare import compare
from agentctl.compare.model import Changes, Conflict, Row
from agentctl.errors import NotFound
from agentctl.state import db
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Launch, Observation, Session
from tests.fakes.demo import DemoStage
from tests.launch.grouping import Group
from tests.worktrees.repository import Repository


@pytest.fixture
def group(stage: DemoStage, repo: Repository, monkeypatch: pytest.MonkeyPatch) -> Group:
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    return Group(stage, repo)


def _rows(text: str = "fix") -> dict[str, Row]:
    return {row.slot: row for row in compare.compare(text).rows}


def test_each_row_has_the_session_and_its_changes(group: Group) -> None:
    group.add("quick", "write a.txt quick", "commit", seconds=20, check=0)
    group.add("slow", "write b.txt 1", "write c.txt 2", seconds=30, check=0)
    rows = _rows()
    quick, slow = rows["quick"], rows["slow"]
    assert quick.session.verdict.outcome == "completed"
    assert quick.session.verdict.exit_code == 0
    assert (quick.seconds, slow.seconds) == (20.0, 30.0)
    assert quick.changes == Changes(1, 1, 0, commits=1)
    assert slow.changes == Changes(2, 2, 0, uncommitted=2)
    assert quick.check is not None
    assert quick.has_passed
    assert (quick.best_in, slow.best_in) == (("seconds", "lines"), ())


def test_only_a_slot_that_passed_is_best(group: Group) -> None:
    """A slot that failed quickly is not the fastest."""
    group.add("fails", seconds=1, code=1)
    group.add("unfit", "write a.txt x", seconds=2, check=1)
    group.add("fit", "write a.txt x", "write a.txt y", seconds=9, check=0)
    group.add("late", "write a.txt x", "write a.txt y", seconds=11, check=0)
    group.begin("going")
    comparison = compare.compare("fix")
    assert [row.slot for row in comparison.rows] == ["fit", "late", "unfit", "fails", "going"]
    best = {row.slot: row.best_in for row in comparison.rows}
    assert best == {"fit": ("seconds",), "late": (), "unfit": (), "fails": (), "going": ()}


def test_a_single_slot_is_not_best(group: Group) -> None:
    group.add("only", "write a.txt x", check=0)
    assert _rows()["only"].best_in == ()


def test_tokens_are_the_sum_of_all_kinds(group: Group) -> None:
    member = group.add("a", "work 0.1")
    row = _rows()["a"]
    assert row.tokens == 110
    assert row.session.observation.session_id == member.puppet.session_id


def test_changes_of_the_same_file_conflict(group: Group) -> None:
    group.add("one", "write new.txt one", "commit")
    group.add("two", "write new.txt two")
    group.add("three", "write other.txt three")
    rows = _rows()
    assert rows["one"].conflicts == (Conflict("two", ("new.txt",)),)
    assert rows["two"].conflicts == (Conflict("one", ("new.txt",)),)
    assert rows["three"].conflicts == ()


def test_a_live_session_is_compared(group: Group) -> None:
    group.begin("busy", "work", "write new.txt x")
    row = _rows()["busy"]
    assert row.session.verdict.status == "running"
    assert row.changes == Changes(1, 1, 0, uncommitted=1)
    assert (row.seconds or 0.0) < (_rows()["busy"].seconds or 0.0)  # it still counts


def test_changes_without_a_worktree(group: Group) -> None:
    deleted = group.add("gone", "write a.txt x", "commit")
    lost = group.add("lost")
    group.begin("plain", plain=True)
    shutil.rmtree(deleted.worktree.path)
    shutil.rmtree(lost.worktree.path)
    group.repo.git("worktree", "prune")
    group.repo.git("branch", "-D", lost.worktree.branch)
    rows = _rows()
    assert rows["gone"].changes == Changes(1, 1, 0, commits=1)
    assert rows["lost"].changes is None
    assert rows["lost"].changes_unknown == f"its worktree and its branch {lost.worktree.branch} are gone"
    assert rows["lost"].conflicts is None
    assert rows["plain"].changes_unknown == "it ran in a plain directory"


def test_other_groups_are_left_out(group: Group) -> None:
    group.add("mine")
    Group(group.stage, group.repo, "other").add("theirs")
    group.stage.start()  # in no group
    assert list(_rows()) == ["mine"]
    assert list(_rows("oth")) == ["theirs"]


def test_a_killed_session_has_a_duration(group: Group) -> None:
    """No record has the time of its end: its last sign of life counts."""
    member = group.begin("a", "work")
    member.puppet.kill()
    row = _rows()["a"]
    assert row.session.verdict.outcome == "killed"
    assert row.seconds is not None


def test_rows_and_patches_are_of_one_look(group: Group) -> None:
    group.add("a", "write new.txt hello")
    group.begin("b", plain=True)
    comparison, patches = compare.compare_with_patches("fix")
    texts = {patch.slot: patch for patch in patches}
    assert [patch.slot for patch in patches] == [row.slot for row in comparison.rows]
    assert "+hello" in (texts["a"].text or "")
    assert (texts["b"].text, texts["b"].unknown) == (None, "it ran in a plain directory")


def test_a_group_without_transcripts_is_read_from_our_notes(group: Group) -> None:
    """Only what we noted of the launch is known."""
    member = group.add("a")
    group.stage.records(member.puppet)[1].unlink()
    (row,) = compare.compare("fix").rows
    assert (row.slot, row.session.observation.session_id) == ("a", member.puppet.session_id)
    assert (row.session.verdict.status, row.session.observation.transcript) == ("stopped", None)


def test_a_group_without_a_session_is_not_found(group: Group) -> None:
    member = group.add("a")
    group.stage.records(member.puppet)[1].unlink()
    with db.transaction(group.notes) as connection:
        connection.execute("update launch set session_id = null")
    with pytest.raises(NotFound, match="no session of group 'fix' is left"):
        compare.compare("fix")


def test_a_common_prefix_is_left_out_of_slot_names() -> None:
    def session(name: str) -> Session:
        note = Launch(name, ProcessIdentity("b", 1, 2), name, name)
        return Session(Observation("demo", name, ()), judge(()), note)

    def names(*slots: str) -> list[str]:
        return list(compare.name_slots([session(name) for name in slots]))

    assert names("try/opus", "try/sonnet") == ["opus", "sonnet"]
    assert names("try/opus", "other/sonnet") == ["try/opus", "other/sonnet"]
    assert names("try/opus", "sonnet") == ["try/opus", "sonnet"]
    assert names("try/opus") == ["try/opus"]
    assert names("try/a", "try/a") == ["a", "a-2"]
