"""What our launches say to the adapters during a look: which sessions are over, and which process runs
which session.

The launch note says so. If our notes are lost, the shim does: it holds a memory file open in which the
launcher wrote the launch. The memory file lives exactly as long as the shim.
"""

from __future__ import annotations

from agentctl.errors import SourceError
from agentctl.light_typing import TYPE_CHECKING, Iterable, Iterator, Mapping, NamedTuple, Sequence
from agentctl.system import jsonl, proc
from agentctl.system.proc import ProcessIdentity
from agentctl.system.program import SHIM
from agentctl.truth.bind import Tie
from agentctl.truth.model import Exit

if TYPE_CHECKING:
    from agentctl.system.proc import Process
    from agentctl.truth.look import Look

SAME_MOMENT = 0.05  # seconds between a process's last record and its end, since clocks are coarse
MEMORY = "agentctl-launch"  # the name of the shim's memory file
# Programs that run a wrapper script, and wait for the program that it calls.
SHELLS = frozenset({"ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "zsh"})
WRAPPERS = 3  # most processes between the agent and its shim: a script that calls a script


class ShimNote(NamedTuple):
    """What a shim says about its launch."""

    launch_id: str
    state: str  # the state directory that holds the launch note
    adapter: str
    directory: str  # the locked one
    identity: ProcessIdentity  # of the process that runs the session, as far as it is known
    namespace: str | None  # the pid namespace of the identity
    created_at: float
    session_id: str | None
    name: str | None
    address: str = ""  # where to check this note

    def to_line(self) -> bytes:
        """Return the line to append to the memory file. The last line counts."""
        import json

        return json.dumps(self._asdict()).encode() + b"\n"


def is_overtaken(exit_record: Exit, written_at: float | None) -> bool:
    """Return whether the session was written to after the process that we started had ended."""
    return (written_at or 0.0) > exit_record.at + SAME_MOMENT + exit_record.clock_back


def find_recorded_exits(look: Look) -> dict[str, Exit]:
    """Return, by session id, the exit that our shim recorded. Of several launches of one session the
    last one counts. Unless the session `is_overtaken`, an adapter infers no other process as its
    owner."""
    ours = (n for n in look.notes.values() if n.session_id and n.adapter in (None, look.adapter))
    latest = {str(note.session_id): note.exit for note in ours}
    return {session_id: record for session_id, record in latest.items() if record is not None}


def find_ties(look: Look) -> list[Tie]:
    """Return the ties between the adapter's own processes and the sessions that we launched them for.

    A note is about the process that we started, or about the agent that a wrapper of ours started. An
    agent that a launched agent starts, of the same kind or another, is not what the note is about."""
    ties, agents = [], {process.pid for process in look.own_processes}
    for process in look.own_processes:
        parent = look.table.get(process.parent) if process.parent not in agents else None
        started = (process, parent) if parent is not None else (process,)
        notes = (look.notes.get(each.identity) for each in started)
        note = next((n for n in notes if n is not None and n.adapter in (None, look.adapter)), None)
        if note is not None:
            if note.session_id is not None:
                ties.append(Tie(note.session_id, process, "launch note", f"launch:{note.id}"))
        elif (shim_note := find_shim_note(started, look.table)) is not None and shim_note.session_id:
            ties.append(Tie(shim_note.session_id, process, "launch note", shim_note.address))
    return ties


def find_launched(look: Look) -> dict[str, list[Process]]:
    """Return, by adapter, the live processes that we started as its agent and that run a session: from
    our notes and, if these are lost, from the shims."""
    adapters = {n.identity: n.adapter for n in look.notes.values() if n.session_id}
    parents = {look.table[i.pid].parent for i in adapters if i.pid in look.table}
    for shim in look.table.values():
        if shim.comm == SHIM and shim.pid not in parents and (note := read_shim_note(shim)) is not None:
            adapters.update({note.identity: note.adapter} if note.session_id else {})
    launched: dict[str, list[Process]] = {}
    for identity, adapter in adapters.items():
        process = look.table.get(identity.pid)
        if adapter is None or process is None or process.identity != identity or not process.is_alive:
            continue
        # not a process that has yet to become the agent, or is being taken down
        if process.comm != SHIM and not process.is_ending and look.may_show(process):
            launched.setdefault(adapter, []).append(process)
    return launched


def find_unrecognised(launched: Iterable[Process], look: Look) -> Iterator[Process]:
    """Yield the agents among these launched processes that the adapter does not recognise: they, or
    their wrappers, give them another name."""
    own = {process.pid for process in look.own_processes}
    for process in launched:
        if not own.isdisjoint(each.pid for each in (process, *look.find_descendants(process))):
            continue
        try:
            agent = _unwrap(process, look)
            _ = agent.cwd  # read now: the process may be gone at the next access
        except SourceError:  # most unrecognised processes have just ended
            continue
        now = proc.find_process(agent.identity)
        if now is not None and now.is_alive and not now.is_ending:
            yield agent


def _unwrap(process: Process, look: Look) -> Process:
    """Return the program that a wrapper script waits for."""
    while (process.exe or "").rpartition("/")[2] in SHELLS:
        below = [each for each in look.find_children(process) if each.is_alive and not each.is_ending]
        if len(below) != 1:
            break
        process = below[0]
    return process


def find_shim_note(started: Sequence[Process], table: Mapping[int, Process]) -> ShimNote | None:
    """Return the shim's note on one of these: a process, and the wrapper that may have started it. The
    shim is an ancestor of everything that the agent starts, too, and its note is not about those."""
    ancestor: Process | None = started[0]
    for _ in range(WRAPPERS + 1):
        ancestor = table.get(ancestor.parent) if ancestor is not None else None
        if ancestor is not None and ancestor.comm == SHIM:
            note = read_shim_note(ancestor)
            return note if note and any(note.identity == each.identity for each in started) else None
    return None


def read_shim_notes(table: Mapping[int, Process]) -> Iterator[ShimNote]:
    """Yield the note of every shim."""
    for process in table.values():
        if process.comm == SHIM and process.is_alive and (note := read_shim_note(process)) is not None:
            yield note


def read_shim_note(shim: Process) -> ShimNote | None:
    """Return the note of a shim; None if it has none (an older agentctl) or is another user's."""
    try:
        content = proc.read_memory_file(shim, MEMORY)
        lines = content[1].splitlines(keepends=True) if content is not None else []
        complete = [line for line in lines if line.endswith(b"\n")]
        return _parse_note(complete[-1], content[0]) if content is not None and complete else None
    except SourceError:
        return None


def _parse_note(line: bytes, address: str) -> ShimNote | None:
    fields = jsonl.parse_record(line) or {}
    try:
        return ShimNote(
            **{**fields, "identity": ProcessIdentity(*fields["identity"]), "address": address}
        )
    except (KeyError, TypeError):  # a note of another version
        return None
