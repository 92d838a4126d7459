"""The state of a worktree, and what would be lost with it."""

import shutil
from pathlib import Path

from agentctl.state.locks import Lock
from agentctl.system.proc import ProcessIdentity
from agentctl.worktrees import worktree
from agentctl.worktrees.safety import (
    WorktreeState,
    find_occupant,
    find_risk,
    list_branches,
    read_state,
)
from tests.worktrees.repository import Repository


def _read_state(repo: Repository, name: str = "a") -> WorktreeState:
    checkout = next(
        c for c in worktree.list_worktrees(str(repo.path)) if c.worktree and c.worktree.branch == name
    )
    return read_state(checkout, ())


def _find_risk(state: WorktreeState, *, delete_branch: bool = True) -> str | None:
    return find_risk(state, (), delete_branch=delete_branch)


def test_a_fresh_worktree_is_safe(repo: Repository) -> None:
    repo.add_worktree()
    repo.commit(later_txt="main goes on\n")
    state = _read_state(repo)
    assert (state.ahead, state.behind, state.dirty, state.merged) == (0, 1, 0, True)
    assert _find_risk(state) is None


def test_files_not_committed_are_a_risk(repo: Repository) -> None:
    tree = repo.add_worktree()
    (Path(tree.path) / "a.txt").write_text("changed\n")
    below = Path(tree.path) / "new"
    below.mkdir()
    (below / "1").touch()
    (below / "2").touch()
    state = _read_state(repo)
    assert (state.dirty, state.merged) == (3, True)
    assert _find_risk(state, delete_branch=False) == "3 files not committed"


def test_commits_of_its_own_are_a_risk_for_the_branch(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.commit(tree.path, b_txt="b\n")
    state = _read_state(repo)
    assert (state.ahead, state.merged) == (1, False)
    assert _find_risk(state) == "branch a has 1 commit that nothing else has"
    assert _find_risk(state, delete_branch=False) is None  # they stay on their branch


def test_a_merged_branch_is_safe(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.commit(tree.path, b_txt="b\n")
    repo.git("merge", "--quiet", "a")
    state = _read_state(repo)
    assert (state.ahead, state.behind, state.merged, _find_risk(state)) == (1, 0, True, None)


def test_a_squashed_branch_is_merged(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.commit(tree.path, b_txt="b\n")
    repo.commit(tree.path, c_txt="c\n")
    repo.commit(other_txt="main goes on\n")
    repo.git("merge", "--quiet", "--squash", "a")
    repo.git("commit", "--quiet", "-m", "squashed")
    assert _read_state(repo).merged is True


def test_a_branch_cherry_picked_in_part_is_not_merged(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.git("cherry-pick", repo.commit(tree.path, b_txt="b\n"))
    repo.commit(tree.path, c_txt="c\n")
    assert _read_state(repo).merged is False


def test_commits_that_undo_each_other_are_not_merged(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.commit(tree.path, b_txt="b\n")
    repo.git("revert", "--no-edit", "HEAD", cwd=tree.path)
    assert _read_state(repo).merged is False


def test_commits_on_another_slot_are_not_safe(repo: Repository) -> None:
    """The other slot may be deleted next."""
    one, _ = repo.add_worktree("a"), repo.add_worktree("b")
    repo.commit(one.path, b_txt="b\n")
    repo.git("reset", "--quiet", "--hard", "a", cwd=worktree.list_worktrees(str(repo.path))[1].path)
    assert _read_state(repo, "a").merged is False


def test_pushed_is_not_merged_but_safe(repo: Repository, tmp_path: Path) -> None:
    tree = repo.add_worktree()
    repo.commit(tree.path, b_txt="b\n")
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(tmp_path / "remote"))
    repo.git("remote", "add", "origin", str(tmp_path / "remote"))
    repo.git("fetch", "--quiet", "origin")
    state = _read_state(repo)
    assert (state.merged, state.pushed, _find_risk(state)) == (False, True, None)


def test_the_branch_that_the_agent_checked_out_counts(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.git("checkout", "--quiet", "-b", "fix", cwd=tree.path)
    repo.commit(tree.path, b_txt="b\n")
    state = _read_state(repo)
    assert list_branches(state.checkout) == ["a", "fix"]
    assert (state.ahead, state.merged) == (1, False)
    assert _find_risk(state) == "branch fix has 1 commit that nothing else has"


def test_a_detached_head_is_lost_with_its_worktree(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.git("checkout", "--quiet", "--detach", cwd=tree.path)
    repo.commit(tree.path, b_txt="b\n")
    state = _read_state(repo)
    assert _find_risk(state, delete_branch=False) == "a detached HEAD has 1 commit that nothing else has"


def test_commits_of_an_earlier_branch_are_a_risk(repo: Repository) -> None:
    """The worktree has no new commits, but the earlier ones are not ours to lose."""
    repo.git("checkout", "--quiet", "-b", "old")
    repo.commit(b_txt="b\n")
    repo.git("checkout", "--quiet", "main")
    repo.add_worktree("old")
    state = _read_state(repo, "old")
    assert (state.ahead, state.merged) == (0, False)
    assert _find_risk(state) == "branch old has its commits that nothing else has"


def test_the_state_of_a_deleted_folder(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.commit(tree.path, b_txt="b\n")
    shutil.rmtree(tree.path)
    state = _read_state(repo)
    assert (state.there, state.dirty, state.merged) == (False, 0, False)


def test_an_unknown_state_is_a_risk(repo: Repository) -> None:
    tree = repo.add_worktree()
    repo.git("config", "branch.a.agentctlBase", "0" * 40)
    (checkout,) = worktree.list_worktrees(tree.path)
    state = read_state(checkout, ())
    assert state.merged is None
    assert (_find_risk(state) or "").startswith("its state is not known: ")


def test_locks_are_a_risk(repo: Repository) -> None:
    tree = repo.add_worktree()
    state = _read_state(repo)
    person = Lock(f"{tree.path}/src", "", None, None, "ann", "a meeting", 0.0, None)
    agent = person._replace(identity=ProcessIdentity("b", 7, 1), launch_id="x")
    beside = agent._replace(directory=f"{tree.path}-2")
    assert find_risk(state, [person], delete_branch=False) == "locked by ann: a meeting"
    assert (
        find_occupant(state, [beside, agent]) == "a launched agent, pid 7, holds it: agentctl stop pid:7"
    )
    assert find_occupant(state, [beside, person]) is None
    repo.git("worktree", "lock", "--reason", "on a stick", tree.path)
    assert _find_risk(_read_state(repo)) == "git keeps it locked: on a stick"
