"""What our launches tell the adapters while they look: which sessions are over, and which process runs
which session.

A launch note says so, and where our notes are lost, the shim does: it holds a piece of memory open in
which the launcher wrote which launch it is the parent of. That is gone with the shim and no sooner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentctl.errors import SourceError
from agentctl.system import files, jsonl, proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc_entry import Entry
from agentctl.system.program import SHIM
from agentctl.truth.model import Exit

if TYPE_CHECKING:
    from agentctl.system.proc import Process
    from agentctl.truth.look import Look

SAME_MOMENT = 0.05  # seconds between a process's last word and its end, for clocks that are coarse
MEMORY = "agentctl-launch"  # as the shim's descriptor is named
# Programs that run a wrapper script, and wait for what it calls.
SHELLS = frozenset({"ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "zsh"})
WRAPPERS = 3  # processes between the agent and its shim, at most: a script that calls a script


class Carried(NamedTuple):
    """What a shim tells of its launch."""

    launch_id: str
    state: str  # the state directory that it was noted in
    adapter: str
    directory: str  # that it has locked
    identity: ProcessIdentity  # of the process that runs the session, as far as it is known
    namespace: str | None  # of pids, that the identity belongs to
    created_at: float
    session_id: str | None
    name: str | None
    address: str = ""  # where to check it

    def line(self) -> bytes:
        """As it is written: one line for each time that more is known, the last one counts."""
        import json

        return json.dumps(self._asdict()).encode() + b"\n"


def overtaken(ended: Exit, written_at: float | None) -> bool:
    """Whether somebody else wrote to the session after the process that we started had ended."""
    return (written_at or 0.0) > ended.at + SAME_MOMENT + ended.clock_back


def ends(look: Look) -> dict[str, Exit]:
    """By session: the end of the process that ran it, where our shim recorded one. Of several launches
    of one session the last one counts. While nobody has `overtaken` it, no other process is to be
    inferred as its owner."""
    ours = (n for n in look.notes.values() if n.session_id and n.adapter in (None, look.adapter))
    latest = {str(note.session_id): note.ended for note in ours}
    return {session_id: ended for session_id, ended in latest.items() if ended is not None}


def started(look: Look) -> dict[str, list[Process]]:
    """By adapter: the live processes that we started as its agent, and that run a session. Told by our
    notes and, where these are lost, by the shims."""
    known = {n.identity: n.adapter for n in look.notes.values() if n.session_id}
    noted = {look.table[i.pid].parent for i in known if i.pid in look.table}
    for shim in look.table.values():
        if shim.comm == SHIM and shim.pid not in noted and (told := carried(shim)) is not None:
            known.update({told.identity: told.adapter} if told.session_id else {})
    found: dict[str, list[Process]] = {}
    for identity, adapter in known.items():
        process = look.table.get(identity.pid)
        if adapter is None or process is None or process.identity != identity or not process.alive:
            continue
        # not one that is yet to become the agent, or is being taken down
        if process.comm != SHIM and not process.ending and look.admits(process):
            found.setdefault(adapter, []).append(process)
    return found


def unrecognised(started: Iterable[Process], look: Look) -> Iterator[Process]:
    """The agents among these that the adapter does not know: they run under another name, or a wrapper
    runs them so."""
    owned = {process.pid for process in look.owned}
    for process in started:
        if not owned.isdisjoint(each.pid for each in (process, *look.descendants(process))):
            continue
        try:
            found = _innermost(process, look)
            _ = found.cwd  # described now; when it is asked again the process may be gone
        except SourceError:  # most that are not recognised have just ended
            continue
        now = proc.current(found.identity)
        if now is not None and now.alive and not now.ending:
            yield found


def _innermost(process: Process, look: Look) -> Process:
    """The program that a wrapper script waits for."""
    while (process.exe or "").rpartition("/")[2] in SHELLS:
        below = [each for each in look.children(process) if each.alive and not each.ending]
        if len(below) != 1:
            break
        process = below[0]
    return process


def carried_for(started: Sequence[Process], table: Mapping[int, Process]) -> Carried | None:
    """What a shim tells of one of these: a process, and the wrapper that it may have been started by.
    The shim is an ancestor of all that the agent starts, too: those are not what was launched."""
    above: Process | None = started[0]
    for _ in range(WRAPPERS + 1):
        above = table.get(above.parent) if above is not None else None
        if above is not None and above.comm == SHIM:
            told = carried(above)
            return told if told and any(told.identity == each.identity for each in started) else None
    return None


def carriers(table: Mapping[int, Process]) -> Iterator[Carried]:
    """What every shim tells that there is."""
    for process in table.values():
        if process.comm == SHIM and process.alive and (told := carried(process)) is not None:
            yield told


def carried(shim: Process) -> Carried | None:
    """None: it tells nothing, as where it was started by an older agentctl, or is another user's."""
    try:
        with Entry(shim.identity) as entry:
            numbers = [number for number, to in entry.links("fd") if to.startswith(f"/memfd:{MEMORY} ")]
        if not numbers:
            return None
        lines = files.whole(f"/proc/{shim.pid}/fd/{numbers[0]}").data.splitlines(keepends=True)
        known = [line for line in lines if line.endswith(b"\n")]
        return _parsed(known[-1], f"{shim.identity.address}/fd/{numbers[0]}") if known else None
    except SourceError:
        return None


def _parsed(line: bytes, address: str) -> Carried | None:
    told = jsonl.parse(line) or {}
    try:
        return Carried(**{**told, "identity": ProcessIdentity(*told["identity"]), "address": address})
    except (KeyError, TypeError):  # of another version
        return None
