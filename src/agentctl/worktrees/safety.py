"""How a worktree stands, and what would be lost with it. Sessions in it are asked of the survey, work
in it of git, both at the moment of asking."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agentctl.errors import SourceError
from agentctl.state.locks import Lock
from agentctl.truth.model import Session
from agentctl.worktrees import git
from agentctl.worktrees.scratch import Scratch
from agentctl.worktrees.worktree import Checkout, tip


class Standing(NamedTuple):
    """None means: not known, and `unknown` says why."""

    checkout: Checkout
    ahead: int | None  # commits of its own since its base
    behind: int | None  # commits that the main checkout has and it has not
    dirty: int | None  # files changed or new, not committed
    merged: bool | None  # all its commits, or all that they change, are in another branch
    pushed: bool | None  # a remote has its branch as it is
    sessions: tuple[Session, ...]  # that run in it now, or may
    unknown: str | None = None

    @property
    def there(self) -> bool:
        return os.path.isdir(self.checkout.path)


def standing(checkout: Checkout, sessions: Iterable[Session]) -> Standing:
    inside = tuple(session for session in sessions if below(checkout.path, session))
    blank = Standing(checkout, None, None, None, None, None, inside)
    if checkout.made is None:
        return blank._replace(unknown="not made by agentctl")
    try:
        heads = _heads(checkout)
        return blank._replace(
            ahead=_count(checkout, f"{checkout.made.base}..{checkout.head}"),
            behind=_count(checkout, f"{checkout.head}..{_main(checkout)}"),
            dirty=_dirty(checkout),
            merged=all(_merged(checkout, head) for head in heads),
            pushed=all(_pushed(checkout, head) for head in heads),
        )
    except SourceError as error:
        return blank._replace(unknown=error.why)


def below(path: str, session: Session) -> bool:
    """Does it live there? By what the kernel says of its process, and by what the agent says."""
    if session.verdict.status == "stopped":
        return False
    told = [session.seen.facts.cwd]
    told += [p.cwd for p in (session.seen.owner, *session.seen.candidates) if p is not None]
    return any(cwd is not None and within(path, cwd) for cwd in told)


def within(path: str, directory: str) -> bool:
    if "\0" in directory or not directory.startswith("/"):
        return False
    return f"{os.path.realpath(directory)}/".startswith(os.path.realpath(path).rstrip("/") + "/")


def in_use(found: Standing, locks: Sequence[Lock]) -> str | None:
    """Who is in it: a reason that no force overrides. Whoever removes the ground under a working agent
    loses its work, and the agent does not notice."""
    for session in found.sessions:
        if session.seen.owner is not None:
            status, id_ = (
                session.verdict.status,
                session.seen.session_id or f"pid:{session.seen.owner.pid}",
            )
            return f"session {id_} ({session.seen.adapter}, {status}) runs in it: agentctl stop {id_}"
    for lock in locks:
        if lock.identity is not None and within(found.checkout.path, lock.directory):
            pid = lock.identity.pid
            return f"a launched agent, pid {pid}, holds it: agentctl stop pid:{pid}"
    return None


def at_risk(found: Standing, locks: Sequence[Lock], *, delete_branch: bool) -> str | None:
    """What would be lost, or what is not known: a reason that a person may override."""
    checkout = found.checkout
    if checkout.locked is not None:
        return "git keeps it locked" + (f": {checkout.locked}" if checkout.locked else "")
    for lock in locks:
        if lock.identity is None and within(checkout.path, lock.directory):
            return f"locked by {lock.by or 'a person'}" + (f": {lock.reason}" if lock.reason else "")
    if found.sessions:
        return f"session {found.sessions[0].seen.session_id} may run in it"
    if found.unknown is not None:
        return f"its state is not known: {found.unknown}"
    if found.dirty:
        return f"{found.dirty} file{'s' * (found.dirty != 1)} not committed"
    kept = found.merged or found.pushed
    if not kept and (delete_branch or checkout.branch is None):
        whose = f"branch {checkout.branch}" if checkout.branch else "a detached HEAD"
        return (
            f"{whose} has {found.ahead or 'its'} commit{'s' * (found.ahead != 1)} that nothing else has"
        )
    return None


def branches(checkout: Checkout) -> list[str]:
    """Those that were worked on there: ours, and the one that the agent may have changed to."""
    mine = [checkout.made.branch] if checkout.made is not None else []
    found = dict.fromkeys([*mine, *([checkout.branch] if checkout.branch else [])])
    return [name for name in found if tip(checkout.repository, name) is not None]


def _heads(checkout: Checkout) -> list[str]:
    tips = [tip(checkout.repository, name) for name in branches(checkout)]
    return [head for head in dict.fromkeys([checkout.head, *tips]) if head is not None]


def _main(checkout: Checkout) -> str:
    return git.line(checkout.repository, "rev-parse", "--verify", "HEAD^{commit}")


def _count(checkout: Checkout, commits: str) -> int:
    return int(git.line(checkout.repository, "rev-list", "--count", commits, "--"))


def _dirty(checkout: Checkout) -> int:
    if not os.path.isdir(checkout.path):
        return 0
    told = git.ask(checkout.path, "status", "--porcelain", "--no-renames", "-z", "--untracked-files=all")
    return len([record for record in told.text.split("\0") if record])


def _merged(checkout: Checkout, head: str) -> bool:
    """By its commits in some branch that is not one of these worktrees' own, or, as after a squash or a
    cherry-pick, by there being nothing left to merge into what the main checkout has."""
    names = {*branches(checkout), *_marked(checkout)}
    own = {f"refs/heads/{name}" for name in names}
    if any(ref not in own and not _copy_of(ref, names) for ref in _having(checkout, head)):
        return True
    main = _main(checkout)
    if git.yes(checkout.repository, "merge-base", "--is-ancestor", head, main):  # it may be detached
        return True
    return _nothing_new(checkout.repository, main, head)


def _pushed(checkout: Checkout, head: str) -> bool:
    return any(ref.startswith("refs/remotes/") for ref in _having(checkout, head))


def _having(checkout: Checkout, head: str) -> list[str]:
    words = ("for-each-ref", f"--contains={head}", "--format=%(refname)", "refs/heads", "refs/remotes")
    return git.ask(checkout.repository, *words).text.split()


def _copy_of(ref: str, names: set[str]) -> bool:
    """Is it a remote's copy of one of these branches?"""
    remote, slash, name = ref.removeprefix("refs/remotes/").partition("/")
    return bool(remote and slash) and ref.startswith("refs/remotes/") and name in names


def _marked(checkout: Checkout) -> set[str]:
    """Branches of slots: each may be deleted next, so none keeps another's work safe."""
    pattern = r"^branch\..*\.agentctlbase$"
    words = ("config", "--null", "--name-only", "--get-regexp", pattern)
    names = git.ask(checkout.repository, *words, fine=(0, 1)).text.split("\0")
    return {name.removeprefix("branch.").rpartition(".")[0] for name in names if name}


def _nothing_new(repository: str, main: str, head: str) -> bool:
    ours = git.line(repository, "rev-parse", f"{main}^{{tree}}")
    common = git.ask(repository, "merge-base", main, head, fine=(0, 1)).text.strip()
    if not common:
        return False
    theirs = (f"{common}^{{tree}}", f"{head}^{{tree}}")
    if len({git.line(repository, "rev-parse", name) for name in theirs}) == 1:
        return False  # commits that undo each other: their history is all there is of them
    with Scratch(repository) as scratch:
        merged = scratch.merge(main, head)
        return not merged.conflicts and merged.tree == ours
