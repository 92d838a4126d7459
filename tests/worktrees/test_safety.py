"""How a worktree stands, and what would be lost with it."""

import shutil
from pathlib import Path

from agentctl.state.locks import Lock
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Worktree
from agentctl.worktrees import worktree
from agentctl.worktrees.safety import Standing, at_risk, branches, in_use, standing, within
from tests.worktrees.repository import Repository


def _make(repo: Repository, name: str = "a") -> Worktree:
    return worktree.create(str(repo.path), name, None, worktree.place(str(repo.path)))


def _stands(repo: Repository, name: str = "a") -> Standing:
    found = next(c for c in worktree.ours(str(repo.path)) if c.made and c.made.branch == name)
    return standing(found, ())


def _risk(found: Standing, *, delete_branch: bool = True) -> str | None:
    return at_risk(found, (), delete_branch=delete_branch)


def test_fresh(repo: Repository) -> None:
    _make(repo)
    repo.commit(later_txt="main goes on\n")
    found = _stands(repo)
    assert (found.ahead, found.behind, found.dirty, found.merged) == (0, 1, 0, True)
    assert _risk(found) is None


def test_dirty(repo: Repository) -> None:
    made = _make(repo)
    (Path(made.path) / "a.txt").write_text("changed\n")
    below = Path(made.path) / "new"
    below.mkdir()
    (below / "1").touch()
    (below / "2").touch()
    found = _stands(repo)
    assert (found.dirty, found.merged) == (3, True)
    assert _risk(found, delete_branch=False) == "3 files not committed"


def test_commits_of_its_own(repo: Repository) -> None:
    made = _make(repo)
    repo.commit(made.path, b_txt="b\n")
    found = _stands(repo)
    assert (found.ahead, found.merged) == (1, False)
    assert _risk(found) == "branch a has 1 commit that nothing else has"
    assert _risk(found, delete_branch=False) is None  # they stay on their branch


def test_merged(repo: Repository) -> None:
    made = _make(repo)
    repo.commit(made.path, b_txt="b\n")
    repo.git("merge", "--quiet", "a")
    found = _stands(repo)
    assert (found.ahead, found.behind, found.merged, _risk(found)) == (1, 0, True, None)


def test_squashed(repo: Repository) -> None:
    made = _make(repo)
    repo.commit(made.path, b_txt="b\n")
    repo.commit(made.path, c_txt="c\n")
    repo.commit(other_txt="main goes on\n")
    repo.git("merge", "--quiet", "--squash", "a")
    repo.git("commit", "--quiet", "-m", "squashed")
    assert _stands(repo).merged is True


def test_half_of_it_cherry_picked(repo: Repository) -> None:
    made = _make(repo)
    repo.git("cherry-pick", repo.commit(made.path, b_txt="b\n"))
    repo.commit(made.path, c_txt="c\n")
    assert _stands(repo).merged is False


def test_commits_that_undo_each_other_are_work_too(repo: Repository) -> None:
    made = _make(repo)
    repo.commit(made.path, b_txt="b\n")
    repo.git("revert", "--no-edit", "HEAD", cwd=made.path)
    assert _stands(repo).merged is False


def test_another_slot_keeps_nothing_safe(repo: Repository) -> None:
    """It may be deleted next."""
    one, _ = _make(repo, "a"), _make(repo, "b")
    repo.commit(one.path, b_txt="b\n")
    repo.git("reset", "--quiet", "--hard", "a", cwd=worktree.ours(str(repo.path))[1].path)
    assert _stands(repo, "a").merged is False


def test_pushed_is_not_merged_but_safe(repo: Repository, tmp_path: Path) -> None:
    made = _make(repo)
    repo.commit(made.path, b_txt="b\n")
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(tmp_path / "remote"))
    repo.git("remote", "add", "origin", str(tmp_path / "remote"))
    repo.git("fetch", "--quiet", "origin")
    found = _stands(repo)
    assert (found.merged, found.pushed, _risk(found)) == (False, True, None)


def test_the_agent_has_changed_to_another_branch(repo: Repository) -> None:
    made = _make(repo)
    repo.git("checkout", "--quiet", "-b", "fix", cwd=made.path)
    repo.commit(made.path, b_txt="b\n")
    found = _stands(repo)
    assert branches(found.checkout) == ["a", "fix"]
    assert (found.ahead, found.merged) == (1, False)
    assert _risk(found) == "branch fix has 1 commit that nothing else has"


def test_a_detached_head_is_lost_with_its_worktree(repo: Repository) -> None:
    made = _make(repo)
    repo.git("checkout", "--quiet", "--detach", cwd=made.path)
    repo.commit(made.path, b_txt="b\n")
    found = _stands(repo)
    assert _risk(found, delete_branch=False) == "a detached HEAD has 1 commit that nothing else has"


def test_a_branch_that_was_there_before(repo: Repository) -> None:
    """Nothing was done here; what was done before is not ours to lose."""
    repo.git("checkout", "--quiet", "-b", "old")
    repo.commit(b_txt="b\n")
    repo.git("checkout", "--quiet", "main")
    _make(repo, "old")
    found = _stands(repo, "old")
    assert (found.ahead, found.merged) == (0, False)
    assert _risk(found) == "branch old has its commits that nothing else has"


def test_its_folder_is_gone(repo: Repository) -> None:
    made = _make(repo)
    repo.commit(made.path, b_txt="b\n")
    shutil.rmtree(made.path)
    found = _stands(repo)
    assert (found.there, found.dirty, found.merged) == (False, 0, False)


def test_what_cannot_be_told_is_a_risk(repo: Repository) -> None:
    made = _make(repo)
    repo.git("config", "branch.a.agentctlBase", "0" * 40)
    (found,) = worktree.ours(made.path)
    told = standing(found, ())
    assert told.merged is None
    assert (_risk(told) or "").startswith("its state is not known: ")


def test_locks(repo: Repository) -> None:
    made = _make(repo)
    found = _stands(repo)
    person = Lock(f"{made.path}/src", "", None, None, "ann", "a meeting", 0.0, None)
    agent = person._replace(identity=ProcessIdentity("b", 7, 1), launch_id="x")
    beside = agent._replace(directory=f"{made.path}-2")
    assert at_risk(found, [person], delete_branch=False) == "locked by ann: a meeting"
    assert in_use(found, [beside, agent]) == "a launched agent, pid 7, holds it: agentctl stop pid:7"
    assert in_use(found, [beside, person]) is None
    repo.git("worktree", "lock", "--reason", "on a stick", made.path)
    assert _risk(_stands(repo)) == "git keeps it locked: on a stick"


def test_within(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert within(str(tmp_path), str(tmp_path))
    assert within(str(tmp_path), f"{tmp_path}/link/x")
    assert not within(str(tmp_path / "a"), str(tmp_path / "ab"))
    assert not within("/", "no path")
    assert not within("/", "/a\0b")
