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
        """Return the id that agentctl prints."""
        ran = self.try_to_launch(prompt, *words, cwd=cwd)
        assert ran.code == 0, ran.err
        return ran.out.strip()

    def try_to_launch(self, prompt: str, *words: str, cwd: Path | None = None) -> Ran:
        file = self.stage.root / "prompt"
        file.write_bytes(prompt.encode())
        where = ("--cwd", str(cwd or self.stage.work))
        return self.call("launch", self.stage.adapter, "--prompt-file", str(file), *where, *words)

    def read_session(self, session_id: str) -> dict[str, Any]:
        """Return the one session of that id, as the public JSON has it."""
        (session,) = self.call("status", session_id, "--json").json()["sessions"]
        assert session["id"] == session_id
        return dict(session)

    def read_texts(self, session_id: str) -> list[str]:
        lines = self.call("logs", session_id, "--json").lines
        return [json.loads(line)["text"] for line in lines]

    def wait_for_end(self, session_id: str) -> tuple[str, int | None]:
        """Wait until the session has ended; return its outcome and exit code."""
        until(lambda: self._has_ended(session_id), f"{session_id} has ended and its exit code is known")
        session = self.read_session(session_id)
        return session["outcome"], session["exit_code"]

    def _has_ended(self, session_id: str) -> bool:
        session = self.read_session(session_id)
        return bool(session["status"] == "stopped" and session["exit_code"] is not None)

    def owner(self, session_id: str) -> Process:
        return Look.take(self.stage.environ).table[self.read_session(session_id)["pid"]]

    def tools(self) -> list[Process]:
        return [process for process in self.stage.processes() if process.comm == "sleep"]

    def runs_a_tool(self) -> None:
        until(lambda: bool(self.tools()), "a tool runs")

    def end(self, session_id: str, number: signal.Signals) -> None:
        with Handle(self.owner(session_id).identity) as handle:
            handle.signal(number)
            assert handle.wait(20)

    def assert_nothing_left(self) -> None:
        self.assert_no_notes()
        until(lambda: not self.stage.processes(), "its processes are gone")

    def assert_no_notes(self) -> None:
        state = self.stage.environ["AGENTCTL_HOME"]
        notes = paths.database_file(state)
        assert launches.read_launches(notes) == []
        assert locks.list_held(notes) == []
        assert not os.path.isdir(f"{state}/launches") or os.listdir(f"{state}/launches") == []
