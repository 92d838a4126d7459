"""Read what a slot has changed since its base, committed or not, and which slots would conflict."""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import combinations

from agentctl.compare.model import Changes, Conflict
from agentctl.errors import Gone
from agentctl.light_typing import Iterator, Mapping, NamedTuple
from agentctl.truth.model import Worktree
from agentctl.worktrees import git
from agentctl.worktrees.scratch import Scratch
from agentctl.worktrees.worktree import find_tip


class Content(NamedTuple):
    """The work of a slot as git objects. They exist while the scratch is open."""

    scratch: Scratch
    base: str
    tree: str
    commit: str
    changes: Changes


class Reader:
    """Read slots, with one scratch for each repository. Use as a context manager."""

    def __init__(self) -> None:
        self._scratches: dict[str, Scratch] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, worktree: Worktree) -> Content:
        """Raises SourceError with the reason why the changes are not known."""
        repository, base = worktree.repository, worktree.base
        scratch = self._open_scratch(repository)
        if os.path.exists(os.path.join(worktree.path, ".git")):
            head = git.read_line(worktree.path, "rev-parse", "--verify", "HEAD^{commit}")
            tree = scratch.write_tree(worktree.path)
        else:
            head, tree = _read_branch(worktree)
        head_tree = git.read_line(repository, "rev-parse", f"{head}^{{tree}}")
        changes = _sum_changes(scratch.count_lines(base, tree))._replace(
            commits=int(git.read_line(repository, "rev-list", "--count", f"{base}..{head}")),
            uncommitted=sum(1 for _ in _parse_counts(scratch.count_lines(head_tree, tree))),
        )
        return Content(scratch, base, tree, scratch.commit(tree, head), changes)

    def _open_scratch(self, repository: str) -> Scratch:
        if repository not in self._scratches:
            if not os.path.isdir(repository):
                raise Gone(repository, "the repository is gone")
            self._scratches[repository] = self._stack.enter_context(Scratch(repository))
        return self._scratches[repository]


def find_conflicts(contents: Mapping[str, Content]) -> dict[str, list[Conflict]]:
    """Return the conflicts of each slot, with the other slot and the files. Raises SourceError."""
    by_slot: dict[str, list[Conflict]] = {name: [] for name in contents}
    for (one, first), (two, second) in combinations(contents.items(), 2):
        if first.scratch is not second.scratch:  # different repositories
            continue
        merged = first.scratch.merge(first.commit, second.commit)
        if merged.conflicts:
            by_slot[one].append(Conflict(two, merged.conflicts))
            by_slot[two].append(Conflict(one, merged.conflicts))
    return by_slot


def _read_branch(worktree: Worktree) -> tuple[str, str]:
    """Return the commit and the tree of the branch, if the worktree is gone. Raises Gone."""
    head = find_tip(worktree.repository, worktree.branch)
    if head is None:
        raise Gone(worktree.path, f"its worktree and its branch {worktree.branch} are gone")
    return head, git.read_line(worktree.repository, "rev-parse", f"{head}^{{tree}}")


def _sum_changes(numstat: str) -> Changes:
    files = insertions = deletions = 0
    for added, removed in _parse_counts(numstat):
        files += 1
        insertions += added
        deletions += removed
    return Changes(files, insertions, deletions)


def _parse_counts(numstat: str) -> Iterator[tuple[int, int]]:
    """Yield the lines added and removed of each file, from `ADDED\\tREMOVED\\tNAME\\0`. A rename has no
    name there, and two more records. A binary file has `-` instead of numbers."""
    records = iter(numstat.split("\0"))
    for record in records:
        added, tab, rest = record.partition("\t")
        removed, _, name = rest.partition("\t")
        if not tab:
            continue
        if not name:
            next(records, None)
            next(records, None)
        yield (int(added) if added.isdigit() else 0, int(removed) if removed.isdigit() else 0)
