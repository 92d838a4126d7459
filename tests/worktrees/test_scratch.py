"""Trees and merges without a trace."""

import subprocess
from pathlib import Path

import pytest

from agentctl.errors import SourceError, Unsupported
from agentctl.worktrees import git
from agentctl.worktrees.scratch import Scratch
from tests.worktrees.repository import Repository


def _read_files(path: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(file.relative_to(path)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in path.rglob("*")
        if file.is_file()
    }


def test_the_tree_has_the_files_of_the_directory(repo: Repository) -> None:
    (repo.path / ".gitignore").write_text("*.o\n")
    (repo.path / "a.txt").write_text("changed\n")
    (repo.path / "new.txt").write_text("new\n")
    (repo.path / "x.o").write_text("ignored")
    repo.git("rm", "--quiet", "--cached", "a.txt")  # gone from the index only: the file is there
    with Scratch(str(repo.path)) as scratch:
        tree = scratch.write_tree(str(repo.path))
        output = scratch.count_lines("HEAD", tree)
    assert sorted(output.split("\0")) == ["", "1\t0\t.gitignore", "1\t0\tnew.txt", "1\t10\ta.txt"]


def test_a_deleted_file_is_missing_in_the_tree(repo: Repository) -> None:
    (repo.path / "a.txt").unlink()
    with Scratch(str(repo.path)) as scratch:
        assert scratch.count_lines("HEAD", scratch.write_tree(str(repo.path))) == "0\t10\ta.txt\0"


@pytest.mark.parametrize(("failures", "succeeds"), [(2, True), (3, False)])
def test_a_file_that_vanishes_is_tried_again(repo: Repository, failures: int, *, succeeds: bool) -> None:
    """A filter fails so many times, as git does if a file is gone when it reads it."""
    count = repo.path / ".git" / "count"
    fails = f'[ "$(wc -l < {count})" -gt {failures} ] && cat'
    repo.git("config", "filter.shy.clean", f"echo >> {count}; {fails}")
    repo.git("config", "filter.shy.required", "true")
    (repo.path / ".gitattributes").write_text("*.new filter=shy\n")
    (repo.path / "x.new").write_text("x\n")
    with Scratch(str(repo.path)) as scratch:
        if succeeds:
            assert "x.new" in scratch.count_lines("HEAD", scratch.write_tree(str(repo.path)))
        else:
            with pytest.raises(SourceError, match=r"x\.new"):
                scratch.write_tree(str(repo.path))


def test_the_repository_is_not_written(repo: Repository) -> None:
    """No object and no index; even the time stamps stay."""
    (repo.path / "new.txt").write_text("new\n")
    (repo.path / "a.txt").write_text("changed\n")
    head = repo.git("rev-parse", "HEAD")
    before = _read_files(repo.path)
    with Scratch(str(repo.path)) as scratch:
        commit = scratch.commit(scratch.write_tree(str(repo.path)), head)
        assert scratch.merge(commit, head).conflicts == ()
        scratch.patch(head, commit)
        folder = Path(scratch._folder)
        assert folder.exists()
    assert _read_files(repo.path) == before
    assert not folder.exists()


def test_a_clean_merge_has_a_tree(repo: Repository) -> None:
    base = repo.git("rev-parse", "HEAD")
    one = repo.commit(b_txt="b\n")
    repo.git("checkout", "--quiet", base)
    two = repo.commit(c_txt="c\n")
    with Scratch(str(repo.path)) as scratch:
        merged = scratch.merge(one, two)
        assert merged.conflicts == ()
        assert scratch.count_lines(base, merged.tree).count("\0") == 2


def test_a_merge_with_conflicts_names_the_files(repo: Repository) -> None:
    base = repo.git("rev-parse", "HEAD")
    one = repo.commit(a_txt="one\n", b_txt="one\n")
    repo.git("checkout", "--quiet", base)
    two = repo.commit(a_txt="two\n", b_txt="two\n", c_txt="fine\n")
    with Scratch(str(repo.path)) as scratch:
        assert scratch.merge(one, two).conflicts == ("a.txt", "b.txt")


def test_a_git_without_the_new_merge_tree_is_unsupported(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that knows only the old `merge-tree` prints its usage."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(
        f'#!/bin/sh\ncase "$*" in *merge-tree*) echo usage >&2; exit 129;; esac\nexec {real} "$@"\n'
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    with Scratch(str(repo.path)) as scratch, pytest.raises(Unsupported, match=r"git 2\.38"):
        scratch.merge("HEAD", "HEAD")


def test_no_program_of_the_repository_is_run_for_a_patch(repo: Repository, tmp_path: Path) -> None:
    repo.commit(_gitattributes="*.txt diff=shout\n", a_txt="changed\n")
    repo.git("config", "diff.shout.command", f"touch {tmp_path / 'ran'}")
    repo.git("config", "diff.shout.textconv", f"touch {tmp_path / 'ran'}")
    with Scratch(str(repo.path)) as scratch:
        assert "+changed" in scratch.patch("HEAD~1", "HEAD")
    assert not (tmp_path / "ran").exists()


def test_a_path_may_have_a_colon(repo: Repository, tmp_path: Path) -> None:
    moved = tmp_path / "a: strange \u00e9 place"
    repo.path.rename(moved)
    with Scratch(str(moved)) as scratch:
        assert git.read_line(str(moved), "cat-file", "-t", "HEAD") == "commit"
        assert scratch.write_tree(str(moved))
