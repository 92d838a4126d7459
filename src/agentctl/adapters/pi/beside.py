"""Whether a Pi works though its last turn is over: a `!` command, `/compact`, an extension's command.

Its session file tells of none of these before they end. The kernel tells of three things:
- A command that a person runs with `!` is a child of Pi, the leader of a session of its own, as every
  command that Pi runs.
- Whatever Pi does, its terminal shows a spinner: it is written to all the time, and nobody types.
- The model is asked over a connection. At rest that may stay open for a while, but nothing is drawn.

The kernel's times of a terminal move in steps of eight seconds (`terminal`). So in the first seconds
after a turn, and in those after a key, the terminal alone tells nothing.
"""

from __future__ import annotations

from agentctl.errors import SourceError
from agentctl.system.proc import Process
from agentctl.system.proc_entry import STAT_CAP
from agentctl.system.sockets import is_connected
from agentctl.system.tty import STEP, Use, step_of, use_by
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts

SLACK = 0.05  # seconds: the kernel rounds a start down to 10 ms, Pi stamps its records to 1 ms
REDRAWN = 1.0  # seconds after a key or the end of a turn in which the screen may still be drawn anew


def work(process: Process, facts: Facts, look: Look) -> Evidence | None:
    """Evidence against the idleness that its file tells of; None: there is none. Not trusted where it
    only may be at work."""
    since = facts.last_activity_at
    if since is None:
        return None
    for child in look.children(process):
        began = look.started_at(child)
        if not child.alive or began < since - SLACK:
            continue
        try:
            if _leads_session(child):
                note = f"it runs a command outside a turn: {' '.join(child.argv)[:80]}"
                return Evidence("working", child.identity.address, "derived", began, note=note)
        except SourceError:  # it has just ended
            continue
    return _drawing(process, since, look)


def _leads_session(child: Process) -> bool:
    """Raises SourceError. Read from its own entry: its number may be another's by now."""
    with child.entry() as entry:
        fields = entry.read("stat", STAT_CAP).rpartition(b")")[2].split()
    return int(fields[3]) == child.pid  # state, parent, group, session


def _drawing(process: Process, since: float, look: Look) -> Evidence | None:
    address = process.identity.address
    try:
        used = use_by(process.identity)
        if used is None or not _draws(used, since, look.now):
            return None
        if used.drawn_at > _end(used.typed_at) + REDRAWN:
            note = "its terminal is drawn to outside a turn, and nobody types"
            return Evidence("working", address, "derived", used.drawn_at, note=note, trusted=False)
        if is_connected(process):
            note = "its terminal is used outside a turn, and a connection is open"
            return Evidence("working", address, "derived", used.drawn_at, note=note, trusted=False)
    except SourceError as error:
        look.unreadable(error)
    return None


def _draws(used: Use, since: float, now: float) -> bool:
    """Whether its terminal is drawn to now, as far as its times tell, and was since its turn ended."""
    recently = step_of(now) - step_of(used.drawn_at) <= 1
    return recently and used.drawn_at > since + REDRAWN


def _end(moment: float) -> float:
    """The last moment that has the same time there."""
    return float((step_of(moment) + 1) * STEP)
