"""Find work of a Pi outside a turn: a `!` command, `/compact`, an extension's command.

The session file shows none of these before they end. The kernel shows three things:
- A command that the user runs with `!` is a child of Pi and the leader of its own session, as every
  command that Pi runs.
- During any work Pi's terminal shows a spinner: it is written to all the time, without key presses.
- Pi reaches the model over a connection. An idle Pi may keep it open for a while, but draws nothing.

The kernel's times of a terminal move in steps of eight seconds (`system.tty`). So in the first seconds
after a turn, and in those after a key, the terminal alone shows nothing.
"""

from __future__ import annotations

from agentctl.errors import SourceError
from agentctl.system.proc import Process
from agentctl.system.procfs import STAT_CAP
from agentctl.system.sockets import is_connected
from agentctl.system.tty import STEP, Terminal, read_terminal, step_number
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts

SLACK = 0.05  # seconds: the kernel rounds a start down to 10 ms, Pi stamps its records to 1 ms
REDRAWN = 1.0  # seconds after a key or the end of a turn in which the screen may still be redrawn


def find_work(process: Process, facts: Facts, look: Look) -> Evidence | None:
    """Return evidence of work in spite of an idle session file; None if there is none. Not trusted if
    the work is only possible."""
    since = facts.last_activity_at
    if since is None:
        return None
    for child in look.find_children(process):
        started_at = look.find_start_time(child)
        if not child.is_alive or started_at < since - SLACK:
            continue
        try:
            if _leads_session(child):
                note = f"it runs a command outside a turn: {' '.join(child.argv)[:80]}"
                return Evidence("working", child.identity.address, "derived", started_at, note=note)
        except SourceError:  # the child has just ended
            continue
    return _find_drawing(process, since, look)


def _leads_session(child: Process) -> bool:
    """Return True for a session leader. Reads the child's own entry: its pid may be reused. Raises
    SourceError."""
    with child.entry() as entry:
        fields = entry.read("stat", STAT_CAP).rpartition(b")")[2].split()
    return int(fields[3]) == child.pid  # state, parent, group, session


def _find_drawing(process: Process, since: float, look: Look) -> Evidence | None:
    address = process.identity.address
    try:
        terminal = read_terminal(process.identity)
        if terminal is None or not _is_drawn(terminal, since, look.now):
            return None
        if terminal.drawn_at > _step_end(terminal.typed_at) + REDRAWN:
            note = "its terminal is drawn to outside a turn, without any input"
            return Evidence("working", address, "derived", terminal.drawn_at, note=note, trusted=False)
        if is_connected(process):
            note = "its terminal is used outside a turn, and a connection is open"
            return Evidence("working", address, "derived", terminal.drawn_at, note=note, trusted=False)
    except SourceError as error:
        look.report_unreadable(error)
    return None


def _is_drawn(terminal: Terminal, since: float, now: float) -> bool:
    """Return True if the terminal is written to now, and was after the turn ended."""
    is_recent = step_number(now) - step_number(terminal.drawn_at) <= 1
    return is_recent and terminal.drawn_at > since + REDRAWN


def _step_end(moment: float) -> float:
    """Return the last moment with the same time in the kernel's steps."""
    return float((step_number(moment) + 1) * STEP)
