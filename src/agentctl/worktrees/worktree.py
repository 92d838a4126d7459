"""Git worktrees for slots: made, listed, removed. They are not in our state directory, which may be
deleted at any time: they hold work. Which of a repository's worktrees are ours is written in the
repository's own config, for the same reason:

    [branch "agentctl/fix/opus"]
        agentctlBase = 4f2a…         the commit it began at
        agentctlGroup = fix
        agentctlWorktree = /home/me/project-worktrees/agentctl-fix-opus
        agentctlNew = true           the branch was made for it
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import NamedTuple

from agentctl.errors import Gone, NotFound, Refused, SourceError, UsageError
from agentctl.truth.model import Worktree
from agentctl.worktrees import git

_KEYS = ("agentctlBase", "agentctlGroup", "agentctlWorktree", "agentctlNew")


class Checkout(NamedTuple):
    """One worktree of a repository, as git lists it."""

    repository: str  # its main checkout
    path: str
    head: str | None  # None: no commit yet, or a bare repository
    branch: str | None  # None: detached
    made: Worktree | None  # None: not made by us
    group: str | None = None
    locked: str | None = None  # why git must not remove it; empty: no reason was given
    bare: bool = False


def main_checkout(directory: str) -> str:
    """Of the repository that this directory is in, whichever of its worktrees that is."""
    return listing(directory)[0].path


def place(repository: str, directory: str | None = None) -> str:
    """Where its worktrees are made: in the directory that the user names, or beside the repository."""
    if directory:
        return os.path.join(repository, os.path.expanduser(directory))
    return f"{repository.rstrip('/').removesuffix('/.git').removesuffix('.git')}-worktrees"


def check_branch(repository: str, branch: str) -> None:
    """Raises UsageError for what git would not take as the name of a branch."""
    if git.ask(repository, "check-ref-format", f"refs/heads/{branch}", fine=(0, 1)).code != 0 or (
        branch.startswith("-") or branch == "HEAD"
    ):
        raise UsageError(f"not a name for a branch: {branch!r}", "git help check-ref-format tells why")


def create(
    directory: str, branch: str, base: str | None, into: str, group: str | None = None
) -> Worktree:
    """Check that branch out, in a folder of its own below `into`. A new branch begins at `base` (None:
    what `directory` has checked out); one that exists goes on where it is."""
    check_branch(directory, branch)
    with _alone(directory):
        made, new = _begun(directory, branch, base, into, group)
    try:
        git.change(made.path, "checkout", "--quiet", "--force")  # side by side: all that takes its time
    except BaseException:
        git.change(made.repository, "worktree", "remove", "--force", "--", made.path)
        _undo(made, new=new)
        raise
    return made


def _begun(
    directory: str, branch: str, base: str | None, into: str, group: str | None
) -> tuple[Worktree, bool]:
    """The worktree without a file in it, and whether its branch is new."""
    known = listing(directory)
    start, new = _beginning(directory, branch, base, known)
    path = _claim(into, branch, {c.path for c in known})
    made = Worktree(known[0].path, path, branch, start)
    try:
        _add(made, group, new=new)
    except BaseException:
        with suppress(OSError):  # git has removed it, or somebody else has put something there
            os.rmdir(path)
        raise
    return made, new


def foreseen(directory: str, branch: str, base: str | None, into: str) -> Worktree:
    """As `create` would make it now. Raises what that would."""
    check_branch(directory, branch)
    known = listing(directory)
    start, _ = _beginning(directory, branch, base, known)
    taken = {c.path for c in known}
    free = (p for p in _folders(into, branch) if p not in taken and not os.path.lexists(p))
    return Worktree(known[0].path, next(free), branch, start)


def _beginning(directory: str, branch: str, base: str | None, known: list[Checkout]) -> tuple[str, bool]:
    """The commit it begins at, and whether its branch is new. Raises UsageError, Refused."""
    existing = tip(known[0].path, branch)
    elsewhere = [c.path for c in known if c.branch == branch]
    if existing and elsewhere:
        raise Refused(
            f"branch {branch} is checked out in {elsewhere[0]}",
            f"another --group or --branch, or away with it: agentctl worktree clean {branch}",
        )
    return existing or commit(directory, base or "HEAD"), not existing


@contextmanager
def _alone(directory: str) -> Iterator[None]:
    """One at a time in a repository: git looks whether a branch is checked out elsewhere, and then adds,
    and two that look at the same moment both add. Held by a descriptor: nothing is left behind."""
    words = ("rev-parse", "--path-format=absolute", "--git-common-dir")
    try:
        fd = os.open(git.line(directory, *words), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except SourceError:  # no repository: what comes next says so
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def listing(directory: str) -> list[Checkout]:
    """Every worktree of the repository, its main checkout first. Raises NotFound, SourceError."""
    try:
        told = git.ask(directory, "worktree", "list", "--porcelain", "-z").text
    except SourceError as error:
        if isinstance(error, Gone) or "not a git repository" in error.why:
            raise NotFound(f"not in a git repository: {directory}", "go into one, or name it") from error
        raise
    marks = _marks(directory)
    blocks = [_fields(block) for block in told.split("\0\0") if block]
    repository = blocks[0]["worktree"]
    return [_checkout(repository, fields, marks) for fields in blocks]


def ours(directory: str) -> list[Checkout]:
    return [checkout for checkout in listing(directory) if checkout.made is not None]


def remove(checkout: Checkout, *, force: bool = False) -> None:
    """The folder only. Git itself refuses, without `force`, where something is not committed."""
    words = ("--force", "--force") if force else ()  # twice: also one that is locked
    git.change(checkout.repository, "worktree", "remove", *words, "--", checkout.path)
    if checkout.made is not None:
        _unmark(checkout.repository, checkout.made.branch, "agentctlWorktree")
    with suppress(OSError):  # there are others in it, or it is not a folder of ours
        os.rmdir(os.path.dirname(checkout.path))


def discard(made: Worktree) -> None:
    """One in which nothing has begun: as if it had never been made. A branch that was there before
    stays, and so does whatever somebody has done meanwhile. Raises SourceError."""
    for checkout in ours(made.repository):
        if checkout.path == made.path:
            remove(checkout)
    if is_new(made.repository, made.branch) and tip(made.repository, made.branch) == made.base:
        delete_branch(made.repository, made.branch)
    else:
        _unmark(made.repository, made.branch, *_KEYS)


def is_new(repository: str, branch: str) -> bool:
    """Whether the branch was made by us, with a worktree for it."""
    return git.yes(repository, "config", "--get", f"branch.{branch}.agentctlNew")


def delete_branch(repository: str, branch: str, *, whosever: bool = False) -> None:
    """And with it our marks. Whether work is lost was asked before; one that was there before its
    worktree goes only if a person says so (`whosever`). Raises Refused, SourceError."""
    if not whosever and not is_new(repository, branch):
        raise Refused(f"branch {branch} was not made by agentctl", "git branch -D deletes it")
    git.change(repository, "branch", "-D", "--", branch)


def commit(directory: str, name: str) -> str:
    """What a name stands for. Raises UsageError, Refused."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    found = git.ask(directory, *words, fine=(0, 1, 128)).text.strip()
    if found:
        return found
    if name == "HEAD":
        raise Refused(f"{directory} has no commit yet", "commit something that a worktree can begin at")
    raise UsageError(f"no commit {name!r} in {directory}", "git branch --all lists the branches")


