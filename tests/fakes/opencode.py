"""A fake OpenCode: real processes that share one database and hold it open, as OpenCode 1.18 does.

    stage.start()                                     a TUI: no session before its first prompt
    stage.start(environ=called("run", "a prompt"))    any other way to call it
    stage.install()                                   `opencode run`; a model *nope does not exist

Beyond the steps of a `Player`: `new [DIR]` begins another session, `use ID` goes on with one, `tool`
runs a command, `child` starts one that no record tells of, and `question`, `refuse`, `stumble`, `gap`,
`abort`, `give_up`, `odd`, `sub`, `only_prompt`, `fork`.

It logs nothing, as one with the log level ERROR; `logging()` makes it log all it does, until
`lag`: from then on its lines stay in its buffer, until `speak`. `warn` is a line that every level has.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from agentctl.testing import Puppet, Stage
from agentctl.testing.player import (
    Player,
    process_name,
    rename_process,
    set_arguments,
    set_comm,
    wait_for_program,
)

PADDING = "-" * 400  # room in the argument area for the arguments it shall show
SCHEMA = Path(__file__).parent.parent / "corpus" / "opencode" / "schema.sql"
HEADLESS = json.dumps(
    [
        {"permission": p, "pattern": "*", "action": "deny"}
        for p in ("question", "plan_enter", "plan_exit")
    ],
    separators=(",", ":"),
)
MODEL = '{"id":"fake-1","providerID":"fake","variant":"default"}'
NO_TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
TOKENS = {"total": 1310, "input": 1300, "output": 7, "reasoning": 0, "cache": {"write": 0, "read": 3}}
REFUSED = "The user rejected permission to use this specific tool call."


def called(*arguments: str) -> dict[str, str]:
    """The environment that makes the fake show these arguments."""
    return {"PUPPET_ARGV": "\n".join(arguments)}


def logging(*arguments: str) -> dict[str, str]:
    """The same, and it logs what it does."""
    return {**called(*arguments), "PUPPET_LOGS": "1"}


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


def new_id(prefix: str, at: int, counter: int) -> str:
    """The time, for sessions inverted, then 14 random characters."""
    bits = ((at << 12) | (counter & 0xFFF)) & ((1 << 48) - 1)
    if prefix == "ses":
        bits ^= (1 << 48) - 1
    return f"{prefix}_{bits:012x}{secrets.token_hex(7)}"


def run_steps(puppet: Puppet, *steps: str) -> str:
    """Run these steps; return the id of the session in which they ran."""
    for step in steps:
        puppet.do(step)
    assert puppet.session_id is not None
    return puppet.session_id


class OpenCodeStage(Stage):
    adapter = "opencode"

    def program(self, prompt: str, resume: str | None) -> list[str]:
        binary = self.rename_interpreter("lib", "node_modules", "opencode-ai", "bin", "opencode.exe")
        return [binary, os.path.abspath(__file__), PADDING]

    def launch_words(self) -> list[str]:
        return super().launch_words()[:-1]

    def install(self) -> Path:
        """Keep the PWD of the caller: a shell corrects one that is wrong, the real agent does not."""
        program = super().install()
        restore = """export PWD="$(tr '\\0' '\\n' < /proc/$$/environ | sed -n 's/^PWD=//p')"\n"""
        shebang, _, rest = program.read_text().partition("\n")
        program.write_text(f"{shebang}\n{restore}{rest}")
        return program

    def records(self, puppet: Puppet) -> list[Path]:
        return [p for p in sorted(self.database.parent.iterdir()) if p.name.startswith("opencode.db")]

    @property
    def database(self) -> Path:
        return self.home / ".local" / "share" / "opencode" / "opencode.db"

    def run(self, cwd: Path | None = None, *arguments: str) -> Puppet:
        """A headless `opencode run`."""
        return self.start(cwd, environ=called("run", *arguments, "a prompt"))

    def age(self) -> None:
        """Let all that was written be five seconds older."""
        for table in ("session", "message", "part"):
            for column in ("time_created", "time_updated"):
                self.write(f"update {table} set {column} = {column} - 5000")

    def age_id(self, session_id: str) -> str:
        """Give a session an id that says it is from long ago, as its rows do after `age`."""
        old = f"ses_ffff{session_id[8:]}"
        self.write("update session set id = ? where id = ?", old, session_id)
        for table in ("message", "part"):
            self.write(f"update {table} set session_id = ? where session_id = ?", old, session_id)
        return old

    def write(self, query: str, *parameters: object) -> None:
        """Change the database behind everybody's back."""
        connection = sqlite3.connect(self.database)
        with connection:
            connection.execute(query, parameters)
        connection.close()


