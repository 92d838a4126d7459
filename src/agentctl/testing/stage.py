"""A private home in which fake agents run, and the survey of exactly these processes.

All files of a puppet are below one temporary directory, and every process has a marker in its
environment: a survey on the stage sees only its own agents, and only these are signalled.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import sysconfig
import time
import uuid
from pathlib import Path

import agentctl
from agentctl.adapters.registry import find_adapters, load
from agentctl.errors import Gone, SourceError
from agentctl.system import pidfd, proc
from agentctl.system.proc import Process
from agentctl.testing.puppet import ALIAS, DEADLINE, Puppet
from agentctl.truth.look import Look
from agentctl.truth.model import Session
from agentctl.truth.survey import HistoryQuery, Survey, survey

MARKER = "AGENTCTL_STAGE"
BEAT = 0.05  # seconds between two looks while a test waits


class Stage:
    """Subclass it for an agent: `adapter`, `program()`, `records()`."""

    adapter: str
    can_ask = True  # whether a wait for the user can be seen from outside
    writes_failures = True  # whether the agent records that a turn failed
    alias = ""  # another name for its binary, as some installers choose

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.work = root / "work"
        for directory in (self.home, self.work):
            directory.mkdir(parents=True, exist_ok=True)
        self.marker = uuid.uuid4().hex
        self.puppets: list[Puppet] = []
        self.environ = {
            "HOME": str(self.home),
            "AGENTCTL_HOME": str(root / "state"),
            "AGENTCTL_CONFINE": f"{MARKER}={self.marker}",
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(root),
            "AGENTCTL_SETTLE": "0",  # fakes fail only on request: a launch need not wait
            "AGENTCTL_METRICS_PORT": "0",  # any port: many stages run a daemon at the same time
            MARKER: self.marker,
        }

    def program(self, prompt: str, resume: str | None) -> list[str]:
        """Return the command of the fake agent. A `Player` also finds both values in its environment."""
        raise NotImplementedError

    def records(self, puppet: Puppet) -> list[Path]:
        """Return the native files that show what this session is doing."""
        raise NotImplementedError

    def start(
        self,
        cwd: Path | None = None,
        *,
        resume: str | None = None,
        prompt: str = "a prompt",
        environ: dict[str, str] | None = None,
    ) -> Puppet:
        directory = cwd or self.work
        directory.mkdir(parents=True, exist_ok=True)
        settings = {"PUPPET_PROMPT": prompt, ALIAS: self.alias}
        variables = {**self.environ, **self._interpreter(), **settings, **(environ or {})}
        if resume is not None:
            variables["PUPPET_RESUME"] = resume
        puppet = Puppet(self.program(prompt, resume), variables, str(directory))
        self.puppets.append(puppet)
        return puppet

    def install(self) -> Path:
        """Put a program of the agent's name on the PATH of this stage, for `agentctl launch`. It acts on
        its prompt: see `Player`. `close` ends its processes."""
        program = self.root / "bin" / load(self.adapter).binary
        program.parent.mkdir(exist_ok=True)
        settings = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in self._interpreter().items())
        program.write_text(f'#!/bin/sh\n{settings}exec {shlex.join(self.launch_words())} "$@"\n')
        program.chmod(0o755)
        self.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
        return program

    def launch_words(self) -> list[str]:
        """Return the words before the agent's own arguments."""
        return self.program("", None)

    def processes(self) -> list[Process]:
        """Return every live process of this stage, by its environment: launchers, agents, tools."""
        processes = []
        for process in proc.read_table().values():
            try:
                if process.is_alive and process.environ().get(MARKER) == self.marker:
                    processes.append(process)
            except SourceError:  # the process has ended, or is another user's
                continue
        return [process for process in processes if process.pid != os.getpid()]

    def rename_interpreter(self, *path: str) -> str:
        """Return a copy of the Python interpreter with this path, so that /proc/PID/exe shows it."""
        parts = (*path[:-1], self.alias) if self.alias else path
        target = self.root.joinpath("opt", *parts)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source = os.path.realpath(sys.executable)
            try:
                os.link(source, target)
            except OSError:  # another file system
                shutil.copy2(source, target)
        return str(target)

    def survey(self, history: HistoryQuery | None = None, *, deadline: float = 20.0) -> Survey:
        look = Look.take(self.environ)
        return survey(look, find_adapters([self.adapter]), history, deadline=deadline)

    def session(self, session_id: str) -> Session:
        """Return the one session with this id, live or ended."""
        rows = [
            s for s in self.survey(HistoryQuery()).sessions if s.observation.session_id == session_id
        ]
        assert len(rows) == 1, f"{len(rows)} rows for {session_id}"
        return rows[0]

    def wait_for_question(self, session_id: str) -> Session:
        """Return a session once it is waiting, which takes a second if the wait is derived; after the
        deadline, as it is."""
        end = time.monotonic() + DEADLINE
        while (row := self.session(session_id)).verdict.status != "waiting":
            if time.monotonic() > end:
                break
            time.sleep(BEAT)
        return row

    def find_row(self, puppet: Puppet) -> Session | None:
        """Return the session of this process, if it has one."""
        for session in self.survey().sessions:
            if (
                session.observation.owner is not None
                and session.observation.owner.identity == puppet.identity
            ):
                return session
        return None

    def close(self) -> None:
        for puppet in self.puppets:
            if not puppet.has_ended:
                puppet.kill()
        while remaining := self.processes():  # tools outlive their agent
            for process in remaining:
                _kill(process)

    def _interpreter(self) -> dict[str, str]:
        """Return what a copied interpreter needs to find its library and this package."""
        libraries = str(sysconfig.get_config_var("LIBDIR") or "")
        package = str(Path(agentctl.__file__).parent.parent)
        return {
            "PYTHONHOME": sys.base_prefix,
            "PYTHONPATH": package,
            "LD_LIBRARY_PATH": libraries,
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def _kill(process: Process) -> None:
    try:
        with pidfd.Handle(process.identity) as handle:
            handle.signal(signal.SIGKILL)
            handle.wait(DEADLINE)
    except Gone:
        pass  # it had ended already
