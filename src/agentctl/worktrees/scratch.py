"""Temporary git objects. The content of a worktree, committed or not, becomes a tree, and two of them
are merged, without a write to the repository or to any index: new objects go to a temporary folder that
has the repository's objects as its alternates.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from agentctl.errors import SourceError, Unsupported
from agentctl.light_typing import Mapping, NamedTuple
from agentctl.worktrees import git

# The temporary commits are not shown: they need an author, but no real one.
_AUTHOR = {
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
    """For one repository. Use as a context manager."""

    def __init__(self, repository: str) -> None:
        self.repository = repository
        self._folder = tempfile.mkdtemp(prefix="agentctl-")
        objects = os.path.join(self._folder, "objects")
        self._environ = {"GIT_OBJECT_DIRECTORY": objects, **_AUTHOR}
        try:
            os.makedirs(os.path.join(objects, "info"))
            own = git.read_line(
                repository, "rev-parse", "--path-format=absolute", "--git-path", "objects"
            )
            # a file, because $GIT_ALTERNATE_OBJECT_DIRECTORIES cannot hold a path with a colon
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

    def write_tree(self, path: str) -> str:
        """Return a tree of all files in a worktree, without ignored ones. Raises SourceError."""
        index = os.path.join(self._folder, "index")
        environ = {**self._environ, "GIT_INDEX_FILE": index}
        own = git.read_line(path, "rev-parse", "--path-format=absolute", "--git-path", "index")
        try:
            shutil.copyfile(own, index)  # it knows which files are unchanged: git need not read them
        except FileNotFoundError:
            git.read(path, "read-tree", "--empty", environ=environ)
        except OSError as error:
            raise SourceError(own, error.strerror or "cannot be copied") from error
        _add_all(path, environ)
        return git.read_line(path, "write-tree", environ=environ)

    def commit(self, tree: str, parent: str) -> str:
        return git.read_line(
            self.repository, "commit-tree", tree, "-p", parent, "-m", "scratch", environ=self._environ
        )

    def merge(self, one: str, two: str) -> Merge:
        """Raises Unsupported if git is too old to merge without a checkout."""
        words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", one, two)
        result = git.read(self.repository, *words, environ=self._environ, codes=(0, 1, 129))
        if result.code == 129:
            raise Unsupported("git merge-tree", "git 2.38 or newer can tell conflicts")
        tree, _, files = result.text.partition("\0")
        return Merge(tree, tuple(sorted({name for name in files.split("\0") if name})))

    def count_lines(self, old: str, new: str) -> str:
        """Return the lines added and removed by file, in the format of `--numstat -z`."""
        return self._compare("--numstat", "-z", old, new)

    def patch(self, old: str, new: str) -> str:
        return self._compare("--patch", "--stat", old, new)

    def _compare(self, *words: str) -> str:
        # without the repository's own programs: an external diff, a text conversion
        plain = ("-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color")
        return git.read(self.repository, "diff-tree", *plain, *words, environ=self._environ).text


def _add_all(path: str, environ: Mapping[str, str]) -> None:
    """Retry: git fails over a file that a working agent deletes between its listing and its reading."""
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            git.read(path, "add", "--all", ":/", environ=environ)
            return
        except SourceError:
            if not attempts_left:
                raise