class OpenCode(Player):
    def __init__(self) -> None:
        super().__init__()
        again = ["run", "--session", self.resume_id] if self.resume_id else []
        arguments = os.environ.get("PUPPET_ARGV")
        self.arguments = [a for a in arguments.split("\n") if a] if arguments is not None else again
        self.counter = secrets.randbits(8)
        self.message = self.part = ""
        self.last = 0
        self.title: str | None = None
        self.model = ""
        self.run = secrets.token_hex(4)
        self.logs = "PUPPET_LOGS" in os.environ
        self.open_files: list[int] = []

    def begin(self) -> None:
        if not self.is_launched:
            rename_process("\0".join([process_name("opencode"), *self.arguments]))
        self._open()
        self._note(f'"creating instance" directory={self.cwd}')
        for flag in ("--session", "-s"):
            if flag in self.arguments:
                self.session = self.arguments[self.arguments.index(flag) + 1]
        if "--fork" in self.arguments:
            self.fork()
        if self.is_launched:
            self._launched()

    # launched

    def read_arguments(self, arguments: list[str]) -> None:
        self.arguments = arguments
        set_arguments(["opencode", *arguments])
        set_comm("opencode")
        super().read_arguments(arguments)
        options = dict(pairwise(arguments))
        titles = [word.partition("=")[2] for word in arguments if word.startswith("--title=")]
        self.title, self.model = next(iter(titles), None), options.get("--model", "")
        self.cwd = os.environ.get("PWD") or self.cwd  # which it believes rather than the kernel

    def _launched(self) -> None:
        if self.session is None:
            self.new()
            return
        row = self.db.execute("select directory from session where id = ?", (self.session,)).fetchone()
        if row is None:
            self.die("\x1b[91m\x1b[1mError: \x1b[0mSession not found")
        if row[0] != self.cwd:  # it does the work, hears nothing of it, and never ends
            self.work()
            self.rest()
            while True:
                signal.pause()

    def announce(self) -> None:
        if "--session" not in self.arguments:
            self._log(
                f"created id={self.session} slug=witty-rocket version=1.18.33 projectID=global "
                f"directory={self.cwd} path= workspaceID=undefined parentID=undefined agent=undefined"
            )

    def _log(self, message: str) -> None:
        if self.is_launched and "--print-logs" in self.arguments:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            line = f"timestamp={stamp}.176Z level=INFO run=5d22d89c message={message}"
            print(line, file=sys.stderr, flush=True)

    def _note(self, message: str, level: str = "INFO") -> None:
        if self.logs:
            at = milliseconds()
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000))
            line = f"timestamp={stamp}.{at % 1000:03}Z level={level} run={self.run} message={message}\n"
            os.write(self.log, line.encode())

    def lag(self) -> None:
        self.logs = False

    def speak(self) -> None:
        self.logs = True

    def warn(self) -> None:
        self.logs = True
        self._note('"background dependency install failed"', "WARN")
        self.logs = False

    def _say(self, type_: str, **more: object) -> None:
        event = {"type": type_, "timestamp": milliseconds(), "sessionID": self.session, **more}
        self.print_line(_compact(event))

    def on_signal(self, number: int) -> NoReturn:
        """It dies of all of them, writes nothing, and its commands live on."""
        self.die_of(number)

    def tool_environ(self) -> dict[str, str]:
        return {"OPENCODE": "1", "AGENT": "1", "OPENCODE_PID": str(os.getpid())}

    def _open(self) -> None:
        share = os.environ.get("XDG_DATA_HOME") or f"{self.home}/.local/share"
        data = f"{share}/opencode"
        os.makedirs(f"{data}/log", exist_ok=True)
        self.log = os.open(f"{data}/log/opencode.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        path = os.environ.get("OPENCODE_DB") or f"{data}/opencode.db"
        self._make(path)
        self.db = sqlite3.connect(path, isolation_level=None, timeout=10)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = off")  # no test pulls the plug; the files are the same
        self.db.execute("begin immediate")
        if not self.db.execute("select 1 from sqlite_master").fetchone():
            for statement in SCHEMA.read_text().split(";\n"):
                self.db.execute(statement)
            self._insert(
                "project", id="global", worktree="/", time_created=0, time_updated=0, sandboxes="[]"
            )
        self.db.execute("commit")

    def _make(self, path: str) -> None:
        """As the real one where there is no database: that takes PUPPET_MAKES seconds, and another that
        comes meanwhile fails."""
        making, seconds = f"{path}.making", float(os.environ.get("PUPPET_MAKES", "0"))
        if os.path.exists(making):
            self.die("Error: Unexpected error\n\ndatabase is locked")
        if seconds and not os.path.exists(path):
            Path(making).touch()
            Path(path).touch()
            time.sleep(seconds)
            os.unlink(making)

    # steps

    def hold(self, path: str) -> None:
        """Open, for as long as it lives."""
        self.open_files.append(os.open(path, os.O_RDONLY))

    def work(self) -> None:
        """A prompt, and an answer begun."""
        self.only_prompt()
        self._log(f"loop session.id={self.session} step=0")
        if self.model.endswith("nope"):  # nothing but the prompt is ever written
            self._say("error", error={"name": "UnknownError", "data": {"message": "Unexpected"}})
            os._exit(1)
        self._answer_begins()

    def only_prompt(self) -> None:
        if self.session is None:
            self.new()
        self.message = self._message({"role": "user", "agent": "build"})
        self._part({"type": "text", "text": self.prompt})
        self._note(f"loop session.id={self.session} step=0")

    def ask(self, tool: str = "bash") -> None:
        self._note(f"asking id=per_1df4492af001gJuR5Kl2R1l3Dj permission={tool} patterns=[]")
        self._tool(tool, {"status": "running", "input": {"command": "touch x"}})

    def slow(self, tool: str) -> None:
        """A call that takes its time, and asks no question."""
        self._tool(tool, {"status": "running", "input": {}})

    def question(self) -> None:
        self._tool("question", {"status": "running", "input": {"questions": [{"question": "which?"}]}})

    def tool(self) -> None:
        """A command that really runs."""
        self._tool(
            "bash", {"status": "running", "metadata": {"output": ""}, "input": {"command": "cat"}}
        )
        if self.is_launched:
            super().tool()
        else:
            self.child()

    def child(self) -> None:
        # ends with us: its standard input is our pipe
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
        wait_for_program(child.pid)
        self.children.append(child)

    def rest(self) -> None:
        self._note(f'"exiting loop" session.id={self.session}')
        self._part(
            {"type": "text", "text": "done", "time": {"start": milliseconds(), "end": milliseconds()}}
        )
        self._close(finish="stop")
        self.db.execute(
            "update session set tokens_input = tokens_input + 1300, tokens_output = tokens_output + 7, "
            "tokens_cache_read = tokens_cache_read + 3, cost = cost + 0.5 where id = ?",
            (self.session,),
        )
        self._say("text", part={"type": "text", "text": "done"})

    def fail(self) -> None:
        error = {"name": "APIError", "data": {"message": "fake error 400", "statusCode": 400}}
        self._close(error=error)
        self._say("error", error=error)

    def abort(self) -> None:
        self._close(error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})

    def give_up(self) -> None:
        """Aborted while it waited to retry: neither finish nor error."""
        self._close()

    def refuse(self) -> None:
        self._tool("bash", {"status": "error", "error": REFUSED, "input": {"command": "touch x"}})
        self._close(finish="tool-calls")

    def stumble(self) -> None:
        """A tool call that failed for another reason: the model reads the error, and goes on."""
        self._tool("read", {"status": "error", "error": "File not found: x", "input": {"filePath": "x"}})
        self._close(finish="tool-calls")

    def gap(self) -> None:
        self._tool("bash", {"status": "completed", "output": "hi", "input": {"command": "echo hi"}})
        self._close(finish="tool-calls")

    def odd(self) -> None:
        self._close(finish="pondering")

    def new(self, directory: str | None = None) -> None:
        self.session = self._session(directory or self.cwd)

    def use(self, session: str) -> None:
        """Go on with another session, as from the list in the TUI."""
        self.session = session
        last = "select id from message where session_id = ? order by time_created desc limit 1"
        row = self.db.execute(last, (session,)).fetchone()
        self.message = row[0] if row else ""

    def sub(self) -> None:
        """A sub-agent: its session is the current one from now on."""
        parent = self.session
        self._tool("task", {"status": "running", "input": {"prompt": "child hello"}, "metadata": {}})
        self.session = self._session(self.cwd, parent)
        self.message = self._message({"role": "user", "agent": "general"})
        self._part({"type": "text", "text": "child hello"})
        self._answer_begins()

    def fork(self) -> None:
        """A copy of the session under a new id; the copied messages keep their times."""
        source, self.session = self.session, self._session(self.cwd, headless=False)
        for created, data in self.db.execute(
            "select time_created, data from message where session_id = ? order by time_created, id",
            (source,),
        ).fetchall():
            message = self._message(json.loads(data), created)
            self._part({"type": "text", "text": "copied"}, message)

    def end(self, code: int) -> None:
        pass  # the write-ahead log stays behind

    # rows

    def _session(self, directory: str, parent: str | None = None, headless: bool | None = None) -> str:
        at = milliseconds()
        marked = "run" in self.arguments[:1] if headless is None else headless
        session = self._id("ses", at)
        self._insert(
            "session", id=session, project_id="global", parent_id=parent, slug="witty-rocket", path="",
            directory=directory, title=self.title or f"New session - {at}", version="1.18.33",
            agent="build", model=MODEL, permission=HEADLESS if marked else None, time_created=at,
            time_updated=at,
        )  # fmt: skip
        self._note(f"created id={session} slug=witty-rocket parentID={parent or 'undefined'}")
        return session

    def _message(self, data: dict[str, object], created: int | None = None) -> str:
        # two in one millisecond differ in their id alone, which is drawn: keep their times apart
        at = self.last = max(milliseconds(), self.last + 1)
        message = self._id("msg", at)
        message_data = {**data, "time": data.get("time") or {"created": at}}
        self._insert(
            "message", id=message, session_id=self.session, time_created=created or at, time_updated=at,
            data=_compact(message_data),
        )  # fmt: skip
        self._touch(at)
        return message

    def _answer_begins(self) -> None:
        data = {
            "parentID": self.message, "role": "assistant", "mode": "build", "agent": "build",
            "path": {"cwd": self.cwd, "root": self.cwd}, "cost": 0, "tokens": NO_TOKENS,
            "modelID": "fake-1", "providerID": "fake",
        }  # fmt: skip
        self.message = self._message(data)
        self._part({"type": "step-start", "snapshot": "aa0173fc"})
        self._note(f"process session.id={self.session} messageID={self.message}")

    def _close(self, **more: object) -> None:
        row = self.db.execute("select data from message where id = ?", (self.message,)).fetchone()
        data, at = json.loads(row[0]), milliseconds()
        data["time"]["completed"] = at
        data.update(more, tokens=TOKENS)
        query = "update message set data = ?, time_updated = ? where id = ?"
        self.db.execute(query, (_compact(data), at, self.message))
        self._touch(at)

    def _tool(self, tool: str, state: dict[str, object]) -> None:
        timed = {**state, "time": {"start": milliseconds()}}
        self._part({"type": "tool", "tool": tool, "callID": "call_35", "state": timed})

    def _part(self, data: dict[str, object], message: str | None = None) -> None:
        at = milliseconds()
        self._insert(
            "part", id=self._id("prt", at), message_id=message or self.message, session_id=self.session,
            time_created=at, time_updated=at, data=_compact(data),
        )  # fmt: skip

    def _touch(self, at: int) -> None:
        self.db.execute("update session set time_updated = ? where id = ?", (at, self.session))

    def _id(self, prefix: str, at: int) -> str:
        self.counter += 1
        return new_id(prefix, at, self.counter)

    def _insert(self, table: str, **values: object) -> None:
        marks = ", ".join("?" * len(values))
        query = f"insert into {table} ({', '.join(values)}) values ({marks})"
        self.db.execute(query, tuple(values.values()))


def _compact(data: dict[str, object]) -> str:
    return json.dumps(data, separators=(",", ":"))


if __name__ == "__main__":
    OpenCode().play()
