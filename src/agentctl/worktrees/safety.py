"""The state of a worktree, and what removing it would lose. The survey says which sessions run in it,
git says which work is in it; both are read when asked."""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.errors import SourceError
from agentctl.light_typing import Any, Iterable, NamedTuple, Sequence
from agentctl.state.locks import Lock
from agentctl.truth.model import Session
from agentctl.wire import worktree as wire
from agentctl.worktrees import git
from agentctl.worktrees.scratch import Scratch
from agentctl.worktrees.worktree import Checkout, find_tip


class WorktreeState(NamedTuple):
    """None means not known; `unknown` says why."""

    checkout: Checkout
    ahead: int | None  # its own commits since its base
    behind: int | None  # commits of the main checkout that it does not have
    dirty: int | None  # changed or new files that are not committed
    merged: bool | None  # all its commits, or all their changes, are in another branch
    pushed: bool | None  # a remote has its branch as it is
    sessions: tuple[Session, ...]  # that run in it, or may
    unknown: str | None = None

    @property
    def there(self) -> bool:
        return os.path.isdir(self.checkout.path)


def read_state(checkout: Checkout, sessions: Iterable[Session]) -> WorktreeState:
    """Return the state. `sessions`: every live session."""
    blank = WorktreeState(
        checkout=checkout,
        ahead=None,
        behind=None,
        dirty=None,
        merged=None,
        pushed=None,
        sessions=tuple(session for session in sessions if runs_in(session, checkout.path)),
    )
    if checkout.worktree is None:
        return blank._replace(unknown="not made by agentctl")
    try:
        heads = _list_heads(checkout)
        return blank._replace(
            ahead=_count_commits(checkout, f"{checkout.worktree.base}..{checkout.head}"),
            behind=_count_commits(checkout, f"{checkout.head}..{_main_head(checkout)}"),
            dirty=_count_dirty(checkout),
            merged=all(_is_merged(checkout, head) for head in heads),
            pushed=all(_is_pushed(checkout, head) for head in heads),
        )
    except SourceError as error:
        return blank._replace(unknown=error.why)


def wire_state(state: WorktreeState, result: str = "", reason: str = "") -> dict[str, Any]:
    """Return the JSON form, as `wire.worktree.WORKTREE_FIELDS` describes it."""
    checkout = state.checkout
    assert checkout.worktree is not None
    names = ("there", "ahead", "behind", "dirty", "merged", "pushed", "unknown")
    return wire.dump_worktree(
        checkout.worktree,
        branch=checkout.branch,
        group=checkout.group,
        state={name: getattr(state, name) for name in names},
        sessions=state.sessions,
        result=result or None,
        reason=reason or None,
    )


def runs_in(session: Session, path: str) -> bool:
    """Return True if the kernel or the agent says that the session runs in this directory or below."""
    if session.verdict.status == "stopped":
        return False
    observation = session.observation
    processes = [p for p in (observation.owner, *observation.candidates) if p is not None]
    directories = [observation.facts.cwd, *(process.cwd for process in processes)]
    return any(cwd is not None and paths.resolves_inside(cwd, path) for cwd in directories)


def find_occupant(state: WorktreeState, locks: Sequence[Lock]) -> str | None:
    """Return who works in the worktree. --force does not override this: an agent whose directory is
    removed loses its work and does not notice."""
    for session in state.sessions:
        observation = session.observation
        if observation.owner is not None:
            id_ = observation.session_id or f"pid:{observation.owner.pid}"
            what = f"session {id_} ({observation.adapter}, {session.verdict.status})"
            return f"{what} runs in it: agentctl stop {id_}"
    for lock in locks:
        if lock.identity is not None and paths.resolves_inside(lock.directory, state.checkout.path):
            pid = lock.identity.pid
            return f"a launched agent, pid {pid}, holds it: agentctl stop pid:{pid}"
    return None


