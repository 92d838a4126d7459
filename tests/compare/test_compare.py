"""Slots side by side: what each is, and what it has done."""

import shutil

import pytest

from agentctl.compare import compare
from agentctl.compare.model import Changes, Conflict, Row
from agentctl.errors import NotFound
from agentctl.state import db
from agentctl.system.identity import ProcessIdentity
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


def test_what_each_is_and_has_done(group: Group) -> None:
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
    assert quick.passed
    assert (quick.best_in, slow.best_in) == (("seconds", "lines"), ())


def test_the_best_is_one_that_is_done(group: Group) -> None:
    """Who failed quickly has won nothing."""
    group.add("fails", seconds=1, code=1)
    group.add("unfit", "write a.txt x", seconds=2, check=1)
    group.add("fit", "write a.txt x", "write a.txt y", seconds=9, check=0)
    group.add("late", "write a.txt x", "write a.txt y", seconds=11, check=0)
    group.begin("going")
    found = compare.compare("fix")
    assert [row.slot for row in found.rows] == ["fit", "late", "unfit", "fails", "going"]
    best = {row.slot: row.best_in for row in found.rows}
    assert best == {"fit": ("seconds",), "late": (), "unfit": (), "fails": (), "going": ()}


def test_alone_nobody_is_best(group: Group) -> None:
    group.add("only", "write a.txt x", check=0)
    assert _rows()["only"].best_in == ()


def test_tokens_are_all_of_them(group: Group) -> None:
    member = group.add("a", "work 0.1")
    row = _rows()["a"]
    assert row.tokens == 110
    assert row.session.seen.session_id == member.puppet.session_id


def test_conflicts(group: Group) -> None:
    group.add("one", "write new.txt one", "commit")
    group.add("two", "write new.txt two")
    group.add("three", "write other.txt three")
    rows = _rows()
    assert rows["one"].conflicts == (Conflict("two", ("new.txt",)),)
    assert rows["two"].conflicts == (Conflict("one", ("new.txt",)),)
    assert rows["three"].conflicts == ()


def test_the_living_are_there(group: Group) -> None:
    group.begin("busy", "work", "write new.txt x")
    row = _rows()["busy"]
    assert row.session.verdict.status == "running"
    assert row.changes == Changes(1, 1, 0, uncommitted=1)
    assert (row.seconds or 0.0) < (_rows()["busy"].seconds or 0.0)  # it still counts


def test_a_worktree_that_is_gone_and_a_plain_directory(group: Group) -> None:
    gone = group.add("gone", "write a.txt x", "commit")
    lost = group.add("lost")
    group.begin("plain", plain=True)
    shutil.rmtree(gone.made.path)
    shutil.rmtree(lost.made.path)
    group.repo.git("worktree", "prune")
    group.repo.git("branch", "-D", lost.made.branch)
    rows = _rows()
    assert rows["gone"].changes == Changes(1, 1, 0, commits=1)
    assert rows["lost"].changes is None
    assert rows["lost"].changes_unknown == f"its worktree and its branch {lost.made.branch} are gone"
    assert rows["lost"].conflicts is None
    assert rows["plain"].changes_unknown == "it ran in a plain directory"


def test_other_groups_are_not_in_it(group: Group) -> None:
    group.add("mine")
    Group(group.stage, group.repo, "other").add("theirs")
    group.stage.start()  # nobody's
    assert list(_rows()) == ["mine"]
    assert list(_rows("oth")) == ["theirs"]


def test_a_session_that_was_killed(group: Group) -> None:
    """Nobody wrote down when: its last sign of life is what is known."""
    member = group.begin("a", "work")
    member.puppet.kill()
    row = _rows()["a"]
    assert row.session.verdict.outcome == "killed"
    assert row.seconds is not None


def test_both_from_one_look(group: Group) -> None:
    group.add("a", "write new.txt hello")
    group.begin("b", plain=True)
    found, patches = compare.compare_with_patches("fix")
    texts = {patch.slot: patch for patch in patches}
    assert [patch.slot for patch in patches] == [row.slot for row in found.rows]
    assert "+hello" in (texts["a"].text or "")
    assert (texts["b"].text, texts["b"].unknown) == (None, "it ran in a plain directory")


def test_a_group_whose_transcripts_are_gone(group: Group) -> None:
    """What we noted is left of it, and no more than that."""
    member = group.add("a")
    group.stage.records(member.puppet)[1].unlink()
    (row,) = compare.compare("fix").rows
    assert (row.slot, row.session.seen.session_id) == ("a", member.puppet.session_id)
    assert (row.session.verdict.status, row.session.seen.transcript) == ("stopped", None)


def test_a_group_that_never_had_a_session(group: Group) -> None:
    member = group.add("a")
    group.stage.records(member.puppet)[1].unlink()
    with db.transaction(group.notes) as connection:
        connection.execute("update launch set session_id = null")
    with pytest.raises(NotFound, match="no session of group 'fix' is left"):
        compare.compare("fix")


def test_what_all_names_begin_with_tells_nothing() -> None:
    def session(name: str) -> Session:
        note = Launch(name, ProcessIdentity("b", 1, 2), name, name)
        return Session(Observation("demo", name, ()), judge(()), note)

    def names(*given: str) -> list[str]:
        return list(compare.named([session(name) for name in given]))

    assert names("try/opus", "try/sonnet") == ["opus", "sonnet"]
    assert names("try/opus", "other/sonnet") == ["try/opus", "other/sonnet"]
    assert names("try/opus", "sonnet") == ["try/opus", "sonnet"]
    assert names("try/opus") == ["try/opus"]
    assert names("try/a", "try/a") == ["a", "a-2"]
