"""Whether Codex asks a person for approval. It writes nothing of it: all there is are a call without
output, the processes below Codex, and the commands that a person has allowed before.

A command that leaves the sandbox is asked about unless a rule allows it, so with no process to run it
Codex asks, once that has held for a second (`settled`). Of any other call (a patch, a command that Codex
finds dangerous, a tool of an MCP server, which may itself ask the person) nobody can tell whether it is
asked about, runs or is about to begin: then nothing is claimed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from agentctl.adapters.codex.rollout import Call
from agentctl.errors import Gone, SourceError
from agentctl.system import files
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence
from agentctl.truth.observe import settled

MARKER = "CODEX_TOOL_CALL_ID"
SLACK = 0.02  # seconds: the kernel tells a process's start in hundredths
SHOWN = 200  # characters of a command
ALLOWED = re.compile(rb'pattern\s*=\s*\[\s*\[?\s*"([^"]+)"[^)]*decision\s*=\s*"allow"')

Progress = Literal["runs", "may run", "does not run"]


def about(
    pending: Sequence[Call], owner: Process, rules: Iterable[str], open_turn: Evidence, look: Look
) -> tuple[Evidence, ...]:
    """What takes the place of the open turn's own word; nothing: that word stands. `pending` is not
    empty; `open_turn` is that word, not trusted."""
    below = look.descendants(owner)
    progress = [(call, _progress(call, below, look)) for call in pending]
    for call, state in progress:
        if state == "does not run" and call.escalated and not _allowed(call, rules, look):
            note = f"asks to run outside the sandbox, and no process runs it: {call.what[:SHOWN]}"
            place = f"{open_turn.address.rpartition('@')[0]}@{call.offset}"
            asks = Evidence("waiting", place, "derived", call.at, "permission", note)
            return (settled(asks, look.now),)
    if all(state == "runs" for _, state in progress):
        return ()
    what = next(call.what for call, state in progress if state != "runs")[:SHOWN]
    return (open_turn._replace(note=f"{open_turn.note}; may begin, or ask for permission: {what}"),)


def _progress(call: Call, below: Sequence[Process], look: Look) -> Progress:
    """A process without the marker may be the command, if it began since: `env -i` clears it, sudo's is
    withheld. Or it is a person's own hook, which comes before the question."""
    state: Progress = "does not run"
    for process in below:
        try:
            marker = process.environ().get(MARKER)
        except Gone:
            continue
        except SourceError:
            marker = None
        if marker == call.id:
            return "runs"
        if marker is None and (call.at is None or look.started_at(process) >= call.at - SLACK):
            state = "may run"
    return state


def _allowed(call: Call, rules: Iterable[str], look: Look) -> bool:
    """Whether a rule may allow it: one whose first word is in the command, wherever."""
    for directory in rules:
        for name in look.names(directory):
            try:
                text = files.whole(f"{directory}/{name}").data
            except Gone:
                continue
            except SourceError as error:
                look.unreadable(error)
                return True
            if any(word.decode("utf-8", "replace") in call.what for word in ALLOWED.findall(text)):
                return True
    return False