def tip(repository: str, branch: str) -> str | None:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}")
    return git.ask(repository, *words, fine=(0, 1, 128)).text.strip() or None


def _add(made: Worktree, group: str | None, *, new: bool) -> None:
    """In steps of which each can be repeated: `worktree add -b` leaves its branch behind when the
    second half of it fails. Marked first: killed in between, we leave a mark without a worktree."""
    repository, path, branch, base = made
    if new:
        git.change(repository, "branch", "--no-track", "--", branch, base)
    else:
        _unmark(repository, branch, *_KEYS)  # of an earlier worktree
    try:
        for key, value in zip(_KEYS, (base, group, path, "true" if new else None), strict=True):
            if value is not None:
                git.change(repository, "config", f"branch.{branch}.{key}", value)
        git.change(repository, "worktree", "add", "--no-checkout", "--", path, branch)
    except BaseException:
        _undo(made, new=new)
        raise


def _undo(made: Worktree, *, new: bool) -> None:
    if new:  # just now, by this very call
        delete_branch(made.repository, made.branch, whosever=True)
    else:
        _unmark(made.repository, made.branch, *_KEYS)


def _claim(into: str, branch: str, taken: set[str]) -> str:
    """An empty folder that is nobody else's: only one of all who ask can make it."""
    for path in _folders(into, branch):
        if path in taken:  # also one whose folder was deleted by hand
            continue
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise Refused(f"no worktree can be made at {path}: {error.strerror}") from error
    raise AssertionError


def _folders(into: str, branch: str) -> Iterator[str]:
    """Names for its folder, the best first."""
    path = os.path.join(os.path.realpath(into), branch.replace("/", "-"))
    yield path
    yield from (f"{path}-{number}" for number in count(2))


def _unmark(repository: str, branch: str, *keys: str) -> None:
    for key in keys:  # 5: it was not there
        git.change(repository, "config", "--unset-all", f"branch.{branch}.{key}", fine=(0, 5))


def _marks(directory: str) -> dict[str, tuple[Worktree, str | None]]:
    """Ours, by path."""
    values: dict[str, dict[str, str]] = {}
    for name, value in _config(directory):
        branch, _, key = name.removeprefix("branch.").rpartition(".")
        values.setdefault(branch, {})[key] = value
    return {
        told["agentctlworktree"]: (
            Worktree("", told["agentctlworktree"], branch, told["agentctlbase"]),
            told.get("agentctlgroup"),
        )
        for branch, told in values.items()
        if "agentctlworktree" in told and "agentctlbase" in told
    }


def _config(directory: str) -> Iterator[tuple[str, str]]:
    pattern = r"^branch\..*\.agentctl(base|group|worktree)$"
    told = git.ask(directory, "config", "--null", "--get-regexp", pattern, fine=(0, 1)).text
    for record in told.split("\0"):
        name, newline, value = record.partition("\n")
        if newline:
            yield name, value


def _fields(block: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition(" ") for part in block.split("\0") if part)}


def _checkout(
    repository: str, fields: dict[str, str], marks: dict[str, tuple[Worktree, str | None]]
) -> Checkout:
    path, branch, head = fields["worktree"], fields.get("branch"), fields.get("HEAD")
    made, group = marks.get(path, (None, None))
    return Checkout(
        repository,
        path,
        head if head and head.strip("0") else None,
        branch.removeprefix("refs/heads/") if branch else None,
        made._replace(repository=repository) if made else None,
        group,
        fields.get("locked"),
        "bare" in fields,
    )
