"""Fake agents launched as a person launches them: through the command line, by their name."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from agentctl import paths
from agentctl.state import launches, locks
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process
from agentctl.testing import Stage
from agentctl.truth.look import Look
from tests.running import Ran, agentctl_of
from tests.waiting import until

# Prompts that a shell, an option parser or an agent could take for something else.
PROMPTS = {
    "dashes": "--help -p --session x",
    "quotes": """say "yes", 'no' and `id` $(id) \\" """,
    "newlines": "one\n\n  two\r\nthree\n",
    "unicode": "ä \U0001f600 \u2028 \x7f",
    "long": "x" * 200_000,
}


class Launched:
    """A stage with the agent installed on it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        stage.install()

    def call(self, *words: str, **environ: str) -> Ran:
        return agentctl_of(self.stage, *words, **environ)

    def launch(self, prompt: str, *words: str, cwd: Path | None = None) -> str:
        """The id that it prints."""
        ran = self.try_to_launch(prompt, *words, cwd=cwd)
        assert ran.code == 0, ran.err
        return ran.out.strip()

    def try_to_launch(self, prompt: str, *words: str, cwd: Path | None = None) -> Ran:
        file = self.stage.root / "prompt"
        file.write_bytes(prompt.encode())
        where = ("--cwd", str(cwd or self.stage.work))
        return self.call("launch", self.stage.adapter, "--prompt-file", str(file), *where, *words)

    def told(self, session_id: str) -> dict[str, Any]:
        """The one session of that id, as everybody is told of it."""
        (found,) = self.call("status", session_id, "--json").json()["sessions"]
        assert found["id"] == session_id
        return dict(found)

    def said(self, session_id: str) -> list[str]:
        lines = self.call("logs", session_id, "--json").lines
        return [json.loads(line)["text"] for line in lines]

    def ended(self, session_id: str) -> tuple[str, int | None]:
        """How, once it has, and its exit code."""
        until(lambda: self._known(session_id), f"{session_id} has ended, and how is known")
        told = self.told(session_id)
        return told["outcome"], told["exit_code"]

    def _known(self, session_id: str) -> bool:
        told = self.told(session_id)
        return bool(told["status"] == "stopped" and told["exit_code"] is not None)

    def owner(self, session_id: str) -> Process:
        return Look.take(self.stage.environ).table[self.told(session_id)["pid"]]

    def tools(self) -> list[Process]:
        return [process for process in self.stage.processes() if process.comm == "sleep"]

    def runs_a_tool(self) -> None:
        until(lambda: bool(self.tools()), "a tool runs")

    def end(self, session_id: str, number: signal.Signals) -> None:
        with Handle(self.owner(session_id).identity) as handle:
            handle.signal(number)
            assert handle.wait(20)

    def nothing_is_left(self) -> None:
        self.nothing_is_noted()
        until(lambda: not self.stage.processes(), "its processes are gone")

    def nothing_is_noted(self) -> None:
        state = self.stage.environ["AGENTCTL_HOME"]
        notes = paths.notes_file(state)
        assert launches.recorded(notes) == []
        assert locks.held(notes) == []
        assert not os.path.isdir(f"{state}/launches") or os.listdir(f"{state}/launches") == []
