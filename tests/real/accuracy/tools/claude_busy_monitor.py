"""claude-busy-monitor: Claude Code alone, by the registry that Claude Code keeps of its live sessions.

Asked through its documented library, since its command cuts the session's id. It lists the living only.
    busy    running; also while only a shell in the background is left, on purpose (native word: shell)
    asking  waiting
    idle    idle
"""

from __future__ import annotations

import json

from tests.real.accuracy.fetch import Pin
from tests.real.accuracy.tools import Row

ASK = (
    "import json, claude_busy_monitor as monitor; "
    "print(json.dumps([{'id': s.id, 'state': str(s.state)} for s in monitor.get_sessions()]))"
)
WORDS = {"busy": "running", "asking": "waiting", "idle": "idle"}


class ClaudeBusyMonitor:
    agents = frozenset({"claude-code"})
    states = frozenset(WORDS.values())

    def __init__(self, pin: Pin) -> None:
        self.name, self.version = pin.name, pin.version
        self._python = str(pin.commands / "python")

    def states_of(self, agent: str) -> frozenset[str]:
        return self.states if agent in self.agents else frozenset()

    def command(self) -> list[str]:
        return [self._python, "-I", "-c", ASK]

    def rows(self, stdout: str, returncode: int) -> list[Row]:
        if returncode != 0:
            raise ValueError(f"{self.name} ended with {returncode}")
        return [_row(session) for session in json.loads(stdout)]


def _row(session: dict[str, str]) -> Row:
    word = session["state"]
    if word not in WORDS:
        raise ValueError(f"claude-busy-monitor has a new word: {word!r}")
    return Row(pid=None, session_id=session["id"] or None, status=WORDS[word], word=word)
