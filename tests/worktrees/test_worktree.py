"""Worktrees are created, listed and removed."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentctl.errors import NotFound, Refused, SourceError, UsageError
from agentctl.worktrees import git, worktree
from tests.worktrees.repository import Repository


def _place(repo: Repository) -> str:
    return worktree.choose_directory(str(repo.path))


def test_a_new_branch_in_a_folder_of_its_own(repo: Repository) -> None:
    tree = worktree.create_worktree(str(repo.path), "agentctl/fix/opus", None, _place(repo), "fix")
    assert tree.repository == str(repo.path)
    assert tree.path == f"{repo.path}-worktrees/agentctl-fix-opus"
    assert tree.base == repo.git("rev-parse", "main")
    assert repo.git("branch", "--show-current", cwd=tree.path) == "agentctl/fix/opus"
    assert (Path(tree.path) / "a.txt").exists()


def test_our_worktrees_are_marked_in_the_repository(repo: Repository) -> None:
    tree = worktree.create_worktree(str(repo.path), "a", None, _place(repo), "fix")
    repo.git("worktree", "add", "-b", "b", f"{repo.path}-b")
    assert [(c.worktree, c.group) for c in worktree.list_worktrees(tree.path)] == [(tree, "fix")]
    assert len(worktree.list_checkouts(str(repo.path))) == 3
    assert repo.git("config", "branch.a.agentctlBase") == tree.base


def test_a_worktree_stays_ours_when_the_agent_changes_branches(repo: Repository) -> None:
    tree = worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    repo.git("checkout", "--quiet", "-b", "another", cwd=tree.path)
    (checkout,) = worktree.list_worktrees(str(repo.path))
    assert (checkout.worktree, checkout.branch) == (tree, "another")


def test_a_worktree_begins_at_the_base(repo: Repository) -> None:
    first = repo.git("rev-parse", "HEAD")
    repo.commit(b_txt="later\n")
    tree = worktree.create_worktree(str(repo.path), "a", "main~1", _place(repo))
    assert tree.base == first
    assert not (Path(tree.path) / "b.txt").exists()


def test_a_worktree_begins_at_the_commit_of_the_directory(repo: Repository) -> None:
    """From a linked worktree it begins at the commit there, and is created beside the main one."""
    first = worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    tip = repo.commit(first.path, c_txt="c\n")
    second = worktree.create_worktree(first.path, "b", None, _place(repo))
    assert (second.base, second.repository) == (tip, str(repo.path))


def test_an_existing_branch_keeps_its_commit(repo: Repository) -> None:
    repo.git("checkout", "--quiet", "-b", "old")
    tip = repo.commit(b_txt="b\n")
    repo.git("checkout", "--quiet", "main")
    tree = worktree.create_worktree(str(repo.path), "old", "main", _place(repo))
    assert tree.base == tip


def test_a_branch_in_use_is_refused(repo: Repository) -> None:
    worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    with pytest.raises(Refused, match=r"branch a is checked out in .*-worktrees/a"):
        worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    with pytest.raises(Refused, match="branch main is checked out"):
        worktree.create_worktree(str(repo.path), "main", None, _place(repo))


def test_names_that_would_share_a_folder_get_two(repo: Repository) -> None:
    one = worktree.create_worktree(str(repo.path), "x/y", None, _place(repo))
    two = worktree.create_worktree(str(repo.path), "x-y", None, _place(repo))
    assert Path(two.path).name == "x-y-2"
    assert one.path != two.path


@pytest.mark.parametrize("name", ["", "a..b", "-x", "a b", "a.lock", "HEAD", "a//b", "x~1"])
def test_a_bad_branch_name_is_refused(repo: Repository, name: str) -> None:
    with pytest.raises(UsageError, match="not a branch name"):
        worktree.create_worktree(str(repo.path), name, None, _place(repo))


def test_a_bad_base_is_refused(repo: Repository, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no commit 'nowhere'"):
        worktree.create_worktree(str(repo.path), "a", "nowhere", _place(repo))
    with pytest.raises(UsageError, match="no commit '--help'"):
        worktree.create_worktree(str(repo.path), "a", "--help", _place(repo))
    empty = Repository(tmp_path / "empty")
    with pytest.raises(Refused, match="no commit yet"):
        worktree.create_worktree(str(empty.path), "a", None, _place(empty))


def test_a_directory_outside_a_repository_is_not_found(tmp_path: Path) -> None:
    for where in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFound, match="not in a git repository"):
            worktree.list_checkouts(str(where))


def test_eight_are_created_at_once(repo: Repository) -> None:
    def make(number: int) -> str:
        return worktree.create_worktree(
            str(repo.path), f"agentctl/g/{number}", None, _place(repo), "g"
        ).path

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(make, range(8)))
    checkouts = worktree.list_worktrees(str(repo.path))
    assert sorted(c.path for c in checkouts) == sorted(paths)
    assert {c.group for c in checkouts} == {"g"}


@pytest.mark.parametrize("exists", [True, False])
def test_one_of_many_gets_a_branch(repo: Repository, *, exists: bool) -> None:
    if exists:
        repo.git("branch", "same")

    def make(_: int) -> str | None:
        try:
            return worktree.create_worktree(str(repo.path), "same", None, _place(repo)).path
        except Refused:
            return None

    with ThreadPoolExecutor(8) as pool:
        created = [path for path in pool.map(make, range(16)) if path is not None]
    assert created == [c.path for c in worktree.list_worktrees(str(repo.path))]
    assert len(created) == 1
    assert [p.name for p in Path(_place(repo)).iterdir()] == [Path(created[0]).name]


@pytest.mark.parametrize("step", ["worktree", "checkout"])
@pytest.mark.parametrize("new", [True, False])
def test_a_failure_leaves_nothing(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, step: str, *, new: bool
) -> None:
    original = git.write
    if not new:
        repo.git("branch", "a")

    def fail_at_step(directory: str, *words: str, codes: tuple[int, ...] = (0,)) -> git.GitResult:
        if words[0] == step and "remove" not in words:
            raise SourceError(f"git {step}", "no space left on device")
        return original(directory, *words, codes=codes)

    before = (repo.path / ".git" / "config").read_text()
    monkeypatch.setattr(git, "write", fail_at_step)
    with pytest.raises(SourceError, match="no space"):
        worktree.create_worktree(str(repo.path), "a", None, _place(repo), "g")
    assert (worktree.find_tip(str(repo.path), "a") is None) == new
    assert list(Path(_place(repo)).iterdir()) == []
    assert len(worktree.list_checkouts(str(repo.path))) == 1
    assert (repo.path / ".git" / "config").read_text() == before


def test_the_owner_s_hook_runs_in_the_worktree(repo: Repository) -> None:
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\npwd > made-by-hook\n")
    hook.chmod(0o755)
    tree = worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    assert (Path(tree.path) / "made-by-hook").read_text().strip() == tree.path


def test_a_worktree_is_removed_with_its_mark_but_not_its_branch(repo: Repository) -> None:
    tree = worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    (checkout,) = worktree.list_worktrees(str(repo.path))
    worktree.remove_worktree(checkout)
    assert not Path(_place(repo)).exists()
    assert worktree.list_worktrees(str(repo.path)) == []
    assert worktree.find_tip(str(repo.path), "a") == tree.base
    worktree.delete_branch(str(repo.path), "a")
    assert "agentctl" not in (repo.path / ".git" / "config").read_text()


def test_a_discarded_worktree_leaves_no_trace(repo: Repository) -> None:
    before = (repo.path / ".git" / "config").read_text()
    worktree.discard_worktree(worktree.create_worktree(str(repo.path), "a", None, _place(repo), "g"))
    assert worktree.find_tip(str(repo.path), "a") is None
    assert not Path(_place(repo)).exists()
    assert (repo.path / ".git" / "config").read_text() == before


def test_a_branch_that_was_there_before_is_not_discarded(repo: Repository) -> None:
    repo.git("branch", "old")
    before = (repo.path / ".git" / "config").read_text()
    worktree.discard_worktree(worktree.create_worktree(str(repo.path), "old", None, _place(repo), "g"))
    assert worktree.find_tip(str(repo.path), "old") is not None
    assert (repo.path / ".git" / "config").read_text() == before


def test_a_branch_of_an_earlier_worktree_is_not_discarded(repo: Repository) -> None:
    """We created the branch once; now it has work."""
    first = worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    tip = repo.commit(first.path, b_txt="b\n")
    worktree.remove_worktree(worktree.list_worktrees(str(repo.path))[0])
    worktree.discard_worktree(worktree.create_worktree(str(repo.path), "a", None, _place(repo)))
    assert worktree.find_tip(str(repo.path), "a") == tip


def test_a_branch_of_others_is_deleted_only_on_request(repo: Repository) -> None:
    repo.git("branch", "old")
    with pytest.raises(Refused, match="was not created by agentctl"):
        worktree.delete_branch(str(repo.path), "old")
    worktree.delete_branch(str(repo.path), "old", also_others=True)
    assert worktree.find_tip(str(repo.path), "old") is None


def test_work_is_not_discarded(repo: Repository) -> None:
    tree = worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    (Path(tree.path) / "new.txt").touch()
    with pytest.raises(SourceError, match="modified or untracked"):
        worktree.discard_worktree(tree)
    tip = repo.commit(tree.path)
    worktree.discard_worktree(tree)
    assert worktree.find_tip(str(repo.path), "a") == tip


def test_git_refuses_to_remove_what_is_not_committed(repo: Repository) -> None:
    tree = worktree.create_worktree(str(repo.path), "a", None, _place(repo))
    (Path(tree.path) / "new.txt").touch()
    (checkout,) = worktree.list_worktrees(str(repo.path))
    with pytest.raises(SourceError, match="modified or untracked"):
        worktree.remove_worktree(checkout)
    worktree.remove_worktree(checkout, force=True)
    assert not Path(tree.path).exists()


def test_a_folder_deleted_by_hand_is_not_used_again(repo: Repository) -> None:
    tree = worktree.create_worktree(str(repo.path), "x/y", None, _place(repo))
    shutil.rmtree(tree.path)
    again = worktree.create_worktree(
        str(repo.path), "x-y", None, _place(repo)
    )  # git still knows the folder
    assert again.path == f"{tree.path}-2"
    worktree.remove_worktree(
        next(c for c in worktree.list_worktrees(str(repo.path)) if c.worktree == tree)
    )
    assert [c.branch for c in worktree.list_worktrees(str(repo.path))] == ["x-y"]


@pytest.mark.parametrize(
    ("repository", "directory", "place"),
    [
        ("/home/me/project", None, "/home/me/project-worktrees"),
        ("/srv/project.git", None, "/srv/project-worktrees"),
        ("/srv/project/.git", None, "/srv/project-worktrees"),
        ("/home/me/project", "/var/trees", "/var/trees"),
        ("/home/me/project", "../trees", "/home/me/project/../trees"),
    ],
)
def test_the_directory_of_worktrees(repository: str, directory: str | None, place: str) -> None:
    assert worktree.choose_directory(repository, directory) == place


def test_a_bare_repository_has_worktrees(repo: Repository, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(bare))
    tree = worktree.create_worktree(str(bare), "a", None, worktree.choose_directory(str(bare)))
    assert (tree.repository, tree.path) == (str(bare), str(tmp_path / "bare-worktrees" / "a"))
