"""A fake Codex: real processes that write rollouts and hold writer locks as Codex 0.166 does.

stage.start()                                an embedded TUI (`codex --no-daemon`), one thread
stage.start(environ=called("exec", "-"))     any other way to call it
stage.start(environ=called("app-server", "--listen", "unix://", bare=True))   no thread yet
stage.install()                              `codex exec`, behind a launcher as under Node 20

A launched one has more words for its script. They stretch an end that is short in truth: `linger N` is
done, gives its thread back and stays; `fade N` the same with its databases still open; `void N` has
nothing open any more, in the middle of a turn.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NoReturn

from agentctl.testing.player import (
    ENDINGS,
    Player,
    process_name,
    rename_process,
    set_arguments,
    set_comm,
    wait_for_program,
)

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
        if (path := self._find_rollout()) is not None:  # resumed: open again at once, also while idle
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)

    def _take(self) -> int:
        if "no_lock" in self._meta:  # a Codex of before 0.147
            return -1
        os.makedirs(os.path.dirname(self.lock_path), exist_ok=True)
        if os.path.exists(self.lock_path):
            os.unlink(self.lock_path)
        fd = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd

    def _find_rollout(self) -> str | None:
        rollouts = Path(self._home, "sessions").glob(f"*/*/*/rollout-*-{self.id}.jsonl")
        return next((str(path) for path in rollouts), None)

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
            approvals_reviewer=os.environ.get("PUPPET_REVIEWER", "user"),
            model="gpt-lab",
        )
        self._user(prompt, "user.text")
        content = [{"type": "text", "text": prompt, "text_elements": []}]
        item = {"type": "UserMessage", "id": new_id(), "content": content}
        self.event("item_completed", thread_id=self.id, turn_id=self.turn, item=item)

    def _user(self, text: str, kind: str) -> None:
        metadata = {"turn_id": self.turn, "content_item_kinds": [kind]}
        self.write(
            "response_item", type="message", role="user", content=[{"type": "input_text", "text": text}],
            internal_chat_message_metadata_passthrough=metadata,
        )  # fmt: skip

    def ask_tool(self, name: str, group: str = "", **arguments: object) -> None:
        self.call = f"call_{uuid.uuid4().hex[:6]}"
        within = {"namespace": group} if group else {}
        self.write(
            "response_item", type="function_call", name=name, **within,
            arguments=json.dumps(arguments), call_id=self.call,
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
    def __init__(self) -> None:
        super().__init__()
        self.codex_home = os.environ.get("CODEX_HOME") or os.path.join(self.home, ".codex")
        self.arguments = [a for a in os.environ.get("PUPPET_ARGV", "--no-daemon").split("\n") if a]
        self._pipes: list[int] = []
        self._database = -1
        self.threads: list[Thread] = []

    def begin(self) -> None:
        if not self.is_launched:
            rename_process("\0".join([process_name("codex"), *self.arguments]))
            set_comm(process_name("codex"))
        os.makedirs(self.codex_home, exist_ok=True)
        self._exec = self.arguments[:1] == ["exec"]
        if self.is_launched:
            self.databases()
        if os.environ.get("PUPPET_BARE"):
            return
        self.load(self.resume_id or new_id())

    # launched

    def read_arguments(self, arguments: list[str]) -> None:
        self.arguments = arguments
        set_arguments(["codex", *arguments])
        set_comm("codex")
        self.cwd = arguments[arguments.index("-C") + 1]
        if not os.path.isdir(self.cwd):
            self.die("Error: No such file or directory (os error 2)")
        super().read_arguments(arguments)
        if not self.prompt:
            self.die("No prompt provided via stdin.")
        if "resume" in arguments:
            self._resume(arguments[arguments.index("resume") + 1])

    def _resume(self, thread_id: str) -> None:
        if len(thread_id) != 36:  # a name that no thread has: Codex begins a new thread, without a word
            return
        trouble = "Error: thread/resume: thread/resume failed:"
        if not list(Path(self.codex_home, "sessions").glob(f"*/*/*/rollout-*-{thread_id}.jsonl")):
            self.die(f"{trouble} no rollout found for thread id {thread_id} (code -32600)")
        if _is_held(os.path.join(self.codex_home, "thread-writer-locks", f"{thread_id}.lock")):
            self.die(f"{trouble} thread {thread_id} already has an active writer (code -32600)")
        self.resume_id = thread_id

    def announce(self) -> None:
        self._event("thread.started", thread_id=self.session)

    def _event(self, type_: str, **more: object) -> None:
        self.print_line(json.dumps({"type": type_, **more}, separators=(",", ":")))

    def tool(self) -> None:
        self.thread.ask_tool("exec_command", cmd="sleep 1000")
        self._event("item.started", item={"id": "item_1", "type": "command_execution"})
        super().tool()

    def tool_environ(self) -> dict[str, str]:
        return {
            "CODEX_CI": "1", "CODEX_TOOL_CALL_ID": self.thread.call, "CODEX_THREAD_ID": self.thread.id,
            "CODEX_SESSION_ID": self.threads[0].id,
        }  # fmt: skip

    def on_signal(self, number: int) -> NoReturn:
        """An interrupt is written down. Of the others it dies at once: nothing is, its lock stays where
        it is, and its tools live on."""
        if number != signal.SIGINT:
            self.die_of(number)
        if self.turn_open:
            self.abort()
        self.leave(1)

    def step_linger(self, seconds: float) -> None:
        """To deliver telemetry, some 5 s."""
        self.close_turn(well=True)
        self.end(0)
        self.threads.clear()
        time.sleep(seconds)  # as long as the script says: the fake's own time, not a wait

    def step_fade(self, seconds: float) -> None:
        self.close_turn(well=True)
        self.release()
        time.sleep(seconds)

    def step_void(self, seconds: float) -> None:
        os.closerange(0, 1024)
        time.sleep(seconds)

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
        self._event("turn.started")

    def ask(self) -> None:
        """Approval: nothing but the call is written."""
        self.thread.ask_tool("exec_command", cmd="make install", sandbox_permissions="require_escalated")

    def command(self) -> None:
        """In the sandbox. Whether Codex asks before it is not written either."""
        self.thread.ask_tool("exec_command", cmd="rm -rf build")

    def mcp(self) -> None:
        """A tool of an MCP server, of which Codex or the server may ask the person."""
        self.thread.ask_tool("paint", "mcp__lab")

    def plan(self) -> None:
        self.thread.ask_tool("update_plan", plan=[])

    def question(self) -> None:
        self.thread.ask_tool("request_user_input", questions=[{"id": "q1", "question": "Which?"}])

    def approve(self, how: str = "") -> None:
        """The command runs: a child that lives as long as we hold its standard input. `bare`: it has
        cleared its environment, as `env -i` does."""
        reading, writing = os.pipe()
        self._pipes.append(writing)
        environ = {
            **os.environ,
            "CODEX_TOOL_CALL_ID": self.thread.call,
            "CODEX_THREAD_ID": self.thread.id,
        }
        own = {} if how == "bare" else environ
        tool = subprocess.Popen(["/bin/cat"], stdin=reading, stdout=subprocess.DEVNULL, env=own)
        os.close(reading)
        wait_for_program(tool.pid)

    def output(self) -> None:
        self.thread.answer_tool()

    def rest(self) -> None:
        self.thread.end_turn()
        self._event("turn.completed", usage=TOTAL)

    def fail(self) -> None:
        self.thread.end_turn(error={"message": "high demand", "codex_error_info": "other"})
        self._event("turn.failed", error={"message": "high demand"})

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
        ready, tell = os.pipe()
        if os.fork() == 0:
            os.close(writing)
            if arguments:
                rename_process("\0".join(["codex", *arguments]))
                with open("/proc/self/comm", "w", encoding="ascii") as comm:
                    comm.write("codex")
            os.write(tell, b"!")
            os.read(reading, 1)
            os._exit(0)
        os.read(ready, 1)
        for end in (reading, ready, tell):
            os.close(end)
        self._pipes.append(writing)

    def release(self) -> None:
        """The thread is unloaded, the process lingers."""
        self.threads.pop().release()

    def end(self, code: int) -> None:
        for thread in self.threads:
            thread.release()
        if self._database >= 0:
            os.close(self._database)


def _is_held(lock: str) -> bool:
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _in_front_of(command: list[str]) -> NoReturn:
    """What Node does with codex.js: signals go on to the native Codex, and its end comes back."""
    native = subprocess.Popen(command)
    for number in ENDINGS:
        signal.signal(number, lambda signum, _: os.kill(native.pid, signum))
    code = native.wait()
    if code < 0:
        if -code in ENDINGS:
            signal.signal(-code, signal.SIG_DFL)
        signal.raise_signal(-code)
    os._exit(code)


if __name__ == "__main__":
    if os.path.basename(os.readlink("/proc/self/exe")) == "node":
        _in_front_of([sys.argv[1], __file__, *sys.argv[2:]])
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
            return [
                self.rename_interpreter("vendor", "bin", "codex"),
                os.path.abspath(__file__),
                PADDING,
            ]

        def launch_words(self) -> list[str]:
            program = os.path.abspath(__file__)
            return [
                self.rename_interpreter("bin", "node"),
                program,
                self.rename_interpreter("vendor", "bin", "codex"),
            ]

        def records(self, puppet: Puppet) -> list[Path]:
            rollouts = self.codex_home.glob(f"sessions/*/*/*/rollout-*-{puppet.session_id}.jsonl")
            return [self.lock(puppet.session_id or ""), *rollouts]

        def lock(self, session_id: str) -> Path:
            return self.codex_home / "thread-writer-locks" / f"{session_id}.lock"

        def rollout(self, session_id: str) -> Path:
            return next(self.codex_home.glob(f"sessions/*/*/*/rollout-*-{session_id}.jsonl"))
