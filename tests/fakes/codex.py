"""A fake Codex: real processes that write rollouts and hold writer locks as Codex 0.166 does.

stage.start()                                an embedded TUI (`codex --no-daemon`), one thread
stage.start(environ=called("exec", "-"))     any other way to call it
stage.start(environ=called("app-server", "--listen", "unix://", bare=True))   no thread yet
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

from agentctl.testing.player import Player, rename_process

PADDING = "-" * 400  # room in the argument area for the arguments it shall show
INSTRUCTIONS = "You are a coding agent. " * 900  # session_meta carries some 20 KB of these
VERSION = "0.166.0"
PARENTS = ("parent_thread_id", "forked_from_id")
TOTAL = {"input_tokens": 1002, "cached_input_tokens": 100, "cache_write_input_tokens": 7}


def called(*arguments: str, bare: bool = False) -> dict[str, str]:
    """The environment that makes the fake show these arguments; `bare`: it loads no thread."""
    return {"PUPPET_ARGV": "\n".join(arguments), "PUPPET_BARE": "1" if bare else ""}


def new_id() -> str:
    """A UUIDv7, as thread ids are."""
    digits = f"{time.time_ns() // 1_000_000:012x}7{uuid.uuid4().hex[13:]}"
    return str(uuid.UUID(digits))


def now() -> str:
    seconds, millis = divmod(time.time_ns() // 1_000_000, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{millis:03d}Z"


class Thread:
    """One loaded thread: its lock, held, and its rollout, held from the first write on."""

    def __init__(self, home: str, id_: str, cwd: str, **meta: object) -> None:
        self.id, self.cwd, self._home, self._meta = id_, cwd, home, meta
        self.turn = self.call = ""
        self._fd = -1
        self._ordinal = 0
        self.lock_path = os.path.join(home, "thread-writer-locks", f"{id_}.lock")
        self.lock = self._take()
        if (known := self._known()) is not None:  # resumed: open again at once, also while idle
            self._fd = os.open(known, os.O_WRONLY | os.O_APPEND)

    def _take(self) -> int:
        if "no_lock" in self._meta:  # a Codex of before 0.147
            return -1
        os.makedirs(os.path.dirname(self.lock_path), exist_ok=True)
        if os.path.exists(self.lock_path):
            os.unlink(self.lock_path)
        fd = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd

    def _known(self) -> str | None:
        found = Path(self._home, "sessions").glob(f"*/*/*/rollout-*-{self.id}.jsonl")
        return next((str(path) for path in found), None)

    def write(self, type_: str, **payload: object) -> None:
        if self._fd < 0:
            self._create()
        self._append(type_, payload)

    def event(self, type_: str, **payload: object) -> None:
        self.write("event_msg", type=type_, **payload)

    def _create(self) -> None:
        today = time.gmtime()
        folder = os.path.join(self._home, "sessions", time.strftime("%Y/%m/%d", today))
        os.makedirs(folder, exist_ok=True)
        name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', today)}-{self.id}.jsonl"
        self._fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        meta: dict[str, object] = {
            "session_id": self._meta.get("parent_thread_id", self.id), "id": self.id,
            **{key: value for key, value in self._meta.items() if key in PARENTS},
            "timestamp": now(), "cwd": self.cwd, "originator": self._meta.get("originator", "codex-tui"),
            "cli_version": VERSION, "source": self._meta.get("source", "cli"),
            "base_instructions": {"text": INSTRUCTIONS}, "history_mode": "paginated",
        }  # fmt: skip
        self._append("session_meta", meta)

    def _append(self, type_: str, payload: object) -> None:
        record = {"timestamp": now(), "ordinal": self._ordinal, "type": type_, "payload": payload}
        os.write(self._fd, json.dumps(record, separators=(",", ":")).encode() + b"\n")
        self._ordinal += 1

    def begin_turn(self, prompt: str) -> None:
        self.turn = new_id()
        self.event("task_started", turn_id=self.turn, started_at=int(time.time()))
        self._user(f"<environment_context>\n  <cwd>{self.cwd}</cwd>", "environments.environment_context")
        self.write(
            "turn_context",
            turn_id=self.turn,
            cwd=self.cwd,
            approval_policy="on-request",
            model="gpt-lab",
        )
        self._user(prompt, "user.text")
        content = [{"type": "text", "text": prompt, "text_elements": []}]
        item = {"type": "UserMessage", "id": new_id(), "content": content}
        self.event("item_completed", thread_id=self.id, turn_id=self.turn, item=item)

    def _user(self, text: str, kind: str) -> None:
        told = {"turn_id": self.turn, "content_item_kinds": [kind]}
        self.write(
            "response_item", type="message", role="user", content=[{"type": "input_text", "text": text}],
            internal_chat_message_metadata_passthrough=told,
        )  # fmt: skip

    def ask_tool(self, name: str, **arguments: object) -> None:
        self.call = f"call_{uuid.uuid4().hex[:6]}"
        self.write(
            "response_item", type="function_call", name=name, arguments=json.dumps(arguments),
            call_id=self.call,
        )  # fmt: skip
        self.write("token_usage_record", thread_id=self.id, turn_id=self.turn)

    def answer_tool(self) -> None:
        self.write("response_item", type="function_call_output", call_id=self.call, output="done")

    def end_turn(self, **more: object) -> None:
        usage = {**TOTAL, "output_tokens": 10}
        self.event("token_count", info=None if "error" in more else {"total_token_usage": usage})
        self.event("task_complete", turn_id=self.turn, last_agent_message="done", **more)

    def release(self) -> None:
        """As at a clean end: the lock's name goes first, then the descriptors."""
        if self.lock >= 0:
            os.unlink(self.lock_path)
            os.close(self.lock)
        if self._fd >= 0:
            os.close(self._fd)


