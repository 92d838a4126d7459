"""A place for objects that we need for a moment. What a worktree holds, committed or not, becomes a
tree, and two of them are merged, without a byte written to the repository or to anybody's index: new
objects go to a temporary folder that borrows the repository's own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from agentctl.errors import SourceError, Unsupported
from agentctl.worktrees import git

# Nobody's name is needed on commits that nobody sees.
_NOBODY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "agentctl"), ("EMAIL", "agentctl@localhost"), ("DATE", "@0 +0000"))
}


ATTEMPTS = 3


class Merge(NamedTuple):
    """What merging two commits would give."""

    tree: str
    conflicts: tuple[str, ...]  # files


class Scratch:
    """For one repository; a context manager."""

    def __init__(self, repository: str) -> None:
        self.repository = repository
        self._folder = tempfile.mkdtemp(prefix="agentctl-")
        objects = os.path.join(self._folder, "objects")
        self._environ = {"GIT_OBJECT_DIRECTORY": objects, **_NOBODY}
        try:
            os.makedirs(os.path.join(objects, "info"))
            own = git.line(repository, "rev-parse", "--path-format=absolute", "--git-path", "objects")
            # a file, not $GIT_ALTERNATE_OBJECT_DIRECTORIES: that one has trouble with colons
            with open(
                os.path.join(objects, "info", "alternates"), "w", errors="surrogateescape"
            ) as file:
                file.write(f"{own}\n")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def tree_of(self, path: str) -> str:
        """All that is in a worktree now, ignored files apart. Raises SourceError."""
        index = os.path.join(self._folder, "index")
        environ = {**self._environ, "GIT_INDEX_FILE": index}
        own = git.line(path, "rev-parse", "--path-format=absolute", "--git-path", "index")
        try:
            shutil.copyfile(own, index)  # it knows what is unchanged: nothing has to be read again
        except FileNotFoundError:
            git.ask(path, "read-tree", "--empty", environ=environ)
        except OSError as error:
            raise SourceError(own, error.strerror or "cannot be copied") from error
        _add_all(path, environ)
        return git.line(path, "write-tree", environ=environ)

    def commit(self, tree: str, parent: str) -> str:
        return git.line(
            self.repository, "commit-tree", tree, "-p", parent, "-m", "scratch", environ=self._environ
        )

    def merge(self, one: str, two: str) -> Merge:
        """Raises Unsupported where git is too old to merge without a checkout."""
        words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", one, two)
        ran = git.ask(self.repository, *words, environ=self._environ, fine=(0, 1, 129))
        if ran.code == 129:
            raise Unsupported("git merge-tree", "git 2.38 or newer can tell conflicts")
        tree, _, files = ran.text.partition("\0")
        return Merge(tree, tuple(sorted({name for name in files.split("\0") if name})))

    def numbers(self, old: str, new: str) -> str:
        """Lines added and removed by file, as `--numstat -z` tells them."""
        return self._difference("--numstat", "-z", old, new)

    def patch(self, old: str, new: str) -> str:
        return self._difference("--patch", "--stat", old, new)

    def _difference(self, *words: str) -> str:
        # none of the repository's own programs: an external diff, a text conversion
        plain = ("-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color")
        return git.ask(self.repository, "diff-tree", *plain, *words, environ=self._environ).text


def _add_all(path: str, environ: Mapping[str, str]) -> None:
    """An agent at work makes files and takes them away again, and git gives up over one that vanishes
    between its name and its content."""
    for left in reversed(range(ATTEMPTS)):
        try:
            git.ask(path, "add", "--all", ":/", environ=environ)
            return
        except SourceError:
            if not left:
                raise
