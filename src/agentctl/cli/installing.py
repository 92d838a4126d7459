"""`daemon install` and `uninstall`: the file of the service, and who is to be told of it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentctl import paths, text
from agentctl.daemon_client import install as service
from agentctl.daemon_client import start, stop
from agentctl.errors import AgentctlError, NotFound, Refused, SourceError, Unreachable
from agentctl.paths import home as home_directory
from agentctl.process import ours
from agentctl.system import files
from agentctl.system.files import translated

Environ = Mapping[str, str]
Words = tuple[str, ...]
PATIENCE = 30.0  # seconds for the service manager


class Service(NamedTuple):
    path: str
    content: str
    begin: tuple[Words, ...]  # the commands that make it run, now and at each login
    end: tuple[Words, ...]
    after: tuple[Words, ...] = ()  # when the file is gone


def install(environ: Environ) -> int:
    made = described(environ, sys.platform)
    _ours_or_none(made.path)
    _write(made.path, made.content)
    print(text.one_line(f"wrote {made.path}"))
    *first, last = made.begin
    code = _commanded(first, environ, made.begin)
    if code == 0:  # nothing is stopped where no service manager answers
        _make_room(start.home_of(environ))
        code = _commanded([last], environ, [last])
    if code == 0:
        print("the daemon runs, and will at each login")
    return code


def _make_room(home: str) -> None:
    """A daemon that runs without the service would keep the service's from starting."""
    try:
        ended = stop.end(home)
        print(f"stopped the daemon that ran, pid {ended.pid}")
    except NotFound:
        pass


def uninstall(environ: Environ) -> int:
    made = described(environ, sys.platform)
    if not _ours_or_none(made.path):
        raise NotFound(f"not installed: {made.path} is not there")
    code = _commanded(made.end, environ, made.end)
    os.unlink(made.path)
    print(text.one_line(f"removed {made.path}"))
    for command in made.after:
        _run(command, environ)
    if code == 0:
        print("the daemon is stopped, and starts only where a verb needs it")
    return code


def described(environ: Environ, platform: str) -> Service:
    home = start.home_of(environ)
    base = home_directory(environ)
    if base is None:
        raise Unreachable("no home directory is known", "set HOME")
    others = {name: value for name, value in environ.items() if name != "AGENTCTL_HOME"}
    usual = home == paths.state_directory(others)
    name, kept = service.name(home, usual=usual), service.carried(environ, home, usual=usual)
    command = ours.daemon()
    if platform == "darwin":
        label = f"dev.{name}" if usual else f"dev.{name.replace('agentctl-', 'agentctl.', 1)}"
        path = f"{base}/Library/LaunchAgents/{label}.plist"
        domain = f"gui/{os.getuid()}"
        return Service(
            path,
            service.plist(label, home, command, kept),
            (("launchctl", "bootstrap", domain, path),),
            (("launchctl", "bootout", f"{domain}/{label}"),),
        )
    settings = environ.get("XDG_CONFIG_HOME") or f"{base}/.config"
    control, unit = ("systemctl", "--user"), f"{name}.service"
    return Service(
        f"{settings}/systemd/user/{unit}",
        service.unit(home, command, kept),
        ((*control, "daemon-reload"), (*control, "enable", "--now", unit)),
        ((*control, "disable", "--now", unit),),
        ((*control, "daemon-reload"),),
    )


def _ours_or_none(path: str) -> bool:
    """Whether our file is there. Raises Refused for a file that somebody else wrote."""
    try:
        told = files.whole(path).data
    except SourceError as error:
        if not os.path.lexists(path):
            return False
        raise Refused(f"{path} is not a file that install wrote: {error.why}") from error
    if service.MARK.encode() not in told:
        raise Refused(f"{path} is not a file that install wrote", "move it away")
    return True


def _write(path: str, content: str) -> None:
    """Whole or not at all."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise translated(error, path) from error


def _commanded(commands: Sequence[Words], environ: Environ, to_type: Sequence[Words]) -> int:
    """Exit code 1 where one failed or is not here: then all that is to be typed is told."""
    for command in commands:
        why = _run(command, environ)
        if why is not None:
            typed = " && ".join(shlex.join(each) for each in to_type)
            print(text.one_line(f"agentctl: {why}"), file=sys.stderr)
            print(text.one_line(f"  where your login's services run: {typed}"), file=sys.stderr)
            return AgentctlError.exit_code
    return 0


def _run(command: Words, environ: Environ) -> str | None:
    """Why it did not work; None: it did."""
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return f"{command[0]} is not installed"
    try:
        ran = subprocess.run(  # noqa: S603 - the service manager, by its words above
            [program, *command[1:]],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)}: {error}"
    if ran.returncode == 0:
        return None
    said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"{' '.join(command)}: {said[-1] if said else f'exit code {ran.returncode}'}"