class Codex(Player):
    def begin(self) -> None:
        arguments = [a for a in os.environ.get("PUPPET_ARGV", "--no-daemon").split("\n") if a]
        rename_process("\0".join(["codex", *arguments]))
        with open("/proc/self/comm", "w", encoding="ascii") as comm:
            comm.write("codex")
        self.codex_home = os.environ.get("CODEX_HOME") or os.path.join(self.home, ".codex")
        os.makedirs(self.codex_home, exist_ok=True)
        self._exec = arguments[:1] == ["exec"]
        self._pipes: list[int] = []
        self._database = -1
        self.threads: list[Thread] = []
        if os.environ.get("PUPPET_BARE"):
            return
        self.load(self.resumed or new_id())

    @property
    def thread(self) -> Thread:
        return self.threads[-1]

    def load(self, id_: str = "", **meta: object) -> None:
        if self._exec:
            meta = {"originator": "codex_exec", "source": "exec", **meta}
        if os.environ.get("PUPPET_NO_LOCK"):
            meta["no_lock"] = True
        self.threads.append(Thread(self.codex_home, id_ or new_id(), self.cwd, **meta))
        self.session = self.thread.id

    def subagent(self) -> None:
        source = {"subagent": {"thread_spawn": {"parent_thread_id": self.thread.id, "depth": 1}}}
        self.load(parent_thread_id=self.thread.id, source=source)

    def forked(self) -> None:
        self.load(forked_from_id=self.thread.id)

    def databases(self) -> None:
        self._database = os.open(os.path.join(self.codex_home, "state_5.sqlite"), os.O_RDWR | os.O_CREAT)

    def work(self) -> None:
        self.thread.begin_turn(self.prompt)

    def ask(self) -> None:
        """Approval: nothing but the call is written."""
        self.thread.ask_tool("exec_command", cmd="make install", sandbox_permissions="require_escalated")

    def question(self) -> None:
        self.thread.ask_tool("request_user_input", questions=[{"id": "q1", "question": "Which?"}])

    def approve(self) -> None:
        """The command runs: a child that lives as long as we hold its standard input."""
        reading, writing = os.pipe()
        self._pipes.append(writing)
        environ = {
            **os.environ,
            "CODEX_TOOL_CALL_ID": self.thread.call,
            "CODEX_THREAD_ID": self.thread.id,
        }
        subprocess.Popen(["/bin/cat"], stdin=reading, stdout=subprocess.DEVNULL, env=environ)
        os.close(reading)

    def output(self) -> None:
        self.thread.answer_tool()

    def rest(self) -> None:
        self.thread.end_turn()

    def fail(self) -> None:
        self.thread.end_turn(error={"message": "high demand", "codex_error_info": "other"})

    def abort(self) -> None:
        self.thread.event("turn_aborted", turn_id=self.thread.turn, reason="interrupted")

    def background(self) -> None:
        """A background terminal ends after its turn did."""
        item = {"type": "CommandExecution", "id": "call_1", "status": "completed"}
        self.thread.event("item_completed", turn_id=self.thread.turn, item=item)

    def chatter(self, kib: str) -> None:
        """So much output that the turn's beginning lies beyond any tail."""
        for _ in range(int(kib)):
            self.thread.ask_tool("exec_command", cmd="x" * 900)
            self.thread.answer_tool()

    def novelty(self) -> None:
        self.thread.event("turn_paused", turn_id=self.thread.turn)

    def read(self, path: str) -> None:
        """What the picker of `codex resume` does to every rollout, for a moment."""
        self._pipes.append(os.open(path, os.O_RDONLY))

    def twin(self, *arguments: str) -> None:
        """A child between fork and exec: our name, arguments (unless others are given), descriptors."""
        reading, writing = os.pipe()
        told, tell = os.pipe()
        if os.fork() == 0:
            os.close(writing)
            if arguments:
                rename_process("\0".join(["codex", *arguments]))
                with open("/proc/self/comm", "w", encoding="ascii") as comm:
                    comm.write("codex")
            os.write(tell, b"!")
            os.read(reading, 1)
            os._exit(0)
        os.read(told, 1)
        for end in (reading, told, tell):
            os.close(end)
        self._pipes.append(writing)

    def release(self) -> None:
        """The thread is unloaded, the process lingers."""
        self.threads.pop().release()

    def end(self, code: int) -> None:
        for thread in self.threads:
            thread.release()


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    Codex().play()
else:
    from agentctl.testing import Puppet, Stage

    class CodexStage(Stage):
        adapter = "codex"

        @property
        def codex_home(self) -> Path:
            return self.home / ".codex"

        def program(self, prompt: str, resume: str | None) -> list[str]:
            return [self.masked("vendor", "bin", "codex"), os.path.abspath(__file__), PADDING]

        def records(self, puppet: Puppet) -> list[Path]:
            rollouts = self.codex_home.glob(f"sessions/*/*/*/rollout-*-{puppet.session_id}.jsonl")
            return [self.lock(puppet.session_id or ""), *rollouts]

        def lock(self, session_id: str) -> Path:
            return self.codex_home / "thread-writer-locks" / f"{session_id}.lock"

        def rollout(self, session_id: str) -> Path:
            return next(self.codex_home.glob(f"sessions/*/*/*/rollout-*-{session_id}.jsonl"))
