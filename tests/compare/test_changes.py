"""What slots have changed, and which of them conflict."""

import shutil
from pathlib import Path

import pytest

from agentctl.compare.changes import Reader, find_conflicts
from agentctl.compare.model import Changes, Conflict
from agentctl.errors import Gone
from agentctl.truth.model import Worktree
from agentctl.worktrees import worktree
from tests.worktrees.repository import Repository


def _write(slot: Worktree, **files: str) -> None:
    for name, text in files.items():
        (Path(slot.path) / name.replace("_", ".")).write_text(text)


def test_committed_uncommitted_and_new_changes_are_counted(repo: Repository) -> None:
    slot = repo.add_worktree("a")
    repo.commit(slot.path, b_txt="1\n2\n3\n")
    repo.commit(slot.path, c_txt="1\n")
    _write(slot, b_txt="1\n2\n", d_txt="1\n2\n3\n4\n")
    repo.git("rm", "--quiet", "a.txt", cwd=slot.path)
    repo.commit(elsewhere_txt="a change in the main checkout is not the slot's\n")
    with Reader() as reader:
        assert reader.read(slot).changes == Changes(
            files=4, insertions=7, deletions=10, commits=2, uncommitted=3
        )


def test_a_fresh_slot_has_no_changes(repo: Repository) -> None:
    with Reader() as reader:
        assert reader.read(repo.add_worktree("a")).changes == Changes(0, 0, 0)


def test_a_rename_is_one_file_and_a_binary_one_has_no_lines(repo: Repository) -> None:
    slot = repo.add_worktree("a")
    (Path(slot.path) / "a.txt").rename(Path(slot.path) / "moved.txt")
    (Path(slot.path) / "image").write_bytes(b"\0\1\2")
    with Reader() as reader:
        assert reader.read(slot).changes == Changes(2, 0, 0, uncommitted=2)


def test_files_in_directories_and_with_odd_names_are_counted(repo: Repository) -> None:
    slot = repo.add_worktree("a")
    below = Path(slot.path) / "deep" / "er"
    below.mkdir(parents=True)
    (below / "tab\tnew\nline").write_text("x\n")
    with Reader() as reader:
        assert reader.read(slot).changes == Changes(1, 1, 0, uncommitted=1)


def test_changes_of_a_deleted_worktree_are_read_from_its_branch(repo: Repository) -> None:
    slot = repo.add_worktree("a")
    repo.commit(slot.path, b_txt="1\n")
    worktree.remove_worktree(worktree.list_worktrees(str(repo.path))[0])
    with Reader() as reader:
        assert reader.read(slot).changes == Changes(1, 1, 0, commits=1)
    worktree.delete_branch(str(repo.path), "a")
    with Reader() as reader, pytest.raises(Gone, match="its worktree and its branch a are gone"):
        reader.read(slot)


def test_a_deleted_repository_is_an_error(repo: Repository) -> None:
    slot = repo.add_worktree("a")
    shutil.rmtree(repo.path)
    with Reader() as reader, pytest.raises(Gone, match="the repository is gone"):
        reader.read(slot)


def test_a_plain_folder_in_place_of_the_worktree_is_not_read(repo: Repository) -> None:
    """git would read the state of a repository further up."""
    slot = repo.add_worktree("a")
    shutil.rmtree(slot.path)
    Path(slot.path).mkdir()
    with Reader() as reader:
        assert reader.read(slot).changes == Changes(0, 0, 0)


def test_slots_that_change_the_same_lines_conflict(repo: Repository) -> None:
    names = ("one", "two", "three", "none")
    slots = {name: repo.add_worktree(name) for name in names}
    repo.commit(slots["one"].path, a_txt="one\n")
    _write(slots["two"], a_txt="two\n")  # not even committed
    _write(slots["three"], b_txt="apart\n")
    with Reader() as reader:
        conflicts = find_conflicts({name: reader.read(slot) for name, slot in slots.items()})
    assert conflicts == {
        "one": [Conflict("two", ("a.txt",))],
        "two": [Conflict("one", ("a.txt",))],
        "three": [],
        "none": [],
    }


def test_slots_of_two_repositories_do_not_conflict(repo: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.commit(a_txt="other\n")
    one, two = repo.add_worktree("a"), other.add_worktree("a")
    _write(one, a_txt="1\n")
    _write(two, a_txt="2\n")
    with Reader() as reader:
        assert find_conflicts({"one": reader.read(one), "two": reader.read(two)}) == {
            "one": [],
            "two": [],
        }
