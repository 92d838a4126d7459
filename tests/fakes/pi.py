"""A fake Pi: erases its arguments as `process.title = "pi"` does, and writes session files as 0.73 or
1.5 does. Run under an interpreter called node, through a link called pi."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from agentctl.testing import Puppet, Stage
from agentctl.testing.player import Player, rename_process, wait_for_program

USAGE = {
    "input": 1300, "output": 7, "cacheRead": 3, "cacheWrite": 0, "totalTokens": 1310,
    "cost": {"input": 0.0013, "output": 0.000014, "cacheRead": 3e-7, "cacheWrite": 0, "total": 0.0013},
}  # fmt: skip
NOTHING = {
    "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}  # fmt: skip


class PiStage(Stage):
    adapter = "pi"
    can_ask = False

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.arguments: list[str] = []
        self.runtime = ("bin", "node")
        self.script: tuple[str, ...] = ("lib", "bin", "pi")

    def program(self, prompt: str, resume: str | None) -> list[str]:
        script = self.root.joinpath(*self.script)
        if not script.exists():
            script.parent.mkdir(parents=True, exist_ok=True)
            script.symlink_to(Path(__file__).resolve())
        return [self.rename_interpreter(*self.runtime), str(script), *self.arguments]

    def records(self, puppet: Puppet) -> list[Path]:
        return [path for path in self.files() if path.name.endswith(f"_{puppet.session_id}.jsonl")]

    def files(self) -> list[Path]:
        return self.records_in(self.home / ".pi" / "agent" / "sessions")

    def records_in(self, tree: Path) -> list[Path]:
        return sorted(tree.glob("--*--/*.jsonl"))


class PiAgent(Player):
    """`login` as the first word of a prompt: it has no key.

    `PUPPET_PI` holds words: 0.73 (files and ids of that version), visible (arguments stay), busy
    (runs a command from the start). `PUPPET_CLOCK` is what its clock is off by."""

    def __init__(self) -> None:
        super().__init__()
        traits = os.environ.get("PUPPET_PI", "").split()
        self.old = "0.73" in traits
        self.visible = "visible" in traits
        self.busy = "busy" in traits
        self.entries: list[dict[str, object]] = []
        self.leaf: str | None = None
        self.counter = secrets.randbits(40)
        self.flushed = False
        self.path = ""

    # launched

    failure_code = 0  # in json mode

    def read_arguments(self, arguments: list[str]) -> None:
        super().read_arguments(arguments)
        self.prompt = self.prompt.strip()
        if (name := self._read_option("--session")) is None:
            return
        names = [os.path.basename(name)] if "/" in name else os.listdir(self._folder())
        ids = [n.partition("_")[2].removesuffix(".jsonl") for n in sorted(names)]
        self.resume_id = next((id_ for id_ in ids if "/" in name or id_.startswith(name)), None)
        if self.resume_id is None:
            self.die(f"No session found matching '{name}'")

    def announce(self) -> None:
        self.print_line(json.dumps(self._head(), separators=(",", ":")))
        if self.prompt.startswith("login"):
            self.die("No API key found for the selected model.")
        self.print_line('{"type":"agent_start"}')

    def on_signal(self, number: int) -> NoReturn:
        """Nothing is written. SIGINT is not handled at all, and its tools survive that."""
        if number == signal.SIGINT:
            self.die_of(number)
        self.leave(128 + number)

    def begin(self) -> None:
        if self.resume_id:
            self.session, self.flushed = self.resume_id, True
            folder = self._folder()
            name = next(n for n in os.listdir(folder) if n.endswith(f"_{self.resume_id}.jsonl"))
            self.path = os.path.join(folder, name)
            self.stamp = _stamp(_now())
        else:
            self._open()
        if not self.visible:
            rename_process("pi")
        if not self.old:
            _begin_pool()
        if self.busy:
            self.work()
            self.tool()

    def new(self) -> None:
        """`/new`: another session in the same process."""
        self._open()

    def resume(self, name: str) -> None:
        """`/resume`: a file of this directory goes on in this process."""
        self.path, self.flushed = os.path.join(self._folder(), name), True
        self.session = name.partition("_")[2].removesuffix(".jsonl")

    def work(self) -> None:
        if not self.flushed and not self.old:
            self._message(role="system", content="", sections={"preamble": "p" * 5000})
        self._message(role="user", content=[{"type": "text", "text": self.prompt}])

    def rest(self) -> None:
        self._assistant("stop", [{"type": "text", "text": "done"}])

    def abort(self) -> None:
        self._assistant("aborted", [], errorMessage="Operation aborted")

    def word(self, reason: str) -> None:
        self._assistant(reason, [])

    def fail(self) -> None:
        self._assistant("error", [], usage=NOTHING, errorMessage="400: no such model")

    def retry(self) -> None:
        """A failed request that will be repeated: the error, and in 1.5 its removal from the context."""
        self._assistant("error", [], usage=NOTHING, errorMessage="500: overloaded")
        if not self.old:
            self._entry("context_edit", targetId=self.leaf, replacement=None)

    def tool(self) -> None:
        """The bash tool: a child in its own session; 1.5 tells it the session."""
        call: dict[str, object] = {
            "type": "toolCall",
            "id": "call_1",
            "name": "bash",
            "arguments": {"command": "sleep 99"},
        }
        self._assistant("toolUse", [call])
        super().tool()

    def tool_environ(self) -> dict[str, str]:
        variables = (
            {} if self.old else {"PI_SESSION_ID": str(self.session), "PI_SESSION_FILE": self.path}
        )
        return {"PI_CODING_AGENT": "true", **variables}

    def result(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
        self.children.clear()
        block = [{"type": "text", "text": "slept"}]
        self._message(
            role="toolResult", toolCallId="call_1", toolName="bash", content=block, isError=False
        )

    def bang(self) -> None:
        """A command that the person ran with "!"."""
        self._message(role="bashExecution", command="ls", output="shed", exitCode=0, cancelled=False)

    def command(self) -> None:
        """A command that the person runs with "!", while it runs."""
        self._spawn(leads=True)

    def server(self) -> None:
        """What an extension starts and keeps, such as an MCP server."""
        self._spawn(leads=False)

    def _spawn(self, *, leads: bool) -> None:
        # ends with us: its standard input is our pipe
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=leads)
        wait_for_program(child.pid)
        self.children.append(child)

    def subagent(self) -> None:
        """An extension starts another Pi from here; it inherits the variables of a command."""
        environ = {**os.environ, "PI_SESSION_ID": str(self.session), "PUPPET_PI": "busy"}
        command = [os.readlink("/proc/self/exe"), sys.argv[0]]
        child = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.children.append(child)
        assert child.stdout is not None
        child.stdout.readline()

    def name(self, title: str) -> None:
        self._entry("session_info", name=title)

    def label(self) -> None:
        self._entry("label", targetId=self.leaf, label="here")

    def end(self, code: int) -> None:
        for child in self.children:
            child.kill()

    def _open(self) -> None:
        """The header, made now and written later."""
        now = _now()
        self.stamp = stamp = _stamp(now)
        self.session = self._read_option("--session-id") or self._uuid7(now)
        name = f"{stamp.replace(':', '-').replace('.', '-')}_{self.session}.jsonl"
        self.path = os.path.join(self._folder(), name)
        self.entries, self.leaf, self.flushed = [self._head()], None, False
        self._entry("model_change", provider="fake", modelId="fake-1")
        self._entry("thinking_level_change", thinkingLevel="off")

    def _head(self) -> dict[str, object]:
        header = {"type": "session", "version": 3, "id": self.session, "timestamp": self.stamp}
        return {**header, "cwd": self.cwd}

    def _read_option(self, option: str) -> str | None:
        return sys.argv[sys.argv.index(option) + 1] if option in sys.argv else None

    def _uuid7(self, now: float) -> str:
        """1.5 counts up within a process; 0.73 draws a new number."""
        self.counter = secrets.randbits(40) if self.old else self.counter + 1
        n, tail = self.counter, secrets.token_bytes(4)
        last = (n & 0x7F) << 1 | tail[0] & 1
        middle = bytes(
            [0x70 | n >> 37 & 15, n >> 29 & 255, 0x80 | n >> 23 & 63, n >> 15 & 255, n >> 7 & 255]
        )
        raw = (
            int(now * 1000).to_bytes(6, "big") + middle + bytes([last]) + secrets.token_bytes(4)
        ).hex()
        return f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"

    def _folder(self) -> str:
        flat = self._read_option("--session-dir") or os.environ.get("PI_CODING_AGENT_SESSION_DIR")
        root = os.environ.get("PI_CODING_AGENT_DIR") or os.path.join(self.home, ".pi", "agent")
        plain = self.cwd.lstrip("/").replace("/", "-").replace("\\", "-").replace(":", "-")
        tree = os.environ.get("PI_SESSIONS_DIR") or os.path.join(root, "sessions")
        folder = flat or os.path.join(tree, f"--{plain}--")
        os.makedirs(folder, exist_ok=True)
        return folder

    def _assistant(self, reason: str, content: list[dict[str, object]], **more: object) -> None:
        if not self.old:
            more = {**more, "durationMs": 28}
        self._message(
            role="assistant", content=content, api="openai-completions", provider="fake",
            model="fake-1", **{"usage": USAGE, "stopReason": reason, **more},
        )  # fmt: skip

    def _message(self, **message: object) -> None:
        self._entry("message", message={**message, "timestamp": int(_now() * 1000)})

    def _entry(self, type_: str, **fields: object) -> None:
        entry: dict[str, object] = {"type": type_, "id": secrets.token_hex(4), "parentId": self.leaf}
        entry.update(timestamp=_stamp(_now()), **fields)
        if type_ != "context_edit":
            self.leaf = str(entry["id"])
        self._persist(entry)

    def _persist(self, entry: dict[str, object]) -> None:
        """Open, append, close. Nothing is written before the first answer (0.73) or prompt (1.5)."""
        self.entries.append(entry)
        message = entry.get("message")
        role = message.get("role") if isinstance(message, dict) else None
        if not self.flushed and role != ("assistant" if self.old else "user"):
            return
        pending = [entry] if self.flushed else self.entries
        self.flushed = True
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in pending)


def _begin_pool() -> None:
    """Node's threads for what would block, which 1.5 needs as soon as it has a header."""
    begun = threading.Event()

    def wait() -> None:
        Path("/proc/thread-self/comm").write_text("libuv-worker")
        begun.set()
        threading.Event().wait()

    threading.Thread(target=wait, daemon=True).start()
    begun.wait()


def _now() -> float:
    return time.time() + float(os.environ.get("PUPPET_CLOCK", "0"))


def _stamp(now: float) -> str:
    moment = time.gmtime(now)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(now * 1000) % 1000:03d}Z"


if __name__ == "__main__":
    PiAgent().play()
