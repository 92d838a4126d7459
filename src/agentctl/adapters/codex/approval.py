"""Find out whether Codex asks the user for approval. Codex does not record that: there are only a call
without output, the processes below Codex, and the rules with commands that the user has allowed.

A command that leaves the sandbox needs approval unless a rule allows it. So Codex asks if no process
runs the command for a second (`settle_wait`). For any other call (a patch, a command that Codex finds
dangerous, a tool of an MCP server, which may ask the user itself) nothing shows whether it needs
approval, runs or is about to begin: then nothing is claimed.
"""

from __future__ import annotations

import re

from agentctl.adapters.codex.rollout import Call
from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Iterable, Literal, Sequence
from agentctl.system import files
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence
from agentctl.truth.observe import settle_wait

MARKER = "CODEX_TOOL_CALL_ID"
SLACK = 0.02  # seconds: the kernel gives a process's start in hundredths
SHOWN = 200  # characters of a command
ALLOWED = re.compile(rb'pattern\s*=\s*\[\s*\[?\s*"([^"]+)"[^)]*decision\s*=\s*"allow"')

Progress = Literal["runs", "may run", "does not run"]


def find_approval(
    pending: Sequence[Call], owner: Process, rules: Iterable[str], open_turn: Evidence, look: Look
) -> tuple[Evidence, ...]:
    """Return the evidence that replaces that of the open turn; empty: the turn's evidence stands.
    `pending` is not empty; `open_turn` is the turn's evidence, not trusted."""
    below = look.find_descendants(owner)
    progress = [(call, _read_progress(call, below, look)) for call in pending]
    for call, state in progress:
        if state == "does not run" and call.is_escalated and not _is_allowed(call, rules, look):
            note = f"asks to run outside the sandbox, and no process runs it: {call.what[:SHOWN]}"
            place = f"{open_turn.address.rpartition('@')[0]}@{call.offset}"
            wait = Evidence("waiting", place, "derived", call.at, "permission", note)
            return (settle_wait(wait, look.now),)
    if all(state == "runs" for _, state in progress):
        return ()
    what = next(call.what for call, state in progress if state != "runs")[:SHOWN]
    return (open_turn._replace(note=f"{open_turn.note}; may begin, or ask for permission: {what}"),)


def _read_progress(call: Call, below: Sequence[Process], look: Look) -> Progress:
    """Return whether a process runs the call. A process without the marker that began since may be the
    command (`env -i` clears the marker, sudo hides it), or a hook of the user, which runs before the
    question."""
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
        if marker is None and (call.at is None or look.find_start_time(process) >= call.at - SLACK):
            state = "may run"
    return state


def _is_allowed(call: Call, rules: Iterable[str], look: Look) -> bool:
    """Return True if a rule may allow the call: its first word occurs in the command."""
    for directory in rules:
        for name in look.list_names(directory):
            try:
                text = files.read_file(f"{directory}/{name}").data
            except Gone:
                continue
            except SourceError as error:
                look.report_unreadable(error)
                return True
            if any(word.decode("utf-8", "replace") in call.what for word in ALLOWED.findall(text)):
                return True
    return False
