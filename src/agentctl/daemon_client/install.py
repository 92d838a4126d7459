"""Install the daemon as a service of the login: a systemd user unit. macOS is not supported.

The unit uses only hardening that does not change the view of the machine: PrivateTmp, ProtectHome and
ProtectSystem make a mount namespace, in which the daemon would see other files than its clients. Nor
does it restrict the user's own commands, which the daemon runs for fuses and notifications: Node.js does
not start under MemoryDenyWriteExecute, and a UMask would change the mode of what they write.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil

from agentctl import paths
from agentctl.adapters.environment import directory_variables
from agentctl.daemon_client import start, stop
from agentctl.errors import NotFound, Refused, SourceError, TimedOut, Unreachable, UsageError
from agentctl.light_typing import Mapping, NamedTuple, Sequence
from agentctl.paths import home_directory
from agentctl.process import ours
from agentctl.process.limited import run_command
from agentctl.system import files
from agentctl.system.files import translate_error

Environ = Mapping[str, str]
Command = tuple[str, ...]
CONTROL = ("systemctl", "--user")
RELOAD = (*CONTROL, "daemon-reload")
PATIENCE = 30.0  # seconds for one command

MARK = "Written by `agentctl daemon install`"
_UNIT = """\
# {mark}; `agentctl daemon uninstall` removes it.
[Unit]
Description=agentctl daemon ({home})
# It listens at {socket}

[Service]
Type=notify
ExecStart={command}
{environment}
Restart=on-failure
RestartSec=1
# 4: another daemon runs for this home. A restart would not help.
RestartPreventExitStatus=4
TimeoutStopSec=5
KillMode=process
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK

[Install]
WantedBy=default.target
"""


class Service(NamedTuple):
    """A unit file."""

    path: str
    content: str

    @property
    def enable(self) -> Command:
        return (*CONTROL, "enable", "--now", os.path.basename(self.path))

    @property
    def disable(self) -> Command:
        return (*CONTROL, "disable", "--now", os.path.basename(self.path))


class Outcome(NamedTuple):
    """The steps that worked, and why the rest did not."""

    steps: tuple[str, ...]
    problem: str | None = None
    commands: str = ""  # to run by hand when systemd answers


def install(environ: Environ) -> Outcome:
    """Write the service's file and start the service. Raises Refused for a file of another author."""
    service = describe_service(environ)
    _is_installed(service.path)
    _write(service.path, service.content)
    steps = [f"wrote {service.path}"]
    problem = _run(RELOAD, environ)
    if problem is not None:  # the daemon that runs is not stopped if systemd does not answer
        return Outcome(tuple(steps), problem, _join(RELOAD, service.enable))
    steps += _stop_running(start.find_home(environ))
    problem = _run(service.enable, environ)
    if problem is not None:
        return Outcome(tuple(steps), problem, _join(service.enable))
    return Outcome((*steps, "the daemon runs, and will start at each login"))


def _stop_running(home: str) -> list[str]:
    """Stop a daemon that runs without the service: it would keep the service from starting."""
    try:
        return [f"stopped the daemon that ran, pid {stop.stop_daemon(home).pid}"]
    except NotFound:
        return []


def uninstall(environ: Environ) -> Outcome:
    """Stop the service and remove its file. Raises NotFound, Refused."""
    service = describe_service(environ)
    if not _is_installed(service.path):
        raise NotFound(f"not installed: no {service.path}")
    problem = _run(service.disable, environ)
    os.unlink(service.path)
    steps = (f"removed {service.path}",)
    _run(RELOAD, environ)
    if problem is not None:
        return Outcome(steps, problem, _join(service.disable))
    return Outcome((*steps, "the daemon is stopped, and starts only when a command needs it"))


def describe_service(environ: Environ) -> Service:
    home = start.find_home(environ)
    base = home_directory(environ)
    if base is None:
        raise Unreachable("no home directory is known", "set HOME")
    others = {name: value for name, value in environ.items() if name != "AGENTCTL_HOME"}
    usual = home == paths.state_directory(others)
    name, variables = service_name(home, usual=usual), service_environment(environ, home, usual=usual)
    settings = environ.get("XDG_CONFIG_HOME") or f"{base}/.config"
    unit = make_unit(home, ours.daemon_command(), variables)
    return Service(f"{settings}/systemd/user/{name}.service", unit)


def _is_installed(path: str) -> bool:
    """Return True if our file is there. Raises Refused for a file of another author."""
    try:
        content = files.read_file(path).data
    except SourceError as error:
        if not os.path.lexists(path):
            return False
        raise Refused(f"{path} is not a file that install wrote: {error.why}") from error
    if MARK.encode() not in content:
        raise Refused(f"{path} is not a file that install wrote", "move it away")
    return True


def _write(path: str, content: str) -> None:
    """Write the whole file or nothing."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise translate_error(error, path) from error


def _join(*commands: Command) -> str:
    return " && ".join(map(shlex.join, commands))


def _run(command: Command, environ: Environ) -> str | None:
    """Return why the command failed; None: it did not."""
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return f"{command[0]} is not installed"
    try:
        result = run_command([program, *command[1:]], "/", environ, PATIENCE)
    except (OSError, TimedOut) as error:
        return f"{' '.join(command)}: {error}"
    if result.code == 0:
        return None
    output = result.err.decode("utf-8", "replace").strip().splitlines()
    return f"{' '.join(command)}: {output[-1] if output else f'exit code {result.code}'}"


def service_environment(environ: Mapping[str, str], home: str, *, usual: bool) -> dict[str, str]:
    """Return the variables that the service keeps of the environment it is installed from. `usual`: the
    home is where the daemon looks anyway."""
    # Without the variables that name agents' directories the daemon would look elsewhere.
    names = ("PATH", *directory_variables())
    variables = {name: environ[name] for name in names if environ.get(name)}
    return variables if usual else {"AGENTCTL_HOME": home, **variables}


def service_name(home: str, *, usual: bool) -> str:
    """Return the name of the service of a home: each home has one of its own."""
    if usual:
        return "agentctl"
    word = re.sub(r"[^A-Za-z0-9]+", "-", os.path.basename(home)).strip("-")[:40]
    return f"agentctl-{word or 'home'}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:8]}"


def make_unit(home: str, command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return a systemd user unit. Raises UsageError for what no line can hold."""
    settings = "\n".join(
        f"Environment={_quote(f'{name}={value}', dollars=False)}" for name, value in environ.items()
    )
    return _UNIT.format(
        mark=MARK,
        home=_plain(home),
        socket=_plain(f"{home}/daemon.sock"),
        command=" ".join(_quote(word) for word in command),
        environment=settings,
    )


def _quote(word: str, *, dollars: bool = True) -> str:
    """Quote for systemd. `%` begins a specifier everywhere, `$` a variable in commands only."""
    _check(word)
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("%", "%%")
    return f'"{escaped.replace("$", "$$") if dollars else escaped}"'


def _plain(word: str) -> str:
    """Escape for a description or a comment."""
    return _check(word).replace("%", "%%").rstrip("\\")


def _check(word: str) -> str:
    """Raise UsageError for a word that would end its line, or that is not text."""
    printable = all(c == "\t" or (c >= " " and not "\x7f" <= c <= "\x9f") for c in word)
    if not printable or any("\ud800" <= c <= "\udfff" for c in word):
        raise UsageError(f"a service file cannot hold this: {word!r}", "choose another directory")
    return word
