"""What `daemon start`, `stop`, `restart` and `status` do, and how it is shown."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agentctl import __version__, paths, text
from agentctl.cli import daemon_parts
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import lock_file
from agentctl.daemon_client import start as summon
from agentctl.daemon_client import stop as dismiss
from agentctl.durations import age
from agentctl.errors import Fault, NoDaemon, NotFound, SourceError, StartFailed, Unreachable
from agentctl.paths import home as home_directory
from agentctl.process import ours
from agentctl.state import journal
from agentctl.system.clock import parse
from agentctl.wire import daemon_shapes

Environ = Mapping[str, str]


def start(environ: Environ, *, foreground: bool) -> int:
    if foreground:
        return _become(environ)
    home = summon.home_of(environ)
    try:
        client, how = rpc.connect(home), "the daemon runs already"
    except NoDaemon:
        client, how = summon.start(environ), "started"
    with client:
        told = client.hello()
        print(f"{how}: agentctl {told.version}, pid {told.pid}", flush=True)
        daemon_parts.warn(client)
    return 0


def _become(environ: Environ) -> int:
    argv = ours.daemon()
    sys.stdout.flush()
    try:
        os.execve(argv[0], argv, summon.surroundings(environ, supervised=True))  # noqa: S606 - ourselves
    except OSError as error:
        raise StartFailed(f"{argv[0]}: {error.strerror}") from error


def stop(environ: Environ, *, force: bool) -> int:
    _tell(dismiss.end(summon.home_of(environ), force=force))
    return 0


def restart(environ: Environ, *, force: bool) -> int:
    try:
        _tell(dismiss.end(summon.home_of(environ), force=force))
    except NotFound:
        pass
    return start(environ, foreground=False)


def _tell(ended: dismiss.Ended) -> None:
    how = "" if ended.how == "asked" else f", by {ended.how}: it did not answer"
    print(f"stopped: agentctl {ended.version}, pid {ended.pid}{how}")


def show_status(environ: Environ, *, as_json: bool) -> int:
    """Exit code 3 where none runs, 5 where one does that cannot be spoken with."""
    home = summon.home_of(environ)
    told = _status(home)
    if as_json:
        print(json.dumps(daemon_shapes.daemon(told), indent=1))
    elif told is None:
        print(text.one_line(f"no daemon runs for {home}; agentctl daemon start starts it"))
    else:
        print("\n".join(_lines(told, home_directory(environ))), flush=True)
    if told is not None:
        daemon_parts.show(told.get("parts"))
    return 3 if told is None else 0


def _status(home: str) -> dict[str, Any] | None:
    """Raises Unreachable for one that runs and does not answer as we expect."""
    try:
        with rpc.connect(home) as client:
            told = client.call("daemon.status")
    except NoDaemon:
        found = lock_file.proven(home)
        if found is None:
            return None
        raise Unreachable(
            f"the daemon does not answer: {found.named}", "agentctl daemon restart"
        ) from None
    except Fault as error:
        raise Unreachable(f"the daemon refuses: {error}", "agentctl daemon logs") from error
    if not isinstance(told, dict):
        raise Unreachable("the daemon tells its status in a way that is not known here", rpc.RESTART)
    return {**told, "seq": _last_event(home, told.get("seq"))}


def _last_event(home: str, rung: object) -> int | None:
    try:
        return max(journal.last(paths.notes_file(home)), rung if isinstance(rung, int) else 0)
    except SourceError:
        return None


def _lines(told: Mapping[str, Any], home: str | None) -> Iterator[str]:
    began, memory = parse(told.get("since")), told.get("memory_bytes")
    facts = [
        f"agentctl {told.get('version')} (protocol {told.get('protocol')})",
        f"pid {told.get('pid')}",
    ]
    facts += [f"for {age(time.time() - began)}"] if began is not None else []
    facts += [f"{memory / 1e6:.1f} MB"] if isinstance(memory, int) else []
    yield text.one_line(", ".join(facts))
    if told.get("version") != __version__:
        yield text.one_line(f"  this is agentctl {__version__}; agentctl daemon restart")
    yield text.one_line(f"home         {text.tilde(str(told.get('home')), home)}")
    seq = told.get("seq")
    yield f"last event   {seq if seq is not None else 'not known'}"
    yield f"clients      {told.get('clients')}, {told.get('subscribers')} of them subscribed to events"
    for part in told.get("parts") or ():
        yield text.one_line(f"{part.get('name')!s:<12} {_state(part)}")


def _state(part: Mapping[str, Any]) -> str:
    known = ("name", "state", "problem")
    rest = {name: _shown(value) for name, value in part.items() if name not in known}
    more = [f"{name} {value}" for name, value in rest.items() if value]
    told = [str(part.get("state")), *([f"({', '.join(more)})"] if more else [])]
    return " ".join(told) + (f": {part['problem']}" if part.get("problem") else "")


def _shown(value: object) -> str:
    """What a part tells of itself, on one line; empty: nothing."""
    if isinstance(value, dict):
        shown = {name: _shown(each) for name, each in value.items()}
        return " ".join(f"{name} {each}" for name, each in shown.items() if each)
    if isinstance(value, list):
        return " ".join(_shown(each) for each in value)
    return "" if value is None else str(value)
