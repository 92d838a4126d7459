"""Which worktrees are removed, on plain values. The verb is tested in cli/verbs/test_worktree.py."""

import os
from pathlib import Path

import pytest

from agentctl.errors import NotFound
from agentctl.worktrees.clean import CleanOptions, clean_worktree, find_worktrees
from agentctl.worktrees.safety import read_state
from tests.worktrees.repository import Repository


def test_worktrees_are_found_by_branch_path_and_group(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = repo.add_worktree("one", "g").path, repo.add_worktree("two").path
    monkeypatch.chdir(repo.path)
    assert [each.path for each in find_worktrees(())] == [one, two]
    assert [each.path for each in find_worktrees((), "g")] == [one]
    assert [each.path for each in find_worktrees(["two", two, "one"])] == [two, one]
    assert [each.path for each in find_worktrees([two], only_repositories=True)] == [one, two]
    with pytest.raises(NotFound, match="not a directory: two"):
        find_worktrees(["two"], only_repositories=True)
    with pytest.raises(NotFound, match="no worktree of ours for 'three'"):
        find_worktrees(["three"])
    monkeypatch.chdir(two)  # without a name: the repository, also from inside a worktree
    assert [each.path for each in find_worktrees(())] == [one, two]


@pytest.mark.parametrize(
    ("options", "result", "reason"),
    [
        (CleanOptions(), "refused", "1 file not committed (--force removes it all the same)"),
        (CleanOptions(force=True, dry_run=True), "would remove", "branch a kept"),
        (CleanOptions(force=True, delete_branch=True), "removed", "branch a deleted"),
    ],
)
def test_a_dirty_worktree_is_removed_only_with_force(
    repo: Repository, options: CleanOptions, result: str, reason: str
) -> None:
    path = Path(repo.add_worktree().path)
    (path / "new.txt").touch()
    (checkout,) = find_worktrees([str(repo.path)])
    assert clean_worktree(read_state(checkout, ()), (), options)[1:] == (result, reason)
    assert path.exists() == (result != "removed")


def test_a_refusal_of_git_is_a_result(repo: Repository) -> None:
    path = repo.add_worktree().path
    (checkout,) = find_worktrees([str(repo.path)])
    state = read_state(checkout, ())
    (Path(path) / "new.txt").touch()  # after the look
    result = clean_worktree(state, (), CleanOptions())
    assert (result.result, result.reason.startswith("git: ")) == ("refused", True)
    assert os.path.isdir(path)
