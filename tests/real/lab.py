"""One agent's lab: a private home, a model that follows the script, real programs, and agentctl itself.

Lives in a sandbox (agentctl.rehearsal.sandbox). All processes in there are its own, so that closing it
may end every one of them.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentctl.rehearsal import recipe, sandbox
from agentctl.rehearsal.model.server import Model
from agentctl.system import clock, files, proc
from agentctl.system.proc import ProcessIdentity
from tests.ending import kill
from tests.real.actor import PATIENCE, Actor, Body, make_prompt
from tests.real.book import Watcher, Who
from tests.real.errand import Errand
from tests.real.pins import Pin
from tests.real.tmux import Terminal
from tests.running import SOURCES, Ran, agentctl_in
from tests.waiting import until

Form = Callable[[str], list[str]]  # a prompt, as words of the command line
LAST_OUTPUT = 2000  # bytes of each stream, about


class Lab:
    def __init__(self, pin: Pin, root: Path, watcher: Watcher) -> None:
        assert os.environ.get(sandbox.IN_SANDBOX), "a lab lives in a room: make test-real"
        # What a shell starts in the background ignores the one, what nohup starts the other, and so
        # would the agents.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.pin, self.root, self.watcher = pin, root, watcher
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir(parents=True)
        self.repository(self.work)
        self.model = Model()
        self.model.start()
        self.recipe = recipe.recipe_for(pin.adapter)
        # Node may be anywhere, and Codex starts through it.
        folders = [
            os.path.dirname(program) for program in (sys.executable, shutil.which("node")) if program
        ]
        self.path = os.pathsep.join([str(pin.commands), *folders, "/usr/local/bin", "/usr/bin", "/bin"])
        place = recipe.Place(str(self.home), str(self.work), self.model.url, (str(root / "other"),))
        self.environ = recipe.make_environment(self.recipe, place, self.path)
        self.actors: list[Actor] = []
        self.daemon: ProcessIdentity | None = None  # agentctl's own, if one was started
        self._errands = itertools.count(1)
        self._ways = itertools.cycle([(), ("--no-daemon",)])
        until(_is_room_old, "a session that begins now began after the room did")

    @property
    def adapter(self) -> str:
        return self.pin.adapter

    @property
    def program(self) -> str:
        return str(self.pin.commands / self.pin.command)

    def headless(
        self,
        script: str,
        *words: str,
        cwd: Path | None = None,
        form: Form | None = None,
        piped: bool = False,
        program: str | None = None,
        session_id: str | None = None,
        **environ: str,
    ) -> Actor:
        """One turn on this script. `words` go before the recipe's own, `form` makes others of a prompt;
        `piped`: the prompt comes on standard input; `program`: another copy of the agent;
        `session_id`: the one that it goes on with."""
        mark, prompt = make_prompt(script)
        variables = {**self.environ, **environ}
        directory = str(cwd or self.work)
        number = len(self.actors)
        typed = self.root / f"in{number}"
        typed.write_text(prompt if piped else "")
        with (
            open(typed, "rb") as standard_input,
            open(self.root / f"out{number}", "wb") as out,
            open(self.root / f"err{number}", "wb") as err,
        ):
            body = subprocess.Popen(
                [program or self.program, *words, *(form or self.recipe.headless)(prompt)],
                env={**variables, "PWD": directory},
                cwd=directory,
                stdin=standard_input if piped else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        return self.enters(body, mark, session_id)

    def tui(
        self,
        *words: str,
        cwd: Path | None = None,
        ready: str = "",
        session_id: str | None = None,
        **environ: str,
    ) -> Actor:
        """At its prompt, ready to be typed into. `words` go after the recipe's own. `ready`: what its
        screen shows first, if not its prompt; `session_id`: the one that it goes on with."""
        directory = str(cwd or self.work)
        variables = {**self.environ, "PWD": directory, **environ}
        program = [self.program, *self.recipe.interactive, *words]
        terminal = Terminal(self.root / "tmux", program, variables, directory)
        actor = self.enters(terminal, make_prompt("")[0], session_id)
        terminal.shows(ready or self.recipe.ready)
        return actor

    def errand(self, directory: Path | None = None) -> Errand:
        """A command for the shell tool of an agent that works in this directory."""
        return Errand(str(directory or self.work), f"errand{next(self._errands)}")

    def agentctl(self, *words: str, before: Sequence[str] = (), **environ: str) -> Ran:
        """As a person of this home would run it, in the working directory, and each time in a new
        interpreter: a play ends every process of its room, so a zygote would not survive it."""
        variables = {**self.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1", **environ}
        return agentctl_in(variables, *words, cwd=str(self.work), before=before or ("/usr/bin/env",))

    def rows(self) -> list[dict[str, Any]]:
        """All sessions, living and ended, as `list` shows them: in turn from the daemon, if one runs,
        and without it."""
        ran = self.agentctl("list", "-a", "--json", *next(self._ways))
        sessions: list[dict[str, Any]] = ran.json()["sessions"]
        return sessions

    def row_with(self, mark: str) -> dict[str, Any]:
        """The one session with this in its prompt, once it is listed."""
        rows: list[dict[str, Any]] = []

        def is_there() -> bool:
            rows[:] = [row for row in self.rows() if mark in (row["prompt"] or "")]
            return bool(rows)

        until(is_there, f"a row of {mark}", PATIENCE)
        assert len(rows) == 1, rows
        return rows[0]

    def row_by_id(self, session_id: str) -> dict[str, Any]:
        (row,) = [each for each in self.rows() if each["id"] == session_id]
        return row

    @property
    def journal(self) -> str:
        """Where agentctl keeps it, and all else that it remembers."""
        return str(self.home / ".agentctl" / "state.db")

    def starts_daemon(self) -> ProcessIdentity:
        """agentctl's own daemon, which watches from then on. It ends with the lab, if not before."""
        started = self.agentctl("daemon", "start")
        assert started.code == 0, started
        pid = self.agentctl("daemon", "status", "--json").json()["daemon"]["pid"]
        self.daemon = proc.read_process(int(pid), proc.read_boot_id()).identity
        return self.daemon

    def kills_daemon(self) -> None:
        """As the kernel does when memory is short: the daemon cannot report it."""
        assert self.daemon is not None
        kill(self.daemon)
        until(lambda: not self.daemon_runs, "agentctl's daemon is dead")

    @property
    def daemon_runs(self) -> bool:
        now = proc.find_process(self.daemon) if self.daemon is not None else None
        return now is not None and now.is_alive

    def repository(self, directory: Path) -> Path:
        """A git repository with one commit, as people work in."""
        directory.mkdir(parents=True, exist_ok=True)
        git = ["git", "-C", str(directory), "-c", "user.name=lab", "-c", "user.email=lab@localhost"]
        (directory / "README").write_text("a lab\n")
        for words in (["init", "-q", "-b", "main"], ["add", "README"], ["commit", "-q", "-m", "begin"]):
            subprocess.run([*git, *words], check=True, stdin=subprocess.DEVNULL)
        return directory

    def close(self) -> None:
        """Ends every process in the room but those that this one runs in."""
        self.model.stop()
        ours = _ancestors(os.getpid())
        while processes := [p for p in proc.read_table().values() if p.is_alive and p.pid not in ours]:
            for process in processes:
                kill(process.identity)

    def enters(
        self, body: Body, mark: str, session_id: str | None = None, *, since: float | None = None
    ) -> Actor:
        """Also for an agent that another program started: all we have is its process. `since`: when it
        began, if that was before we found it."""
        actor = Actor(self, f"{self.adapter} {len(self.actors) + 1}", body, mark)
        actor.session_id = session_id
        self.actors.append(actor)
        actor.unsettled(since=since)  # from now on it may be listed
        return actor


