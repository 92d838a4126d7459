"""What slots have changed, and who is in whose way."""

import shutil
from pathlib import Path

import pytest

from agentctl.compare.changes import Reader, conflicts
from agentctl.compare.model import Changes, Conflict
from agentctl.errors import Gone
from agentctl.truth.model import Worktree
from agentctl.worktrees import worktree
from tests.worktrees.repository import Repository


def _make(repo: Repository, name: str) -> Worktree:
    return worktree.create(str(repo.path), name, None, worktree.place(str(repo.path)))


def _write(made: Worktree, **files: str) -> None:
    for name, text in files.items():
        (Path(made.path) / name.replace("_", ".")).write_text(text)


def test_committed_and_uncommitted_and_new(repo: Repository) -> None:
    made = _make(repo, "a")
    repo.commit(made.path, b_txt="1\n2\n3\n")
    repo.commit(made.path, c_txt="1\n")
    _write(made, b_txt="1\n2\n", d_txt="1\n2\n3\n4\n")
    repo.git("rm", "--quiet", "a.txt", cwd=made.path)
    repo.commit(elsewhere_txt="what happens in the main checkout is not the slot's\n")
    with Reader() as reader:
        assert reader.read(made).changes == Changes(
            files=4, insertions=7, deletions=10, commits=2, uncommitted=3
        )


def test_unchanged(repo: Repository) -> None:
    with Reader() as reader:
        assert reader.read(_make(repo, "a")).changes == Changes(0, 0, 0)


def test_a_rename_is_one_file_and_a_binary_one_has_no_lines(repo: Repository) -> None:
    made = _make(repo, "a")
    (Path(made.path) / "a.txt").rename(Path(made.path) / "moved.txt")
    (Path(made.path) / "image").write_bytes(b"\0\1\2")
    with Reader() as reader:
        assert reader.read(made).changes == Changes(2, 0, 0, uncommitted=2)


def test_in_a_directory_below_and_with_odd_names(repo: Repository) -> None:
    made = _make(repo, "a")
    below = Path(made.path) / "deep" / "er"
    below.mkdir(parents=True)
    (below / "tab\tnew\nline").write_text("x\n")
    with Reader() as reader:
        assert reader.read(made).changes == Changes(1, 1, 0, uncommitted=1)


def test_the_worktree_is_gone_the_branch_is_not(repo: Repository) -> None:
    made = _make(repo, "a")
    repo.commit(made.path, b_txt="1\n")
    worktree.remove(worktree.ours(str(repo.path))[0])
    with Reader() as reader:
        assert reader.read(made).changes == Changes(1, 1, 0, commits=1)
    worktree.delete_branch(str(repo.path), "a")
    with Reader() as reader, pytest.raises(Gone, match="its worktree and its branch a are gone"):
        reader.read(made)


def test_the_repository_is_gone(repo: Repository) -> None:
    made = _make(repo, "a")
    shutil.rmtree(repo.path)
    with Reader() as reader, pytest.raises(Gone, match="the repository is gone"):
        reader.read(made)


def test_a_plain_folder_in_its_place_is_not_it(repo: Repository) -> None:
    """In a repository further up it would tell that one's state."""
    made = _make(repo, "a")
    shutil.rmtree(made.path)
    Path(made.path).mkdir()
    with Reader() as reader:
        assert reader.read(made).changes == Changes(0, 0, 0)


def test_who_is_in_whose_way(repo: Repository) -> None:
    names = ("one", "two", "three", "none")
    made = {name: _make(repo, name) for name in names}
    repo.commit(made["one"].path, a_txt="one\n")
    _write(made["two"], a_txt="two\n")  # not even committed
    _write(made["three"], b_txt="apart\n")
    with Reader() as reader:
        found = conflicts({name: reader.read(tree) for name, tree in made.items()})
    assert found == {
        "one": [Conflict("two", ("a.txt",))],
        "two": [Conflict("one", ("a.txt",))],
        "three": [],
        "none": [],
    }


def test_slots_of_two_repositories(repo: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.commit(a_txt="other\n")
    one, two = _make(repo, "a"), _make(other, "a")
    _write(one, a_txt="1\n")
    _write(two, a_txt="2\n")
    with Reader() as reader:
        assert conflicts({"one": reader.read(one), "two": reader.read(two)}) == {"one": [], "two": []}
