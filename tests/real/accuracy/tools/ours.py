"""agentctl itself: `list -a --json`, its status as it stands.

`running` with activity unknown is read as unknown: it says that a process lives, and not what it does.
"""

from __future__ import annotations

import json
import os
import sys

import agentctl
from tests.real.accuracy.tools import Row

AGENTS = frozenset({"claude-code", "codex", "opencode", "pi"})
STATES = frozenset({"running", "waiting", "idle", "stopped", "unknown"})


class Agentctl:
    name = "agentctl"
    version = agentctl.__version__
    agents = AGENTS
    states = STATES

    def states_of(self, agent: str) -> frozenset[str]:
        return STATES if agent in AGENTS else frozenset()

    def command(self) -> list[str]:
        return [os.path.join(os.path.dirname(sys.executable), "agentctl"), "list", "-a", "--json"]

    def rows(self, stdout: str, returncode: int) -> list[Row]:
        if returncode != 0:
            raise ValueError(f"agentctl ended with {returncode}")
        answer = json.loads(stdout)
        if answer["version"] != 1:
            raise ValueError(f"an envelope of version {answer['version']}")
        return [_row(session) for session in answer["sessions"]]


def _row(session: dict[str, str | int | None]) -> Row:
    pid, session_id, status = session["pid"], session["id"], str(session["status"])
    if status not in STATES:
        raise ValueError(f"agentctl has a new word: {status!r}")
    vague = status == "running" and session["activity"] == "unknown"
    return Row(
        pid=pid if isinstance(pid, int) else None,
        session_id=session_id if isinstance(session_id, str) else None,
        status="unknown" if vague else status,
        word="running, activity unknown" if vague else status,
        reason=str(session["reason"]) if vague or status == "unknown" else "",
        alive=vague,
    )