def read_output(root: Path) -> str:
    """Return the end of what each headless agent of the lab in this directory has printed: it may say
    why a play broke off."""
    ends = {path.name: _read_end(path) for path in sorted([*root.glob("err*"), *root.glob("out*")])}
    return "".join(f"== {name}\n{end}\n" for name, end in ends.items() if end)


def _read_end(path: Path) -> str:
    return files.read_tail(str(path), LAST_OUTPUT).data.decode("utf-8", "replace").rstrip()


def row_of(rows: list[dict[str, Any]], who: Who) -> dict[str, Any] | None:
    """The actor's row: by session id if both know it, else by process."""
    if who.session_id is not None:
        same = [row for row in rows if (row["adapter"], row["id"]) == (who.adapter, who.session_id)]
        if same:
            return same[0]
    pid = who.process.pid if who.process else None
    mine = [row for row in rows if pid is not None and row["pid"] == pid]
    return next((row for row in mine if who.session_id is None or row["id"] is None), None)


def _ancestors(pid: int) -> set[int]:
    table, ancestors = proc.read_table(), set()
    while pid in table:
        ancestors.add(pid)
        pid = table[pid].parent
    return ancestors


def _is_room_old() -> bool:
    """A session that begins within a second of its pid namespace is unknown when it ends (ADR 15)."""
    boot_time = clock.boot_time(time.time())
    first = proc.read_process(1, proc.read_boot_id())
    return time.time() > first.find_start_time(boot_time) + 2
