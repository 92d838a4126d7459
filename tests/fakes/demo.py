"""The demo agent needs no fake: it takes its steps from standard input."""

import sys
from pathlib import Path

from agentctl.testing import Puppet, Stage


class DemoStage(Stage):
    adapter = "demo"

    def program(self, prompt: str, resume: str | None) -> list[str]:
        again = ["--resume", resume] if resume else []
        return [sys.executable, "-m", "agentctl.demo.agent", "--steps", *again, prompt]

    def records(self, puppet: Puppet) -> list[Path]:
        root = self.home / ".demo-agent"
        return [
            root / "live" / f"{puppet.pid}.json",
            root / "sessions" / f"{puppet.session_id}.jsonl",
        ]
