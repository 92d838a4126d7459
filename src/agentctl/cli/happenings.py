"""Events for people, and which of them somebody asked for."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from agentctl.cli import rows, text
from agentctl.errors import UsageError
from agentctl.lengths import seconds
from agentctl.truth.clock import parse
from agentctl.truth.event import Event
from agentctl.wire.events import TYPES

COLOURS = {
    "session.waiting": "yellow", "session.running": "green", "session.idle": "cyan",
    "session.unknown": "magenta", "session.stopped": "dim", "events.gap": "magenta",
    "launch.failed": "red", "hook.failed": "red", "fuse.failed": "red", "webhook.dead": "red",
    "notify.failed": "red",
}  # fmt: skip
ALWAYS = ("events.gap", "daemon.started", "daemon.stopped")  # about everybody


def add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--adapter", action="append", default=[], metavar="A", help="only this agent's")
    parser.add_argument("--group", metavar="G", help="only launches of this group")
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        type=kind,
        metavar="T",
        help="only of this type, or of a pattern: 'session.*', lock.released",
    )


def kind(given: str) -> str:
    known = [name for name, _ in TYPES]
    pattern = f"{given}.*" if "." not in given and "*" not in given else given
    if not given.startswith("user.") and not any(fnmatchcase(name, pattern) for name in known):
        raise UsageError(f"no event type {given!r}", f"known: {', '.join(known)}")
    return pattern


def since(given: str) -> int | float:
    """A number of an event; or a moment, as how long ago or as it stands in an event."""
    if given.isascii() and given.isdigit():
        return int(given)
    moment = parse(given) if "T" in given else None
    try:
        return moment if moment is not None else time.time() - seconds(given)
    except UsageError as error:
        raise UsageError(
            f"neither an event's number nor a time: {given!r}",
            "examples: 1200, 10m, 2h, 2026-01-31T12:00:00Z",
        ) from error


def wanted(event: Event, arguments: argparse.Namespace) -> bool:
    if arguments.type and not any(fnmatchcase(event.type, pattern) for pattern in arguments.type):
        return False
    if event.type in ALWAYS and event.adapter is None:
        return True
    if arguments.adapter and event.adapter not in arguments.adapter:
        return False
    if arguments.group and event.group != arguments.group:
        return False
    session = getattr(arguments, "session", None)
    return session is None or any(name.startswith(session) for name in _names(event))


def _names(event: Event) -> Iterable[str]:
    data = event.body.get("data", {})
    found = (event.subject, data.get("session_id"), data.get("was"), _pid(event))
    return [name for name in found if isinstance(name, str)]


def _pid(event: Event) -> str | None:
    pid = (event.body.get("session") or {}).get("pid") or event.body.get("data", {}).get("pid")
    return f"pid:{pid}" if pid is not None else None


def line(event: Event, home: str | None, *, colour: bool, dated: bool = False) -> str:
    """One event in one line: when, what, who, and why."""
    moment = time.localtime(event.seen_at)
    when = time.strftime("%Y-%m-%d %H:%M:%S" if dated else "%H:%M:%S", moment)
    shown = text.paint(text.pad(event.type, 18), COLOURS.get(event.type, ""), on=colour)
    parts = [when, shown, *_who(event, home)]
    said = _said(event)
    said = said.replace(f"{home}/", "~/") if home else said
    return "  ".join([*parts, *([said] if said else [])])


def _who(event: Event, home: str | None) -> list[str]:
    adapter = event.adapter or "-"
    if event.subject is None:
        launch = event.body.get("data", {}).get("launch")
        return (
            []
            if event.adapter is None
            else [f"{adapter} {f'launch {launch}' if launch else ''}".rstrip()]
        )
    if event.adapter is None:
        return [text.one_line(text.tilde(event.subject, home))]
    short = (
        rows.short_ids([event.subject])[0] if not event.subject.startswith("proc:") else event.subject
    )
    return [f"{adapter} {text.one_line(short)}"]


def _said(event: Event) -> str:
    session, data = event.body.get("session"), event.body.get("data", {})
    if event.type == "events.gap":
        return text.one_line(f"{data.get('from')} to {data.get('to')}: {data.get('reason')}")
    if isinstance(session, Mapping):
        return text.one_line(_of_session(event.type, session, data))
    known = {"launch", "pid", *(name for name in data if data[name] == event.subject)}
    told = (f"{name} {data[name]}" for name in data if name not in known and _plain(data[name]))
    return text.one_line(", ".join(told))


def _of_session(kind: str, session: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    if kind == "session.started":
        return f"pid {session.get('pid')}, in {session.get('cwd')}"
    if kind == "session.identified":
        return f"was {data.get('was')}"
    outcome = f"{session['outcome']}: " if session.get("outcome") else ""
    code = f" (exit code {session['exit_code']})" if session.get("exit_code") is not None else ""
    return f"{outcome}{session.get('reason')}{code}"


def _plain(value: object) -> bool:
    return value is not None and not isinstance(value, Mapping | list)
