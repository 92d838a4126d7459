"""Which process runs which session, decided from ties of different strength.

A session has at most one owner; a process may run several sessions. The weakest tie, an inference
from directory and time, counts only when it is the only candidate on both sides: a second one makes
the owner ambiguous, never a coin toss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Literal, NamedTuple

from agentctl.errors import Gone, SourceError
from agentctl.system.proc import Process, current
from agentctl.truth.model import Evidence

Method = Literal["pid record", "held open", "argument", "launch note", "child's environment", "inferred"]
# Best first: the order in which an owner is believed.
METHODS: tuple[Method, ...] = (
    "pid record", "held open", "argument", "launch note", "child's environment", "inferred",
)  # fmt: skip


class Tie(NamedTuple):
    """One reason to believe that this process runs that session."""

    session_id: str
    process: Process
    method: Method
    address: str  # where the reason can be checked
    shared: bool = False  # a server: several sessions of one process are no contradiction


class Bound(NamedTuple):
    """The decision for one session."""

    session_id: str
    owner: Process | None  # None: ambiguous
    candidates: tuple[Process, ...]  # all at the deciding strength; the owner stands first
    method: Method
    address: str

    def evidence(self, started_at: float | None = None) -> Evidence:
        """The kernel's word on the owner, or that nobody can tell which one it is."""
        pids = ", ".join(f"pid {p.pid}" for p in self.candidates)
        if self.owner is None:
            several = len(self.candidates) > 1
            may = "each may run it" if several else "may run it, or another one"
            note = f"{pids}: {may}, nothing tells which"
            return Evidence("ambiguous", self.address, "derived", note=note)
        note = f"bound by {self.method}: {self.address}"
        if len(self.candidates) > 1:
            note += f"; {pids} run it at the same time"
        return Evidence("alive", self.owner.identity.address, "kernel", at=started_at, note=note)


def bind(ties: Iterable[Tie]) -> dict[str, Bound]:
    """The owner of every session that has a tie to a live process."""
    strong: dict[str, list[Tie]] = {}
    weak: list[Tie] = []
    for tie in ties:
        if not tie.process.alive:
            continue
        if tie.method == "inferred":
            weak.append(tie)
        else:
            strong.setdefault(tie.session_id, []).append(tie)
    decided = {session: _strongest(session, found) for session, found in strong.items()}
    taken = {bound.owner.pid for bound in decided.values() if bound.owner is not None}
    left = [
        tie
        for tie in weak
        if tie.session_id not in decided and (tie.shared or tie.process.pid not in taken)
    ]
    decided.update(_inferred(left))
    return decided


def _strongest(session_id: str, ties: Sequence[Tie]) -> Bound:
    best = min(METHODS.index(tie.method) for tie in ties)
    chosen = [tie for tie in ties if METHODS.index(tie.method) == best]
    # A forked child keeps its parent's descriptors until it execs: the ancestor is the owner.
    pids = {tie.process.pid for tie in chosen}
    chosen = [tie for tie in chosen if tie.process.parent not in pids] or chosen
    unique = {tie.process.pid: tie.process for tie in chosen}
    first = chosen[0]
    return Bound(session_id, first.process, tuple(unique.values()), first.method, first.address)


def _inferred(ties: Sequence[Tie]) -> dict[str, Bound]:
    sessions: dict[str, dict[int, Tie]] = {}
    processes: dict[int, set[str]] = {}
    for tie in ties:
        sessions.setdefault(tie.session_id, {})[tie.process.pid] = tie
        if not tie.shared:
            processes.setdefault(tie.process.pid, set()).add(tie.session_id)
    decided = {}
    for session_id, by_pid in sessions.items():
        found = tuple(tie.process for tie in by_pid.values())
        tie = next(iter(by_pid.values()))
        contested = len(found) > 1 or len(processes.get(tie.process.pid, ())) > 1
        owner = None if contested else tie.process
        decided[session_id] = Bound(session_id, owner, found, "inferred", tie.address)
    return decided


def suspected(
    loose: Sequence[Process],
    *,
    boot_time: float,
    written_at: float | None,
    may: Callable[[Process], bool] | None = None,
    uid: int | None = None,
) -> Evidence | None:
    """Evidence that one of these processes may run a session that none is bound to; None: none may.

    Whoever wrote its last record lived then. If every live process of this agent is bound to other
    sessions, or started after that moment, none of them is the writer. A loose process (alive, bound
    to nothing) that was there already may be the writer, unless the adapter knows that it may not, or it
    is another user's than the file (`uid`), and not root's.
    """
    suspects = [
        process
        for process in loose
        if written_at is None or process.may_have_begun(boot_time) <= written_at + 1
        if _may_run(process, may, uid)
    ]
    if not suspects:
        return None
    pids = ", ".join(f"pid {p.pid}" for p in suspects)
    note = f"{pids}: alive, bound to no session, and may run this one"
    return Evidence("ambiguous", suspects[0].identity.address, "derived", note=note)


def _may_run(process: Process, may: Callable[[Process], bool] | None, uid: int | None) -> bool:
    try:
        ours = uid is None or process.uid in (uid, 0)
        return ours and (process.ending or may is None or may(process))
    except Gone:  # its directory is empty before the kernel is done with it
        now = current(process.identity)
        return now is not None and now.alive
    except SourceError:  # withheld: for all we know, it may
        return True


@cache  # the same for each of the thousands of sessions that have ended
def gone(seen: int) -> Evidence:
    """Evidence on a session that none of these live processes of its agent can run. For use only where
    every process that could run it is visible and recognisable."""
    others = f"{seen} live process{'es' if seen != 1 else ''} of this agent, none can own it"
    note = others if seen else "all processes are visible, and none is this agent's"
    return Evidence("gone", "/proc", "kernel", note=note)


def twins(processes: Sequence[Process]) -> set[int]:
    """Pids that are a child caught between fork and exec: for up to 60 ms it shows its parent's
    name, binary and arguments, at the same place in memory. (One Pi started by another shows all
    of these too, since both have erased their arguments, but not at the same place.)"""
    by_pid = {process.pid: process for process in processes}
    found = set()
    for process in processes:
        parent = by_pid.get(process.parent)
        if parent is None or parent.layout != process.layout:
            continue
        if parent.exe == process.exe and parent.argv == process.argv:
            found.add(process.pid)
    return found
