"""Create, list and remove the git worktrees of slots.

They are not in our state directory, which may be deleted at any time: they hold work. For the same
reason the repository's own config says which of its worktrees are ours:

    [branch "agentctl/fix/opus"]
        agentctlBase = 4f2a…         the commit at which it started
        agentctlGroup = fix
        agentctlWorktree = /home/me/project-worktrees/agentctl-fix-opus
        agentctlNew = true           the branch was created for the worktree
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from itertools import count

from agentctl.errors import Gone, NotFound, Refused, SourceError, UsageError
from agentctl.light_typing import Iterator, NamedTuple
from agentctl.truth.model import Worktree
from agentctl.worktrees import git

_KEYS = ("agentctlBase", "agentctlGroup", "agentctlWorktree", "agentctlNew")


class Checkout(NamedTuple):
    """One worktree of a repository, as git lists it."""

    repository: str  # its main checkout
    path: str
    head: str | None  # None: no commit yet, or a bare repository
    branch: str | None  # None: detached
    worktree: Worktree | None  # None: not created by agentctl
    group: str | None = None
    locked: str | None = None  # why git must not remove it; empty: no reason given
    bare: bool = False


def find_main_checkout(directory: str) -> str:
    """Return the main checkout of the repository that the directory is in. Raises NotFound."""
    return list_checkouts(directory)[0].path


def choose_directory(repository: str, directory: str | None = None) -> str:
    """Return the directory for worktrees: the one that the user names, or one beside the repository."""
    if directory:
        return os.path.join(repository, os.path.expanduser(directory))
    return f"{repository.rstrip('/').removesuffix('/.git').removesuffix('.git')}-worktrees"


def check_branch(repository: str, branch: str) -> None:
    """Raises UsageError for an invalid branch name."""
    words = ("check-ref-format", f"refs/heads/{branch}")
    if not git.is_true(repository, *words) or branch.startswith("-") or branch == "HEAD":
        raise UsageError(f"not a branch name: {branch!r}", "see: git help check-ref-format")


def create_worktree(
    directory: str, branch: str, base: str | None, into: str, group: str | None = None
) -> Worktree:
    """Check the branch out in a new folder below `into`. A new branch starts at `base` (None: what
    `directory` has checked out); an existing one stays where it is. Raises UsageError, Refused."""
    check_branch(directory, branch)
    with _lock(directory):
        worktree, is_new = _create_empty(directory, branch, base, into, group)
    try:
        git.write(worktree.path, "checkout", "--quiet", "--force")  # slow, so without the lock
    except BaseException:
        git.write(worktree.repository, "worktree", "remove", "--force", "--", worktree.path)
        _undo(worktree, is_new=is_new)
        raise
    return worktree


def preview_worktree(directory: str, branch: str, base: str | None, into: str) -> Worktree:
    """Return what `create` would create now. Raises what it would raise."""
    check_branch(directory, branch)
    checkouts = list_checkouts(directory)
    start, _ = _find_start(directory, branch, base, checkouts)
    used_paths = {c.path for c in checkouts}
    free = (p for p in _folder_names(into, branch) if p not in used_paths and not os.path.lexists(p))
    return Worktree(checkouts[0].path, next(free), branch, start)


def list_checkouts(directory: str) -> list[Checkout]:
    """Return every worktree of the repository, its main checkout first. Raises NotFound, SourceError."""
    try:
        output = git.read(directory, "worktree", "list", "--porcelain", "-z").text
    except SourceError as error:
        if isinstance(error, Gone) or "not a git repository" in error.why:
            raise NotFound(
                f"not in a git repository: {directory}", "name one, or cd into one"
            ) from error
        raise
    marks = _read_marks(directory)
    blocks = [_parse_fields(block) for block in output.split("\0\0") if block]
    repository = blocks[0]["worktree"]
    return [_make_checkout(repository, fields, marks) for fields in blocks]


def list_worktrees(directory: str) -> list[Checkout]:
    """Return the worktrees that agentctl created. Raises NotFound, SourceError."""
    return [checkout for checkout in list_checkouts(directory) if checkout.worktree is not None]


def remove_worktree(checkout: Checkout, *, force: bool = False) -> None:
    """Remove the folder, not the branch. Without `force`, git refuses if files are not committed."""
    words = ("--force", "--force") if force else ()  # twice: also a locked worktree
    git.write(checkout.repository, "worktree", "remove", *words, "--", checkout.path)
    if checkout.worktree is not None:
        _unmark(checkout.repository, checkout.worktree.branch, "agentctlWorktree")
    with suppress(OSError):  # other worktrees are in the parent folder, or it is not ours
        os.rmdir(os.path.dirname(checkout.path))


def discard_worktree(worktree: Worktree) -> None:
    """Remove an unused worktree. Keep a branch that existed before, and any work done since. Raises
    SourceError."""
    for checkout in list_worktrees(worktree.repository):
        if checkout.path == worktree.path:
            remove_worktree(checkout)
    repository, branch = worktree.repository, worktree.branch
    if is_new_branch(repository, branch) and find_tip(repository, branch) == worktree.base:
        delete_branch(repository, branch)
    else:
        _unmark(repository, branch, *_KEYS)


def is_new_branch(repository: str, branch: str) -> bool:
    """Return True if agentctl created the branch, for a worktree."""
    return git.is_true(repository, "config", "--get", f"branch.{branch}.agentctlNew")


def delete_branch(repository: str, branch: str, *, also_others: bool = False) -> None:
    """Delete a branch and our marks on it, also if work is lost. `also_others`: also a branch that
    agentctl did not create. Raises Refused, SourceError."""
    if not also_others and not is_new_branch(repository, branch):
        raise Refused(
            f"branch {branch} was not created by agentctl", f"delete it: git branch -D {branch}"
        )
    git.write(repository, "branch", "-D", "--", branch)


def resolve_commit(directory: str, name: str) -> str:
    """Return the commit that a name stands for. Raises UsageError, Refused."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    commit = git.read(directory, *words, codes=(0, 1, 128)).text.strip()
    if commit:
        return commit
    if name == "HEAD":
        raise Refused(f"{directory} has no commit yet", "a worktree needs a commit to start at")
    raise UsageError(f"no commit {name!r} in {directory}", "list the branches: git branch --all")


