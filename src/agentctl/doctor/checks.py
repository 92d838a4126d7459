"""The checks of `doctor`: kernel, our own files, each agent's program and files, and all problems.

Nothing is changed and no agent is started.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec

from agentctl import __version__, paths
from agentctl.adapters import registry
from agentctl.adapters.base import Adapter
from agentctl.config import settings as config
from agentctl.daemon_client import client as rpc
from agentctl.errors import AgentctlError, Gone, NoDaemon, SourceError, StartFailed
from agentctl.launch.program import find_program
from agentctl.light_typing import Iterator, Mapping
from agentctl.sessions import query
from agentctl.system import files, pidfd, proc
from agentctl.system.permissions import check_directory, check_home
from agentctl.truth import rehearsals
from agentctl.truth.look import Look
from agentctl.truth.model import Problem, Session
from agentctl.truth.survey import HistoryQuery
from agentctl.wire.doctor import Finding

# Problems that are shown as a note: harmless by themselves.
NOTES = frozenset({"stale"})
# The level of a daemon part, by its state.
PART_LEVELS = {"failed": "wrong", "failing": "wrong", "degraded": "note"}
DAEMON_TIMEOUT = 3.0  # seconds
# The module of each extra in pyproject.toml. To ask the installed package takes 6 MB of memory.
EXTRAS = {"matrix": "yaml", "testing": "pytest"}


def run_checks(environ: Mapping[str, str], deadline: float | None = None) -> list[Finding]:
    """Run every check. `deadline`: seconds that one adapter may take."""
    return [
        *check_machine(),
        *check_state(environ),
        *check_settings(environ),
        *check_daemon(environ),
        *check_agents(environ, deadline),
        *check_rehearsals(),
        *check_extras(),
    ]


def check_machine() -> Iterator[Finding]:
    yield Finding("agentctl", "ok", f"{__version__} on Python {sys.version.split()[0]}")
    system = os.uname()
    yield Finding("kernel", "ok", f"{system.sysname} {system.release}")
    if not pidfd.is_supported():
        yield Finding("kernel", "wrong", "no pidfd: processes can be seen but not signalled")
        return
    try:
        has_exit_info = pidfd.has_exit_info()
    except SourceError as error:
        yield Finding("kernel", "wrong", f"pidfd: {error}")
        return
    yield Finding("kernel", "ok", "pidfd: processes are signalled by identity")
    if has_exit_info:
        yield Finding("kernel", "ok", "exit info: the exit code of a reaped process can be read")
    else:
        yield Finding(
            "kernel",
            "note",
            "no exit info (needs Linux 6.15): exit codes of other processes are lost",
        )
    if proc.pid_namespace() != proc.INITIAL_PID_NAMESPACE:
        yield Finding(
            "kernel",
            "note",
            "in a container: agents outside are invisible, their sessions in shared files are unknown",
        )
    if 1 not in proc.read_table():
        yield Finding(
            "kernel",
            "note",
            "pid 1 is invisible (hidepid?): so are other users' agents, sessions may be unknown",
        )


def check_rehearsals() -> Iterator[Finding]:
    """Report sandboxes of `doctor --live`, which no list shows. A sandbox should end with its maker."""
    table = proc.read_table()
    alive = {p.identity.address for p in table.values() if p.is_alive}
    for room in rehearsals.find_sandboxes(table):
        agents = ", ".join(f"pid {p.pid} ({p.comm})" for p in room.processes if p.is_alive)
        if not agents or not room.maker:  # the sandbox is ending
            continue
        if room.maker in alive:
            yield Finding("rehearsal", "note", f"`doctor --live` ({room.maker}) runs {agents}")
        else:
            leftover = f"left over by a `doctor --live` that has ended ({room.maker}): {agents}"
            yield Finding(
                "rehearsal",
                "wrong",
                f"{leftover}; not in any list. To end it: kill -9 {room.keeper.pid}",
            )


def check_state(environ: Mapping[str, str]) -> Iterator[Finding]:
    state = paths.state_directory(environ)
    if state is None:
        yield Finding("state", "note", "no home directory: nothing is stored between runs")
        return
    try:
        mode = files.read_status(state).st_mode & 0o077
    except Gone:
        yield Finding("state", "ok", f"{state} (does not exist yet)")
        return
    except SourceError as error:
        yield Finding("state", "wrong", str(error))
        return
    try:
        check_directory(state)
        check_home(state)
    except SourceError as error:
        yield Finding("state", "wrong", f"{error.source}: {error.advice}")
        return
    if mode:
        yield Finding("state", "wrong", f"{state} can be read by others: chmod 700 {state}")
    elif not os.access(state, os.W_OK):
        yield Finding("state", "note", f"{state} is read-only: nothing new is stored")
    else:
        yield Finding("state", "ok", state)


def check_daemon(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Report the daemon's parts as the daemon describes them. No daemon is fine too."""
    state = paths.state_directory(environ)
    if state is None:
        return
    try:
        with rpc.connect(state, DAEMON_TIMEOUT) as client:
            status = client.call("daemon.status")
    except NoDaemon:
        yield Finding("daemon", "ok", "not running")
        return
    except AgentctlError as error:
        yield Finding("daemon", "wrong", _error_text(error))
        return
    yield Finding("daemon", "ok", f"pid {status['pid']}")
    for part in status["parts"]:
        name, state = part["name"], part["state"]
        if state in PART_LEVELS:
            yield Finding("daemon", PART_LEVELS[state], f"{name} {state}: {part.get('problem')}")
        for place in part.get("unwatched") or ():
            yield Finding("daemon", "note", f"{name}: polled every second, not watched: {place}")


