"""Choose worktrees that agentctl created, and remove those that are safe to remove."""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.errors import NotFound, SourceError
from agentctl.light_typing import Iterable, Iterator, Mapping, NamedTuple, Sequence
from agentctl.sessions import query
from agentctl.state import locks
from agentctl.state.locks import Lock
from agentctl.worktrees import safety, worktree
from agentctl.worktrees.safety import WorktreeState
from agentctl.worktrees.worktree import Checkout


class CleanOptions(NamedTuple):
    merged: bool = False  # keep worktrees that are not merged
    delete_branch: bool = False
    force: bool = False  # also if work is lost
    dry_run: bool = False


class CleanResult(NamedTuple):
    state: WorktreeState
    result: str  # part of the JSON: removed, refused, kept, would remove
    reason: str


def find_worktrees(
    names: Sequence[str], group: str | None = None, *, only_repositories: bool = False
) -> list[Checkout]:
    """Return the worktrees of these repositories, or those of these folders and branches. No name: those
    of the current repository. `group`: only those of this group. Raises NotFound."""
    checkouts = _find_all(names, only_repositories=only_repositories)
    return [checkout for checkout in checkouts if not group or checkout.group == group]


def _find_all(names: Sequence[str], *, only_repositories: bool) -> list[Checkout]:
    if not names:
        return worktree.list_worktrees(os.getcwd())
    checkouts = {
        checkout.path: checkout
        for name in names
        for checkout in _find_by_name(name, only_repositories=only_repositories)
    }
    return list(checkouts.values())


def _find_by_name(name: str, *, only_repositories: bool) -> list[Checkout]:
    if os.path.isdir(name):
        checkouts = worktree.list_worktrees(name)
        itself = [c for c in checkouts if os.path.realpath(name) == os.path.realpath(c.path)]
        return itself if itself and not only_repositories else checkouts
    if only_repositories:
        raise NotFound(f"not a directory: {name}", "name a repository")
    matches = [
        c
        for c in worktree.list_worktrees(os.getcwd())
        if c.worktree and name in (c.worktree.branch, c.branch, c.path)
    ]
    if not matches:
        raise NotFound(f"no worktree of ours for {name!r}", "list them: agentctl worktree list")
    return matches


def clean_worktrees(
    checkouts: Iterable[Checkout],
    options: CleanOptions,
    environ: Mapping[str, str],
    deadline: float | None = None,
) -> Iterator[CleanResult]:
    """Remove each worktree, or yield why not. Looks again before each one: branches that were deleted
    before count, and an agent may have started to work in it."""
    state = paths.state_directory(environ)
    for checkout in checkouts:
        held_locks = locks.list_held(paths.database_file(state)) if state is not None else []
        sessions = query.survey_sessions(None, (), deadline).sessions
        yield clean_worktree(safety.read_state(checkout, sessions), held_locks, options)


def clean_worktree(
    state: WorktreeState, held_locks: Sequence[Lock], options: CleanOptions
) -> CleanResult:
    """Remove one worktree if that is safe. `held_locks`: the locks that are held_locks now."""
    occupant = safety.find_occupant(state, held_locks)
    if occupant is not None:
        return CleanResult(state, "refused", occupant)
    if options.merged and not state.merged:
        return CleanResult(state, "kept", state.unknown or "not merged")
    risk = safety.find_risk(state, held_locks, delete_branch=options.delete_branch)
    if risk is not None and not options.force:
        return CleanResult(state, "refused", f"{risk} (--force removes it all the same)")
    names = safety.list_branches(state.checkout)
    which = f"branch {', '.join(names)}" if names else "no branch"
    reason = f"{which} {'deleted' if options.delete_branch else 'kept'}"
    if options.dry_run:
        return CleanResult(state, "would remove", reason)
    try:
        worktree.remove_worktree(state.checkout, force=options.force)
        for branch in names if options.delete_branch else ():
            worktree.delete_branch(state.checkout.repository, branch, also_others=True)
    except SourceError as error:
        return CleanResult(state, "refused", f"git: {error.why}")
    return CleanResult(state, "removed", reason)
