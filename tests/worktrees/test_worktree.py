"""Worktrees: made, listed, removed."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentctl.errors import NotFound, Refused, SourceError, UsageError
from agentctl.worktrees import git, worktree
from tests.worktrees.repository import Repository


def _place(repo: Repository) -> str:
    return worktree.place(str(repo.path))


def test_a_new_branch_in_a_folder_of_its_own(repo: Repository) -> None:
    made = worktree.create(str(repo.path), "agentctl/fix/opus", None, _place(repo), "fix")
    assert made.repository == str(repo.path)
    assert made.path == f"{repo.path}-worktrees/agentctl-fix-opus"
    assert made.base == repo.git("rev-parse", "main")
    assert repo.git("branch", "--show-current", cwd=made.path) == "agentctl/fix/opus"
    assert (Path(made.path) / "a.txt").exists()


def test_ours_are_told_by_the_repository_itself(repo: Repository) -> None:
    made = worktree.create(str(repo.path), "a", None, _place(repo), "fix")
    repo.git("worktree", "add", "-b", "b", f"{repo.path}-b")
    assert [(c.made, c.group) for c in worktree.ours(made.path)] == [(made, "fix")]
    assert len(worktree.listing(str(repo.path))) == 3
    assert repo.git("config", "branch.a.agentctlBase") == made.base


def test_it_stays_ours_when_the_agent_changes_branches(repo: Repository) -> None:
    made = worktree.create(str(repo.path), "a", None, _place(repo))
    repo.git("checkout", "--quiet", "-b", "another", cwd=made.path)
    (found,) = worktree.ours(str(repo.path))
    assert (found.made, found.branch) == (made, "another")


def test_it_begins_at_the_base(repo: Repository) -> None:
    first = repo.git("rev-parse", "HEAD")
    repo.commit(b_txt="later\n")
    made = worktree.create(str(repo.path), "a", "main~1", _place(repo))
    assert made.base == first
    assert not (Path(made.path) / "b.txt").exists()


def test_it_begins_where_the_directory_is(repo: Repository) -> None:
    """Asked for in a linked worktree, it begins at what is checked out there, beside the main one."""
    first = worktree.create(str(repo.path), "a", None, _place(repo))
    tip = repo.commit(first.path, c_txt="c\n")
    second = worktree.create(first.path, "b", None, _place(repo))
    assert (second.base, second.repository) == (tip, str(repo.path))


def test_an_existing_branch_goes_on_where_it_is(repo: Repository) -> None:
    repo.git("checkout", "--quiet", "-b", "old")
    tip = repo.commit(b_txt="b\n")
    repo.git("checkout", "--quiet", "main")
    made = worktree.create(str(repo.path), "old", "main", _place(repo))
    assert made.base == tip


def test_a_branch_in_use_is_refused(repo: Repository) -> None:
    worktree.create(str(repo.path), "a", None, _place(repo))
    with pytest.raises(Refused, match=r"branch a is checked out in .*-worktrees/a"):
        worktree.create(str(repo.path), "a", None, _place(repo))
    with pytest.raises(Refused, match="branch main is checked out"):
        worktree.create(str(repo.path), "main", None, _place(repo))


def test_names_that_would_share_a_folder(repo: Repository) -> None:
    one = worktree.create(str(repo.path), "x/y", None, _place(repo))
    two = worktree.create(str(repo.path), "x-y", None, _place(repo))
    assert Path(two.path).name == "x-y-2"
    assert one.path != two.path


@pytest.mark.parametrize("name", ["", "a..b", "-x", "a b", "a.lock", "HEAD", "a//b", "x~1"])
def test_bad_names(repo: Repository, name: str) -> None:
    with pytest.raises(UsageError, match="not a name for a branch"):
        worktree.create(str(repo.path), name, None, _place(repo))


def test_bad_bases(repo: Repository, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no commit 'nowhere'"):
        worktree.create(str(repo.path), "a", "nowhere", _place(repo))
    with pytest.raises(UsageError, match="no commit '--help'"):
        worktree.create(str(repo.path), "a", "--help", _place(repo))
    empty = Repository(tmp_path / "empty")
    with pytest.raises(Refused, match="no commit yet"):
        worktree.create(str(empty.path), "a", None, _place(empty))


def test_not_a_repository(tmp_path: Path) -> None:
    for where in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFound, match="not in a git repository"):
            worktree.listing(str(where))


def test_eight_at_once(repo: Repository) -> None:
    def make(number: int) -> str:
        return worktree.create(str(repo.path), f"agentctl/g/{number}", None, _place(repo), "g").path

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(make, range(8)))
    found = worktree.ours(str(repo.path))
    assert sorted(c.path for c in found) == sorted(paths)
    assert {c.group for c in found} == {"g"}


@pytest.mark.parametrize("exists", [True, False])
def test_one_of_many_gets_a_branch(repo: Repository, *, exists: bool) -> None:
    if exists:
        repo.git("branch", "same")

    def make(_: int) -> str | None:
        try:
            return worktree.create(str(repo.path), "same", None, _place(repo)).path
        except Refused:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [path for path in pool.map(make, range(16)) if path is not None]
    assert made == [c.path for c in worktree.ours(str(repo.path))]
    assert len(made) == 1
    assert [p.name for p in Path(_place(repo)).iterdir()] == [Path(made[0]).name]


@pytest.mark.parametrize("step", ["worktree", "checkout"])
@pytest.mark.parametrize("new", [True, False])
def test_a_failure_leaves_nothing(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, step: str, *, new: bool
) -> None:
    original = git.change
    if not new:
        repo.git("branch", "a")

    def failing(directory: str, *words: str, fine: tuple[int, ...] = (0,)) -> git.Ran:
        if words[0] == step and "remove" not in words:
            raise SourceError(f"git {step}", "no space left on device")
        return original(directory, *words, fine=fine)

    before = (repo.path / ".git" / "config").read_text()
    monkeypatch.setattr(git, "change", failing)
    with pytest.raises(SourceError, match="no space"):
        worktree.create(str(repo.path), "a", None, _place(repo), "g")
    assert (worktree.tip(str(repo.path), "a") is None) == new
    assert list(Path(_place(repo)).iterdir()) == []
    assert len(worktree.listing(str(repo.path))) == 1
    assert (repo.path / ".git" / "config").read_text() == before


def test_the_owner_s_hook_runs_in_it(repo: Repository) -> None:
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\npwd > made-by-hook\n")
    hook.chmod(0o755)
    made = worktree.create(str(repo.path), "a", None, _place(repo))
    assert (Path(made.path) / "made-by-hook").read_text().strip() == made.path


def test_removed_with_its_mark_but_not_its_branch(repo: Repository) -> None:
    made = worktree.create(str(repo.path), "a", None, _place(repo))
    (found,) = worktree.ours(str(repo.path))
    worktree.remove(found)
    assert not Path(_place(repo)).exists()
    assert worktree.ours(str(repo.path)) == []
    assert worktree.tip(str(repo.path), "a") == made.base
    worktree.delete_branch(str(repo.path), "a")
    assert "agentctl" not in (repo.path / ".git" / "config").read_text()


def test_discarded_as_if_it_had_never_been(repo: Repository) -> None:
    before = (repo.path / ".git" / "config").read_text()
    worktree.discard(worktree.create(str(repo.path), "a", None, _place(repo), "g"))
    assert worktree.tip(str(repo.path), "a") is None
    assert not Path(_place(repo)).exists()
    assert (repo.path / ".git" / "config").read_text() == before


def test_a_branch_that_was_there_before_is_not_discarded(repo: Repository) -> None:
    repo.git("branch", "old")
    before = (repo.path / ".git" / "config").read_text()
    worktree.discard(worktree.create(str(repo.path), "old", None, _place(repo), "g"))
    assert worktree.tip(str(repo.path), "old") is not None
    assert (repo.path / ".git" / "config").read_text() == before


def test_a_branch_of_an_earlier_worktree_is_not_discarded(repo: Repository) -> None:
    """It was made by us once; what it holds now is work."""
    first = worktree.create(str(repo.path), "a", None, _place(repo))
    tip = repo.commit(first.path, b_txt="b\n")
    worktree.remove(worktree.ours(str(repo.path))[0])
    worktree.discard(worktree.create(str(repo.path), "a", None, _place(repo)))
    assert worktree.tip(str(repo.path), "a") == tip


def test_a_branch_that_is_not_ours_is_not_deleted_by_the_way(repo: Repository) -> None:
    repo.git("branch", "old")
    with pytest.raises(Refused, match="was not made by agentctl"):
        worktree.delete_branch(str(repo.path), "old")
    worktree.delete_branch(str(repo.path), "old", whosever=True)
    assert worktree.tip(str(repo.path), "old") is None


def test_work_is_not_discarded(repo: Repository) -> None:
    made = worktree.create(str(repo.path), "a", None, _place(repo))
    (Path(made.path) / "new.txt").touch()
    with pytest.raises(SourceError, match="modified or untracked"):
        worktree.discard(made)
    tip = repo.commit(made.path)
    worktree.discard(made)
    assert worktree.tip(str(repo.path), "a") == tip


def test_git_refuses_to_remove_what_is_not_committed(repo: Repository) -> None:
    made = worktree.create(str(repo.path), "a", None, _place(repo))
    (Path(made.path) / "new.txt").touch()
    (found,) = worktree.ours(str(repo.path))
    with pytest.raises(SourceError, match="modified or untracked"):
        worktree.remove(found)
    worktree.remove(found, force=True)
    assert not Path(made.path).exists()


def test_one_whose_folder_was_deleted_by_hand(repo: Repository) -> None:
    made = worktree.create(str(repo.path), "x/y", None, _place(repo))
    shutil.rmtree(made.path)
    again = worktree.create(str(repo.path), "x-y", None, _place(repo))  # git still knows the folder
    assert again.path == f"{made.path}-2"
    worktree.remove(next(c for c in worktree.ours(str(repo.path)) if c.made == made))
    assert [c.branch for c in worktree.ours(str(repo.path))] == ["x-y"]


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
def test_where_they_go(repository: str, directory: str | None, place: str) -> None:
    assert worktree.place(repository, directory) == place


def test_of_a_bare_repository(repo: Repository, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(bare))
    made = worktree.create(str(bare), "a", None, worktree.place(str(bare)))
    assert (made.repository, made.path) == (str(bare), str(tmp_path / "bare-worktrees" / "a"))
