"""Decide which process runs which session, from ties of different strength.

A session has at most one owner; a process may run several sessions. The weakest tie, an inference
from directory and time, counts only if it is the only candidate on both sides. With a second candidate
the owner is ambiguous.
"""

from __future__ import annotations

from agentctl.light_typing import Iterable, Literal, NamedTuple, Sequence
from agentctl.system.proc import Process
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
    shared: bool = False  # the process is a server and may run several sessions


class Binding(NamedTuple):
    """The decision for one session."""

    session_id: str
    owner: Process | None  # None: ambiguous
    candidates: tuple[Process, ...]  # all with the deciding method; the owner stands first
    method: Method
    address: str

    def to_evidence(self, started_at: float | None = None) -> Evidence:
        """Return evidence that the owner is alive, or that several processes may be the owner."""
        several = len(self.candidates) > 1
        pids = ", ".join(f"pid {p.pid}" for p in self.candidates) if several or not self.owner else ""
        if self.owner is None:
            may = "each may run it" if several else "may run it, or another one"
            note = f"{pids}: {may}, no source says which"
            return Evidence("ambiguous", self.address, "derived", note=note)
        note = f"bound by {self.method}: {self.address}"
        if several:
            note += f"; {pids} run it at the same time"
        return Evidence("alive", self.owner.identity.address, "kernel", at=started_at, note=note)


def bind(ties: Iterable[Tie]) -> dict[str, Binding]:
    """Return the binding of every session that has a tie to a live process."""
    strong: dict[str, list[Tie]] = {}
    weak: list[Tie] = []
    for tie in ties:
        if not tie.process.is_alive:
            continue
        if tie.method == "inferred":
            weak.append(tie)
        else:
            strong.setdefault(tie.session_id, []).append(tie)
    bindings = {session: _bind_strongest(session, group) for session, group in strong.items()}
    owners = {bound.owner.pid for bound in bindings.values() if bound.owner is not None}
    remaining = [
        tie
        for tie in weak
        if tie.session_id not in bindings and (tie.shared or tie.process.pid not in owners)
    ]
    bindings.update(_bind_inferred(remaining))
    return bindings


def _bind_strongest(session_id: str, ties: Sequence[Tie]) -> Binding:
    first = ties[0]
    if len(ties) == 1:
        return Binding(session_id, first.process, (first.process,), first.method, first.address)
    best = min(METHODS.index(tie.method) for tie in ties)
    strongest = [tie for tie in ties if METHODS.index(tie.method) == best]
    # A forked child keeps its parent's descriptors until it execs: the ancestor is the owner.
    pids = {tie.process.pid for tie in strongest}
    strongest = [tie for tie in strongest if tie.process.parent not in pids] or strongest
    unique = {tie.process.pid: tie.process for tie in strongest}
    first = strongest[0]
    return Binding(session_id, first.process, tuple(unique.values()), first.method, first.address)


def _bind_inferred(ties: Sequence[Tie]) -> dict[str, Binding]:
    sessions: dict[str, dict[int, Tie]] = {}
    processes: dict[int, set[str]] = {}
    for tie in ties:
        sessions.setdefault(tie.session_id, {})[tie.process.pid] = tie
        if not tie.shared:
            processes.setdefault(tie.process.pid, set()).add(tie.session_id)
    bindings = {}
    for session_id, by_pid in sessions.items():
        candidates = tuple(tie.process for tie in by_pid.values())
        tie = next(iter(by_pid.values()))
        is_contested = len(candidates) > 1 or len(processes.get(tie.process.pid, ())) > 1
        owner = None if is_contested else tie.process
        bindings[session_id] = Binding(session_id, owner, candidates, "inferred", tie.address)
    return bindings


def find_forks(processes: Sequence[Process]) -> set[int]:
    """Return the pids of children between fork and exec: for up to 60 ms a child shows its parent's
    name, binary and arguments, at the same place in memory. (A Pi that another Pi started shows the
    same name, binary and erased arguments, but at another place.)"""
    by_pid = {process.pid: process for process in processes}
    forks = set()
    for process in processes:
        parent = by_pid.get(process.parent)
        if parent is None or parent.layout != process.layout:
            continue
        if parent.exe == process.exe and parent.argv == process.argv:
            forks.add(process.pid)
    return forks