def find_tip(repository: str, branch: str) -> str | None:
    """Return the last commit of a branch. None: there is no such branch."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}")
    return git.read(repository, *words, codes=(0, 1, 128)).text.strip() or None


def _create_empty(
    directory: str, branch: str, base: str | None, into: str, group: str | None
) -> tuple[Worktree, bool]:
    """Return a worktree without files, and whether its branch is new."""
    checkouts = list_checkouts(directory)
    start, is_new = _find_start(directory, branch, base, checkouts)
    path = _create_folder(into, branch, {c.path for c in checkouts})
    worktree = Worktree(checkouts[0].path, path, branch, start)
    try:
        _add(worktree, group, is_new=is_new)
    except BaseException:
        with suppress(OSError):  # git has removed it, or it is not empty any more
            os.rmdir(path)
        raise
    return worktree, is_new


def _find_start(
    directory: str, branch: str, base: str | None, checkouts: list[Checkout]
) -> tuple[str, bool]:
    """Return the commit to start at, and whether the branch is new. Raises UsageError, Refused."""
    tip = find_tip(checkouts[0].path, branch)
    elsewhere = [c.path for c in checkouts if c.branch == branch]
    if tip and elsewhere:
        raise Refused(
            f"branch {branch} is checked out in {elsewhere[0]}",
            f"use another --group or --branch, or remove it: agentctl worktree clean {branch}",
        )
    return tip or resolve_commit(directory, base or "HEAD"), not tip


@contextmanager
def _lock(directory: str) -> Iterator[None]:
    """Let one process at a time add a worktree: git checks whether a branch is checked out elsewhere and
    then adds it, and two that check at the same moment both add. A descriptor's lock leaves no file."""
    words = ("rev-parse", "--path-format=absolute", "--git-common-dir")
    try:
        fd = os.open(git.read_line(directory, *words), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except SourceError:  # no repository: the next step raises
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _add(worktree: Worktree, group: str | None, *, is_new: bool) -> None:
    """Add the worktree in steps that can be repeated: `worktree add -b` leaves its branch behind if its
    second half fails. The marks come first: if we are killed, they are there without a worktree."""
    repository, path, branch, base = worktree
    if is_new:
        git.write(repository, "branch", "--no-track", "--", branch, base)
    else:
        _unmark(repository, branch, *_KEYS)  # of an earlier worktree
    try:
        for key, value in zip(_KEYS, (base, group, path, "true" if is_new else None), strict=True):
            if value is not None:
                git.write(repository, "config", f"branch.{branch}.{key}", value)
        git.write(repository, "worktree", "add", "--no-checkout", "--", path, branch)
    except BaseException:
        _undo(worktree, is_new=is_new)
        raise


def _undo(worktree: Worktree, *, is_new: bool) -> None:
    if is_new:  # this call created the branch
        delete_branch(worktree.repository, worktree.branch, also_others=True)
    else:
        _unmark(worktree.repository, worktree.branch, *_KEYS)


def _create_folder(into: str, branch: str, used_paths: set[str]) -> str:
    """Create an empty folder and return it. mkdir succeeds for one process only."""
    for path in _folder_names(into, branch):
        if path in used_paths:  # also a worktree whose folder was deleted by hand
            continue
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise Refused(f"cannot create a worktree at {path}: {error.strerror}") from error
    raise AssertionError


def _folder_names(into: str, branch: str) -> Iterator[str]:
    """Yield names for the folder of a worktree, the best first."""
    path = os.path.join(os.path.realpath(into), branch.replace("/", "-"))
    yield path
    yield from (f"{path}-{number}" for number in count(2))


def _unmark(repository: str, branch: str, *keys: str) -> None:
    for key in keys:  # code 5: the key was not there
        git.write(repository, "config", "--unset-all", f"branch.{branch}.{key}", codes=(0, 5))


def _read_marks(directory: str) -> dict[str, tuple[Worktree, str | None]]:
    """Return our worktrees and their groups, by path."""
    by_branch: dict[str, dict[str, str]] = {}
    for name, value in _read_config(directory):
        branch, _, key = name.removeprefix("branch.").rpartition(".")
        by_branch.setdefault(branch, {})[key] = value
    return {
        keys["agentctlworktree"]: (
            Worktree("", keys["agentctlworktree"], branch, keys["agentctlbase"]),
            keys.get("agentctlgroup"),
        )
        for branch, keys in by_branch.items()
        if "agentctlworktree" in keys and "agentctlbase" in keys
    }


def _read_config(directory: str) -> Iterator[tuple[str, str]]:
    pattern = r"^branch\..*\.agentctl(base|group|worktree)$"
    output = git.read(directory, "config", "--null", "--get-regexp", pattern, codes=(0, 1)).text
    for record in output.split("\0"):
        name, newline, value = record.partition("\n")
        if newline:
            yield name, value


def _parse_fields(block: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition(" ") for part in block.split("\0") if part)}


def _make_checkout(
    repository: str, fields: dict[str, str], marks: dict[str, tuple[Worktree, str | None]]
) -> Checkout:
    path, branch, head = fields["worktree"], fields.get("branch"), fields.get("HEAD")
    worktree, group = marks.get(path, (None, None))
    return Checkout(
        repository=repository,
        path=path,
        head=head if head and head.strip("0") else None,
        branch=branch.removeprefix("refs/heads/") if branch else None,
        worktree=worktree._replace(repository=repository) if worktree else None,
        group=group,
        locked=fields.get("locked"),
        bare="bare" in fields,
    )
