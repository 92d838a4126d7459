"""agents-tree: Claude Code by `claude agents --json`, Codex by the age of its transcript.

It shows the agent's own word (`status`) beside one of its own (`state`); the one shown decides. It lists
what it takes to be running: of Codex, every session whose transcript was written within two minutes, and
it has no other word for those. So `running` is no mistake for a live Codex that is idle or waits.
    busy, working, running  running     (Claude Code counts a shell in the background as busy)
    waiting, blocked        waiting     (its `state` for the first is "waiting for its next message")
    idle, done              idle        (done: a background session whose work is over, still loaded)
    not running             stopped
    any other word          unknown
`claude` must be on PATH: without it, a fallback that knows less is measured.
"""

from __future__ import annotations

import json
from typing import Any

from tests.real.accuracy.fetch import Pin
from tests.real.accuracy.tools import Row

WORDS = {
    "busy": "running",
    "working": "running",
    "running": "running",
    "waiting": "waiting",
    "blocked": "waiting",
    "idle": "idle",
    "done": "idle",
    "not running": "stopped",
}
STATES = {
    "claude-code": frozenset({"running", "waiting", "idle", "unknown"}),
    "codex": frozenset({"running"}),
}
NONE = "agents-tree: no running "
# Without a session it ends with 1 and says so on standard error. So does a crash: only the words tell.
BOTH_STREAMS = 'exec "$0" --json 2>&1'


class AgentsTree:
    agents = frozenset(STATES)
    states = frozenset[str]().union(*STATES.values())

    def __init__(self, pin: Pin) -> None:
        self.name, self.version = pin.name, pin.version
        self._program = str(pin.commands / "agents-tree")

    def states_of(self, agent: str) -> frozenset[str]:
        return STATES.get(agent, frozenset())

    def command(self) -> list[str]:
        return ["/bin/sh", "-c", BOTH_STREAMS, self._program]

    def rows(self, stdout: str, returncode: int) -> list[Row]:
        if returncode == 1 and stdout.startswith(NONE):
            return []
        if returncode != 0:
            raise ValueError(f"{self.name} ended with {returncode}: {stdout[-200:]}")
        answer = json.loads(stdout)
        if answer["schema_version"] != 1:
            raise ValueError(f"a document of version {answer['schema_version']}")
        return [_row(session) for session in answer["sessions"]]


def _row(session: dict[str, Any]) -> Row:
    word = session["main"]["status"]
    status = WORDS.get(word, "unknown")
    reason = f"it shows {word or 'no word'}" if status == "unknown" else ""
    return Row(pid=None, session_id=session["id"], status=status, word=str(word), reason=reason)
