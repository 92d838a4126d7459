"""A fake Claude Code: a real process that writes the native files as 2.1.325 does, step by step.

Run as `claude.exe <this file>`; its command line is then overwritten with the one in FAKE_ARGV, or
with its own arguments when it was launched, so that /proc shows what the real one shows.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from agentctl.testing import Puppet, Stage
from agentctl.testing.player import Player, set_arguments, set_comm, start_ticks

VERSION = "2.1.325"
MODEL = "claude-opus-5-5"


class Claude(Player):
    def __init__(self) -> None:
        super().__init__()
        self.root = os.environ.get("CLAUDE_CONFIG_DIR") or f"{self.home}/.claude"
        self.version = os.environ.get("FAKE_VERSION", VERSION)
        self.entrypoint = os.environ.get("FAKE_ENTRYPOINT", "sdk-cli" if self.is_launched else "cli")
        self.kind = os.environ.get("FAKE_KIND", "interactive")
        self.path = f"{self.root}/sessions/{os.getpid()}.json"
        self.record: dict[str, Any] = {}
        self.parent: str | None = None
        self.chosen = os.environ.get("FAKE_SESSION")
        self.turns = 0

    # launched

    def read_arguments(self, arguments: list[str]) -> None:
        set_arguments(["claude", *arguments])
        set_comm("claude")
        super().read_arguments(arguments)
        options = dict(pairwise(arguments))
        self.chosen, self.resume_id = options.get("--session-id"), options.get("--resume")
        session_id = self.chosen or self.resume_id
        transcripts = list(Path(self.root).glob(f"projects/*/{session_id}.jsonl")) if session_id else []
        if self.chosen and transcripts:
            self.die(f"Error: Session ID {self.chosen} is already in use.")
        if self.resume_id and not transcripts:
            self.die(f"No conversation found with session ID: {self.resume_id}")
        if not self.prompt:
            self.die("Error: Input must be provided either through stdin or as a prompt argument")

    def on_signal(self, number: int) -> NoReturn:
        """SIGINT is answered with a marker and the code 0, others with nothing."""
        if number != signal.SIGINT:
            self.leave(128 + number)
        if self.turn_open:
            self.interrupt()
            self.print_line("Execution error")
        self.leave(0)

    def step_login(self, _: float) -> None:
        """It is not logged in, and still has a session, with a turn that failed."""
        self._refused("authentication_failed", "Not logged in · Please run /login")

    def step_model(self, seconds: float) -> None:
        """A model that it does not know, and the server neither, which takes so long to say so."""
        print('[claude-code:unrecognized_model] {"model":"nope"}', file=sys.stderr, flush=True)
        time.sleep(seconds)  # as long as the script says: the fake's own time, not a wait
        self._refused("model_not_found", "There's an issue with the selected model (nope).")

    def _refused(self, error: str, text: str) -> NoReturn:
        more = {"error": error, "isApiErrorMessage": True}
        reply = self._reply(_text(text), "stop_sequence", message={"model": "<synthetic>"}, **more)
        self._append(reply, *self._bookkeeping())
        self.print_line(text)
        self.leave(1)

    def tool(self) -> None:
        self._append(self._reply(_tool("Bash", command="make"), "tool_use"), *self._bookkeeping())
        super().tool()

    def tool_environ(self) -> dict[str, str]:
        return {
            "CLAUDECODE": "1", "CLAUDE_PID": str(os.getpid()), "CLAUDE_CODE_CHILD_SESSION": "1",
            "CLAUDE_CODE_SESSION_ID": str(self.session), "CLAUDE_CODE_ENTRYPOINT": self.entrypoint,
            "AI_AGENT": "claude-code_2-1-325_agent", "GIT_EDITOR": "true",
        }  # fmt: skip

    # the registry

    def begin(self) -> None:
        if not self.is_launched:
            set_arguments(os.environ["FAKE_ARGV"].split("\x1f"))
        if "FAKE_COMM" in os.environ:
            set_comm(os.environ["FAKE_COMM"])
        if os.environ.get("FAKE_START") == "bare":  # a dialog, a child session, a spare
            return
        os.makedirs(f"{self.root}/sessions", mode=0o700, exist_ok=True)
        self.session = self.resume_id or self.chosen or str(uuid.uuid4())
        self._locate()
        self.record = self._first_record()
        self._write_record()
        if os.environ.get("FAKE_START") != "provisional":
            self._status("idle")

    def settle(self, session: str) -> None:
        """`--continue` has found its session."""
        self.session = session
        self._locate()
        self.record["sessionId"] = session
        self._status("idle")

    def claim(self) -> None:
        """A spare becomes a background session."""
        os.environ["FAKE_START"], self.kind = "", "bg"
        self.begin()

    def take(self, session: str) -> None:
        """A spare is given a session that others have used; it says what it does once it has read it."""
        os.environ["FAKE_START"], self.kind, self.chosen = "provisional", "bg", session
        self.begin()

    def _first_record(self) -> dict[str, Any]:
        now = _ms()
        record: dict[str, Any] = {
            "pid": os.getpid(), "sessionId": self.session, "cwd": self.cwd, "startedAt": now,
            "procStart": str(start_ticks()), "version": self.version, "peerProtocol": 1,
        }  # fmt: skip
        naming = {"name": f"{os.path.basename(self.cwd)}-5a", "nameSource": "derived"}
        if self.version < "2.1.113":
            keys = ("pid", "sessionId", "cwd", "startedAt")
            old = {key: record[key] for key in keys}
            return {**old, "kind": self.kind, "entrypoint": self.entrypoint}
        if self.version < "2.1.2":
            return {**record, "kind": self.kind, "entrypoint": self.entrypoint, **naming}
        record |= {
            "peerFeatures": ["notify_idle"], "kind": self.kind, "entrypoint": self.entrypoint,
            "pidDomain": f"linux:{_machine()}:{os.readlink('/proc/self/ns/pid')}",
            "asksForConvertedSkills": None, "messagingSocketPath": "/tmp/cc-socks/x.sock",
            **naming, "nameSince": now,
        }  # fmt: skip
        if self.kind == "bg":
            record["jobId"] = str(self.session)[:8]
        return record

    def _status(self, word: str, waiting_for: str | None = None) -> None:
        if self.version < "2.1.2":  # never with -p
            return
        self.record.pop("waitingFor", None)
        now = _ms()
        self.record |= {"status": word, "updatedAt": now, "statusUpdatedAt": now}
        if waiting_for is not None:
            self.record["waitingFor"] = waiting_for
        self._write_record()

    def _write_record(self) -> None:
        if os.path.exists(self.path) or not self.record.get("status"):  # never re-created
            with open(self.path, "w", encoding="utf-8") as file:  # in place, as the real one
                file.write(json.dumps(self.record, separators=(",", ":")))

    # the transcript

    def _locate(self) -> None:
        projects = Path(self.root, "projects")
        near = projects / _slug(self.cwd) / f"{self.session}.jsonl"
        far = sorted(projects.glob(f"*/{self.session}.jsonl"))
        self.transcript = near if near.exists() or not far else far[0]

    def _append(self, *records: dict[str, Any]) -> None:
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        with self.transcript.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(r, separators=(",", ":")) + "\n" for r in records)

    def _message(self, kind: str, **more: Any) -> dict[str, Any]:
        own = str(uuid.uuid4())
        record = {
            "parentUuid": self.parent, "isSidechain": False, "type": kind, **more, "uuid": own,
            "timestamp": _now(), "userType": "external", "entrypoint": self.entrypoint,
            "cwd": self.cwd, "sessionId": self.session, "version": self.version, "gitBranch": "HEAD",
        }  # fmt: skip
        if self.kind == "bg":
            record["sessionKind"] = "bg"
        self.parent = own
        return record

    def _user_message(self, content: Any, **more: Any) -> dict[str, Any]:
        return self._message("user", message={"role": "user", "content": content}, **more)

    def _reply(self, block: dict[str, Any], reason: str | None, **more: Any) -> dict[str, Any]:
        usage = {
            "input_tokens": 11, "output_tokens": 7,
            "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 100,
        }  # fmt: skip
        message = {
            "id": f"msg_{uuid.uuid4().hex[:24]}", "type": "message", "role": "assistant",
            "model": MODEL, "content": [block], "stop_reason": reason, "usage": usage,
        }  # fmt: skip
        message |= more.pop("message", {})
        return self._message("assistant", **more) | {"message": message}

    def _bookkeeping(self) -> list[dict[str, Any]]:
        """What stands last almost always."""
        last = {"type": "last-prompt", "lastPrompt": self.prompt, "sessionId": self.session}
        return [last, {"type": "atis-latch", "atis": "", "sessionId": self.session}]

    def _request(self) -> dict[str, Any]:
        source = "repl_main_thread" if self.entrypoint == "cli" else "sdk"
        return {
            "type": "api-request", "sessionId": self.session, "timestamp": _now(),
            "version": self.version, "querySource": source, "params": {"model": MODEL},
        }  # fmt: skip

    # steps

    def work(self) -> None:
        self._status("busy")
        prompt = self.prompt if self.turns == 0 else f"{self.prompt}, turn {self.turns + 1}"
        self.turns += 1
        opening: list[dict[str, Any]] = [{"type": "mode", "mode": "normal", "sessionId": self.session}]
        if self.entrypoint != "cli":
            opening = [
                {
                    "type": "queue-operation",
                    "operation": word,
                    "timestamp": _now(),
                    "sessionId": self.session,
                }
                for word in ("enqueue", "dequeue")
            ]
        message = self._user_message(prompt, promptSource="typed", turnOrigin="human")
        environment = self._message("attachment", attachment={"type": "environment"})
        request = [self._request()] if self.version >= "2.1.2" else []
        self._append(*opening, message, environment, *request, *self._bookkeeping())

    def ask(self) -> None:
        self._append(self._reply(_tool("Bash", command="touch x"), "tool_use"), *self._bookkeeping())
        self._status("waiting", "permission prompt")

    def question(self) -> None:
        self._append(self._reply(_tool("AskUserQuestion", questions=[]), "tool_use"))
        self._status("waiting", "input needed")

    def rest(self) -> None:
        self._append(self._reply(_text("done as asked"), "end_turn"))
        if self.entrypoint == "cli":
            self._append(self._message("system", subtype="turn_duration", durationMs=5))
        self._append(*self._bookkeeping())
        self._status("idle")
        self.print_line("done as asked")

    def fail(self) -> None:
        reply = self._reply(
            _text("API Error: 529"), "stop_sequence", message={"model": "<synthetic>"},
            error="server_error", isApiErrorMessage=True, apiErrorStatus=529,
        )  # fmt: skip
        self._append(reply, *self._bookkeeping())
        self._status("idle")
        self.print_line("API Error: 529")

    def interrupt(self) -> None:
        if self.children:
            self._append(
                self._user_message([{"type": "tool_result", "is_error": True, "content": "no"}])
            )
            self._append(self._user_message([_text("[Request interrupted by user for tool use]")]))
        else:
            self._append(self._reply(_text("hang"), None, isAbortedMidStream=True))
            self._append(self._user_message([_text("[Request interrupted by user]")]))
        self._status("idle")

    def shell(self) -> None:
        self.rest()
        self._status("shell")

    def dialog(self) -> None:
        self._status("waiting", "dialog open")

    def say(self, word: str) -> None:
        """Any status word, as a later version might say."""
        self._status(word)

    def delegate(self) -> None:
        """The main turn ends while a background sub-agent runs on; the status stays busy."""
        agent = self.transcript.with_suffix("") / "subagents" / "agent-a55ebc3b7117d7d3f.jsonl"
        agent.parent.mkdir(parents=True, exist_ok=True)
        line = self._user_message("sub work", agentId="a55ebc3b7117d7d3f") | {"isSidechain": True}
        agent.write_text(json.dumps(line) + "\n", encoding="utf-8")
        self._append(self._reply(_text("launched"), "end_turn"))
        ending = self._message("system", subtype="turn_duration", pendingBackgroundAgentCount=1)
        self._append(ending, *self._bookkeeping())

    def flicker(self, rate: str, seconds: str) -> None:
        """Changes its status so many times a second, and keeps a book of it: as no agent does, but as
        many may together. Never the same twice in a row, never two in one millisecond."""
        rng, book = random.Random(os.getpid()), []
        words = [("busy", None), ("idle", None), ("waiting", "permission prompt")]
        began, word = time.monotonic(), words[1]
        for number in range(int(float(rate) * float(seconds))):
            time.sleep(max(0.001, began + (number + 1) / float(rate) - time.monotonic()))
            word = rng.choice([other for other in words if other != word])
            self._status(*word)
            book.append([word[0], self.record["statusUpdatedAt"]])
        Path(f"{self.home}/book-{self.session}.json").write_text(json.dumps(book), encoding="utf-8")

    def clear(self) -> None:
        """/clear: a new session in the same process, its transcript made at once."""
        self._append(self._cost())
        self.session, self.parent = str(uuid.uuid4()), None
        self._locate()
        self._append(self._user_message("<local-command-caveat>…</local-command-caveat>", isMeta=True))
        self._append(self._user_message("<command-name>/clear</command-name>"))
        self.record["sessionId"] = self.session
        self._status("idle")

    def branch(self) -> None:
        """/branch: the lines so far are copied into a new session, marked with their origin."""
        old = [json.loads(line) for line in self.transcript.read_text(encoding="utf-8").splitlines()]
        origin, self.session = self.session, str(uuid.uuid4())
        self._locate()
        for record in old:
            if "uuid" in record:
                mark = {"sessionId": origin, "messageUuid": record["uuid"]}
                self._append({**record, "sessionId": self.session, "forkedFrom": mark})
        self._append({"type": "custom-title", "customTitle": "side road", "sessionId": self.session})
        self.record |= {"sessionId": self.session, "name": "side road", "nameSource": "user"}
        self._status("idle")

    def half(self) -> None:
        """Caught between truncating the record and writing it."""
        with open(self.path, "w", encoding="utf-8") as file:
            file.write('{"pid":12,"sess')

    def spawn(self, *container: str) -> None:
        """A tool at work: a child that knows its session. In a container, if these words make one."""
        own = (f"CLAUDE_PID={os.getpid()}", f"CLAUDE_CODE_SESSION_ID={os.environ['FAKE_SESSION']}")
        (ready, say), (reading, self.hold) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(self.hold)
            os.dup2(reading, 0)
            os.set_inheritable(say, True)
            # says that it is there; ends when its parent does
            words = [*container, "env", *own, "sh", "-c", f"printf x >&{say}; read line"]
            os.execvp(words[0], words)
        os.read(ready, 1)

    def end(self, code: int) -> None:
        if self.transcript.exists():
            self._append(self._cost())
        if os.path.exists(self.path):
            os.unlink(self.path)

    def _cost(self) -> dict[str, Any]:
        used = {
            "inputTokens": 11 * self.turns, "outputTokens": 7 * self.turns,
            "cacheReadInputTokens": 2000 * self.turns, "cacheCreationInputTokens": 100 * self.turns,
        }  # fmt: skip
        return {
            "type": "cost-state", "sessionId": self.session, "totalCostUSD": 0.001 * self.turns,
            "modelUsage": {MODEL: used}, "hasUnknownModelCost": False,
        }  # fmt: skip


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:24]}", "name": name, "input": arguments}


def _slug(path: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in path)


def _ms() -> int:
    return time.time_ns() // 1_000_000


def _now() -> str:
    whole, millis = divmod(_ms(), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{millis:03d}Z"


def _machine() -> str:
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


class ClaudeStage(Stage):
    adapter = "claude-code"
    binary: tuple[str, ...] = (
        "lib",
        "node_modules",
        "@anthropic-ai",
        "claude-code",
        "bin",
        "claude.exe",
    )
    wrapper: tuple[str, ...] = ()

    @property
    def config(self) -> Path:
        return self.home / ".claude"

    def program(self, prompt: str, resume: str | None) -> list[str]:
        room = " " * 200  # for the real command line
        return [*self.wrapper, self.rename_interpreter(*self.binary), str(Path(__file__)), room]

    def launch_words(self) -> list[str]:
        return super().launch_words()[:-1]

    def start(
        self,
        cwd: Path | None = None,
        *,
        resume: str | None = None,
        prompt: str = "a prompt",
        environ: dict[str, str] | None = None,
        argv: tuple[str, ...] = (),
    ) -> Puppet:
        """`argv`: what /proc shows behind `claude`."""
        words = argv or (("--resume", resume) if resume else (prompt,))
        name = "claude bg-spare" if "--bg-spare" in words else self.alias or "claude"
        variables = {"FAKE_ARGV": "\x1f".join((name, *words)), **(environ or {})}
        return super().start(cwd, resume=resume, prompt=prompt, environ=variables)

    def record(self, puppet: Puppet) -> Path:
        return self.config / "sessions" / f"{puppet.pid}.json"

    def transcript(self, session_id: str | None) -> Path:
        return next(self.config.glob(f"projects/*/{session_id}.jsonl"))

    def records(self, puppet: Puppet) -> list[Path]:
        return [self.record(puppet), self.transcript(puppet.session_id)]


if __name__ == "__main__":
    Claude().play()