def check_settings(environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        settings = config.load(environ)
    except AgentctlError as error:  # a launch would fail with the same message
        yield Finding("settings", "wrong", _error_text(error))
        return
    exists = settings.file is not None and os.path.exists(settings.file)
    yield Finding("settings", "ok", str(settings.file) if exists else "no settings file: all defaults")


def check_agents(environ: Mapping[str, str], deadline: float | None) -> list[Finding]:
    """Check every registered agent; the problems of the survey follow, each once."""
    survey = query.survey_sessions(HistoryQuery(), (), deadline)
    live = [s for s in survey.sessions if s.observation.owner is not None]
    problems = list(survey.problems)
    findings: list[Finding] = []
    look = Look.take()
    for agent in registry.find_adapters():
        view = look.scope_to(agent.name)
        view.own_processes = tuple(
            s.observation.owner
            for s in live
            if s.observation.owner and s.observation.adapter == agent.name
        )
        try:
            findings += check_agent(registry.load(agent.name), view, live, environ)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a third party's fault is a finding
            view.report_problem("broken", f"{type(error).__name__}: {error}", agent.name)
        problems += view.problems
    return findings + [problem_finding(problem) for problem in dict.fromkeys(problems)]


def check_agent(
    adapter: Adapter, look: Look, live: list[Session], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Report its program, its live sessions and its files. `look` collects the problems."""
    yield check_program(adapter, environ)
    own = [s.observation for s in live if s.observation.adapter == adapter.name]
    versions = sorted({each.facts.agent_version for each in own if each.facts.agent_version})
    suffix = f", versions {', '.join(versions)}" if versions else ""
    yield Finding(adapter.name, "ok", f"{len(own)} live{suffix}")
    for place in adapter.places(look):
        yield _check_place(adapter.name, place.what, place.path)


def check_program(adapter: Adapter, environ: Mapping[str, str]) -> Finding:
    """Look for the agent's program where `launch` looks: the setting first, then PATH and more."""
    setting = _binary_setting(adapter.name, environ)
    try:
        path = find_program(setting or adapter.binary, environ, os.getcwd())
    except StartFailed as error:
        return Finding(adapter.name, "wrong" if setting else "note", f"{error} ({error.hint})")
    return Finding(adapter.name, "ok", f"{path} {read_version(path) or '(version unknown)'}")


def _binary_setting(adapter: str, environ: Mapping[str, str]) -> str | None:
    try:
        return config.load(environ).for_adapter(adapter).binary.value
    except AgentctlError:  # check_settings reports it
        return None


def read_version(binary: str) -> str | None:
    """Read the version from the file's name or the package.json above it. No program is run."""
    directory = os.path.realpath(binary)
    name = os.path.basename(directory)
    if name[:1].isdigit():
        return name
    for _ in range(4):
        directory = os.path.dirname(directory)
        try:
            return str(json.loads(files.read_file(f"{directory}/package.json").data)["version"])
        except (SourceError, ValueError, KeyError, TypeError):
            continue
    return None


def check_extras() -> Iterator[Finding]:
    for extra, module in EXTRAS.items():
        is_installed = find_spec(module) is not None
        yield Finding("extras", "ok", f"{extra}: {'installed' if is_installed else 'not installed'}")


def problem_finding(problem: Problem) -> Finding:
    level = "note" if problem.kind in NOTES else "wrong"
    source = f" ({problem.source})" if problem.source else ""
    return Finding(problem.adapter or "agentctl", level, f"{problem.kind}: {problem.message}{source}")


def _check_place(subject: str, title: str, path: str) -> Finding:
    try:
        status = files.read_status(path)
        if os.path.isdir(path):
            files.list_names(path)
        else:
            files.read_head(path, 1)
    except Gone:
        return Finding(subject, "ok", f"{title}: {path} (does not exist)")
    except SourceError as error:
        return Finding(subject, "wrong", f"{title}: {error}")
    owner = "" if status.st_uid == os.geteuid() else f" (owned by uid {status.st_uid})"
    return Finding(subject, "ok", f"{title}: {path}{owner}")


def _error_text(error: AgentctlError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)
