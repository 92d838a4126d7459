"""A private home in which fake agents run, and the survey of exactly these processes.

Everything a puppet could read or write is below one temporary directory, and every process carries
a marker in its environment: a survey on the stage sees nobody else's agents, and nothing else can be
signalled.
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
from agentctl.adapters.registry import load, registered
from agentctl.errors import Gone, SourceError
from agentctl.system import pidfd, proc
from agentctl.system.proc import Process
from agentctl.testing.puppet import ALIAS, DEADLINE, Puppet
from agentctl.truth.look import Look
from agentctl.truth.model import Session
from agentctl.truth.survey import Survey, Wanted, survey

MARKER = "AGENTCTL_STAGE"
BEAT = 0.05  # seconds between two looks at what will change by itself


class Stage:
    """Subclass it for an agent: `adapter`, `program()`, `records()`."""

    adapter: str
    can_ask = True  # whether waiting for a person can be seen from outside, for this agent
    failure_is_told = True  # whether the agent writes down that a turn failed
    alias = ""  # the name that its binary has instead of its own, as an installer may give it

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
            "AGENTCTL_SETTLE": "0",  # fakes fail when they are told to: a launch need not stay
            "AGENTCTL_METRICS_PORT": "0",  # any: many stages have a daemon at the same time
            MARKER: self.marker,
        }

    def program(self, prompt: str, resume: str | None) -> list[str]:
        """The command that starts the fake agent. A `Player` also finds both in its environment."""
        raise NotImplementedError

    def records(self, puppet: Puppet) -> list[Path]:
        """The native files that tell what this session is doing."""
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
        known = {"PUPPET_PROMPT": prompt, ALIAS: self.alias}
        given = {**self.environ, **self._interpreter(), **known, **(environ or {})}
        if resume is not None:
            given["PUPPET_RESUME"] = resume
        puppet = Puppet(self.program(prompt, resume), given, str(directory))
        self.puppets.append(puppet)
        return puppet

    def install(self) -> Path:
        """Puts a program of the agent's name on the PATH of this stage, for `agentctl launch` and others
        who start it by name. It acts by its prompt: see `Player`. What it leaves behind ends with
        the stage."""
        program = self.root / "bin" / load(self.adapter).binary
        program.parent.mkdir(exist_ok=True)
        settings = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in self._interpreter().items())
        program.write_text(f'#!/bin/sh\n{settings}exec {shlex.join(self.launched())} "$@"\n')
        program.chmod(0o755)
        self.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
        return program

    def launched(self) -> list[str]:
        """The words before the agent's own, when it is called by its name."""
        return self.program("", None)

    def processes(self) -> list[Process]:
        """Every live process of this stage, known by its environment: launchers, agents, tools."""
        found = []
        for process in proc.read_table().values():
            try:
                if process.alive and process.environ().get(MARKER) == self.marker:
                    found.append(process)
            except SourceError:  # ended meanwhile, or another user's
                continue
        return [process for process in found if process.pid != os.getpid()]

    def masked(self, *path: str) -> str:
        """The Python interpreter under another name, so that /proc/PID/exe says what it must."""
        named = (*path[:-1], self.alias) if self.alias else path
        target = self.root.joinpath("opt", *named)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source = os.path.realpath(sys.executable)
            try:
                os.link(source, target)
            except OSError:  # another file system
                shutil.copy2(source, target)
        return str(target)

    def survey(self, wanted: Wanted | None = None, *, deadline: float = 20.0) -> Survey:
        look = Look.take(self.environ)
        return survey(look, registered([self.adapter]), wanted, deadline=deadline)

    def session(self, session_id: str) -> Session:
        """The one row of that id, living or ended."""
        found = [s for s in self.survey(Wanted()).sessions if s.seen.session_id == session_id]
        assert len(found) == 1, f"{len(found)} rows for {session_id}"
        return found[0]

    def waiting(self, session_id: str) -> Session:
        """The row of one that asks a person, once it says so: what is derived must hold for a second.
        After a deadline, as it is."""
        end = time.monotonic() + DEADLINE
        while (found := self.session(session_id)).verdict.status != "waiting":
            if time.monotonic() > end:
                break
            time.sleep(BEAT)
        return found

    def row_of(self, puppet: Puppet) -> Session | None:
        """The row owned by this very process, if any."""
        for session in self.survey().sessions:
            if session.seen.owner is not None and session.seen.owner.identity == puppet.identity:
                return session
        return None

    def close(self) -> None:
        for puppet in self.puppets:
            if not puppet.ended:
                puppet.kill()
        while left := self.processes():  # tools survive their agent's end
            for process in left:
                _kill(process)

    def _interpreter(self) -> dict[str, str]:
        """What a copied interpreter needs to find its library and this package."""
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