def find_risk(state: WorktreeState, locks: Sequence[Lock], *, delete_branch: bool) -> str | None:
    """Return what a removal would lose, or what is not known. --force overrides this."""
    checkout = state.checkout
    if checkout.locked is not None:
        return "git keeps it locked" + (f": {checkout.locked}" if checkout.locked else "")
    for lock in locks:
        if lock.identity is None and paths.resolves_inside(lock.directory, checkout.path):
            return f"locked by {lock.by or 'a person'}" + (f": {lock.reason}" if lock.reason else "")
    if state.sessions:
        return f"session {state.sessions[0].observation.session_id} may run in it"
    if state.unknown is not None:
        return f"its state is not known: {state.unknown}"
    if state.dirty:
        return f"{state.dirty} file{'s' * (state.dirty != 1)} not committed"
    is_elsewhere = state.merged or state.pushed
    if not is_elsewhere and (delete_branch or checkout.branch is None):
        where = f"branch {checkout.branch}" if checkout.branch else "a detached HEAD"
        commits = f"{state.ahead or 'its'} commit{'s' * (state.ahead != 1)}"
        return f"{where} has {commits} that nothing else has"
    return None


def list_branches(checkout: Checkout) -> list[str]:
    """Return the branch of the worktree, and the one that the agent may have checked out instead."""
    created = [checkout.worktree.branch] if checkout.worktree is not None else []
    names = dict.fromkeys([*created, *([checkout.branch] if checkout.branch else [])])
    return [name for name in names if find_tip(checkout.repository, name) is not None]


def _list_heads(checkout: Checkout) -> list[str]:
    tips = [find_tip(checkout.repository, name) for name in list_branches(checkout)]
    return [head for head in dict.fromkeys([checkout.head, *tips]) if head is not None]


def _main_head(checkout: Checkout) -> str:
    return git.read_line(checkout.repository, "rev-parse", "--verify", "HEAD^{commit}")


def _count_commits(checkout: Checkout, commits: str) -> int:
    return int(git.read_line(checkout.repository, "rev-list", "--count", commits, "--"))


def _count_dirty(checkout: Checkout) -> int:
    if not os.path.isdir(checkout.path):
        return 0
    words = ("status", "--porcelain", "--no-renames", "-z", "--untracked-files=all")
    return len([record for record in git.read(checkout.path, *words).text.split("\0") if record])


def _is_merged(checkout: Checkout, head: str) -> bool:
    """Return True if a branch that no worktree of ours has contains the commits. After a squash or a
    cherry-pick no branch does: then return True if merging them would change nothing."""
    names = {*list_branches(checkout), *_list_marked(checkout)}
    own = {f"refs/heads/{name}" for name in names}
    refs = _list_refs(checkout, head)
    if any(ref not in own and not _is_remote_copy(ref, names) for ref in refs):
        return True
    main = _main_head(checkout)
    if git.is_true(checkout.repository, "merge-base", "--is-ancestor", head, main):  # may be detached
        return True
    return _adds_nothing(checkout.repository, main, head)


def _is_pushed(checkout: Checkout, head: str) -> bool:
    return any(ref.startswith("refs/remotes/") for ref in _list_refs(checkout, head))


def _list_refs(checkout: Checkout, head: str) -> list[str]:
    """Return the branches that contain this commit."""
    words = ("for-each-ref", f"--contains={head}", "--format=%(refname)", "refs/heads", "refs/remotes")
    return git.read(checkout.repository, *words).text.split()


def _is_remote_copy(ref: str, names: set[str]) -> bool:
    """Return True for a remote's copy of one of these branches."""
    remote, slash, name = ref.removeprefix("refs/remotes/").partition("/")
    return bool(remote and slash) and ref.startswith("refs/remotes/") and name in names


def _list_marked(checkout: Checkout) -> set[str]:
    """Return the branches of slots. Each may be deleted next, so none keeps another one's work safe."""
    pattern = r"^branch\..*\.agentctlbase$"
    words = ("config", "--null", "--name-only", "--get-regexp", pattern)
    names = git.read(checkout.repository, *words, codes=(0, 1)).text.split("\0")
    return {name.removeprefix("branch.").rpartition(".")[0] for name in names if name}


def _adds_nothing(repository: str, main: str, head: str) -> bool:
    """Return True if merging `head` into `main` changes no file."""
    main_tree = git.read_line(repository, "rev-parse", f"{main}^{{tree}}")
    base = git.read(repository, "merge-base", main, head, codes=(0, 1)).text.strip()
    if not base:
        return False
    trees = {git.read_line(repository, "rev-parse", f"{commit}^{{tree}}") for commit in (base, head)}
    if len(trees) == 1:
        return False  # commits that undo each other: only their history is left, and it is nowhere else
    with Scratch(repository) as scratch:
        merged = scratch.merge(main, head)
        return not merged.conflicts and merged.tree == main_tree
