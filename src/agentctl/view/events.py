"""Events for people, one line each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from agentctl import text
from agentctl.truth.event import Event
from agentctl.view import rows

COLOURS = {
    "session.waiting": "yellow", "session.running": "green", "session.idle": "cyan",
    "session.unknown": "magenta", "session.stopped": "dim", "events.gap": "magenta",
    "launch.failed": "red", "hook.failed": "red", "fuse.failed": "red", "webhook.dead": "red",
    "notify.failed": "red",
}  # fmt: skip


def line(event: Event, home: str | None, *, colour: bool, dated: bool = False) -> str:
    """One event in one line: when, what, who, and why."""
    moment = time.localtime(event.seen_at)
    when = time.strftime("%Y-%m-%d %H:%M:%S" if dated else "%H:%M:%S", moment)
    shown = text.paint(text.pad(text.one_line(event.type), 18), COLOURS.get(event.type, ""), on=colour)
    parts = [when, shown, *_who(event, home)]
    said = text.tildes(_said(event), home)
    return "  ".join([*parts, *([said] if said else [])])


def _who(event: Event, home: str | None) -> list[str]:
    adapter = text.one_line(event.adapter or "-")
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
