"""A fake Claude Code that talks to a model over HTTP, at a terminal or launched. For `doctor --live`.

FAKE_FAULT makes it misbehave as a later version, or a broken install, might:

    renamed    its record says `toiling` where it said `busy`
    silent     it starts and shows nothing
    deaf       it shows its prompt and hears nothing
    dying      it ends at once, with a word on why
    telling    it ends at once, and tells of its environment
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from tests.fakes.claude import Claude, ClaudeStage

PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} "
BASH = {
    "name": "Bash",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
}
FAULT = os.environ.get("FAKE_FAULT", "")


class TalkingClaude(Claude):
    def play(self) -> NoReturn:
        words = sys.argv[1:]
        if words == ["--version"]:
            print(f"{self.version} (Claude Code)")
            sys.exit(0)
        if FAULT == "dying":
            print("cannot read my settings: out of cheese", file=sys.stderr)
            sys.exit(3)
        if FAULT == "telling":
            for name in ("A_SECRET", "ANTHROPIC_API_KEY", "HOME", "PATH"):
                print(f"{name} is {os.environ.get(name)}", file=sys.stderr)
            sys.exit(3)
        if FAULT == "silent":
            _for_ever()
        if "-p" in words:
            self._perform()
        self.entrypoint = "cli"
        self.begin()
        print(PROMPT, end="", flush=True)
        while (line := sys.stdin.readline().strip()) != "/exit":
            if FAULT == "deaf":
                _for_ever()
            if line:
                self.prompt = line
                self._turn()
                print(PROMPT, end="", flush=True)
        self.leave(0)

    def _take(self, step: str) -> None:
        """Launched: the prompt is for the model."""

    def open_turn(self) -> None:
        if not self.turn_open:
            super().open_turn()
            if self.entrypoint != "cli":
                self._ask_model([{"role": "user", "content": self.prompt}])

    def _turn(self) -> None:
        self.open_turn()
        messages: list[dict[str, Any]] = [{"role": "user", "content": self.prompt}]
        answer = self._ask_model(messages)
        while calls := [block for block in answer if block["type"] == "tool_use"]:
            self._append(self._reply(calls[0], "tool_use"), *self._bookkeeping())
            self._status("waiting", "permission prompt")
            print("Do you want to proceed?", flush=True)
            sys.stdin.readline()
            self._status("busy")
            subprocess.run(calls[0]["input"]["command"], shell=True, check=False)
            result = {"type": "tool_result", "tool_use_id": calls[0]["id"], "content": "done"}
            self._append(self._user_message([result]))
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": [result]}]
            answer = self._ask_model(messages)
        self.close_turn(well=True)

    def _ask_model(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        place = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
        line = http.client.HTTPConnection(str(place.hostname), place.port)
        body = {"model": "claude-fake", "max_tokens": 9, "messages": messages, "tools": [BASH]}
        line.request("POST", "/v1/messages", json.dumps(body), {"Content-Type": "application/json"})
        answer: list[dict[str, Any]] = json.loads(line.getresponse().read())["content"]
        return answer

    def _status(self, word: str, waiting_for: str | None = None) -> None:
        super()._status("toiling" if (word, FAULT) == ("busy", "renamed") else word, waiting_for)


class TalkingStage(ClaudeStage):
    """What it installs has no other environment than it is given: the fault is written into it."""

    fault = ""

    def program(self, prompt: str, resume: str | None) -> list[str]:
        return [self.rename_interpreter(*self.binary), str(Path(__file__)), " " * 200]

    def _interpreter(self) -> dict[str, str]:
        environ = super()._interpreter()
        tests = str(Path(__file__).parents[2])
        return {**environ, "PYTHONPATH": f"{environ['PYTHONPATH']}:{tests}", "FAKE_FAULT": self.fault}


def _for_ever() -> NoReturn:
    while True:
        time.sleep(1)  # what it does for ever; nothing is waited for


if __name__ == "__main__":
    TalkingClaude().play()
