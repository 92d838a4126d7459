"""What a slot has changed since its base, whether committed or not, and which slots get in each
other's way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import combinations
from typing import NamedTuple

from agentctl.compare.model import Changes, Conflict
from agentctl.errors import Gone
from agentctl.truth.model import Worktree
from agentctl.worktrees import git, worktree
from agentctl.worktrees.scratch import Scratch


class Content(NamedTuple):
    """A slot's work as git objects, good while its scratch is open."""

    scratch: Scratch
    base: str
    tree: str
    commit: str
    changes: Changes


class Reader:
    """Reads many slots, a scratch for each repository. A context manager."""

    def __init__(self) -> None:
        self._open: dict[str, Scratch] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, made: Worktree) -> Content:
        """Raises SourceError with the reason why it cannot be told."""
        scratch = self._scratch(made.repository)
        if os.path.exists(os.path.join(made.path, ".git")):
            head = git.line(made.path, "rev-parse", "--verify", "HEAD^{commit}")
            tree = scratch.tree_of(made.path)
        else:
            head, tree = _of_branch(made)
        committed = git.line(made.repository, "rev-parse", f"{head}^{{tree}}")
        total = sum(1 for _ in _numbers(scratch.numbers(committed, tree)))
        changes = _changes(scratch.numbers(made.base, tree))._replace(
            commits=int(git.line(made.repository, "rev-list", "--count", f"{made.base}..{head}")),
            uncommitted=total,
        )
        return Content(scratch, made.base, tree, scratch.commit(tree, head), changes)

    def _scratch(self, repository: str) -> Scratch:
        if repository not in self._open:
            if not os.path.isdir(repository):
                raise Gone(repository, "the repository is gone")
            self._open[repository] = self._stack.enter_context(Scratch(repository))
        return self._open[repository]


def conflicts(contents: Mapping[str, Content]) -> dict[str, list[Conflict]]:
    """By slot, with whom and in which files. Raises SourceError."""
    found: dict[str, list[Conflict]] = {name: [] for name in contents}
    for (one, first), (two, second) in combinations(contents.items(), 2):
        if first.scratch is not second.scratch:  # of different repositories
            continue
        merged = first.scratch.merge(first.commit, second.commit)
        if merged.conflicts:
            found[one].append(Conflict(two, merged.conflicts))
            found[two].append(Conflict(one, merged.conflicts))
    return found


def _of_branch(made: Worktree) -> tuple[str, str]:
    """The worktree is gone; what was committed is not."""
    head = worktree.tip(made.repository, made.branch)
    if head is None:
        raise Gone(made.path, f"its worktree and its branch {made.branch} are gone")
    return head, git.line(made.repository, "rev-parse", f"{head}^{{tree}}")


def _changes(told: str) -> Changes:
    files = insertions = deletions = 0
    for added, removed in _numbers(told):
        files += 1
        insertions += added
        deletions += removed
    return Changes(files, insertions, deletions)


def _numbers(told: str) -> Iterator[tuple[int, int]]:
    """`ADDED\\tREMOVED\\tNAME\\0`; a rename has no name there, and two records more. A binary file
    has no lines: `-`."""
    records = iter(told.split("\0"))
    for record in records:
        added, tab, rest = record.partition("\t")
        removed, _, name = rest.partition("\t")
        if not tab:
            continue
        if not name:
            next(records, None)
            next(records, None)
        yield (int(added) if added.isdigit() else 0, int(removed) if removed.isdigit() else 0)
