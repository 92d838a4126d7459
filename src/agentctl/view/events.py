"""An event as one line of text."""

from __future__ import annotations

import time

from agentctl import text
from agentctl.light_typing import Any, Mapping
from agentctl.truth.event import Event
from agentctl.view import rows

COLOURS = {
    "session.waiting": "yellow", "session.running": "green", "session.idle": "cyan",
    "session.unknown": "magenta", "session.stopped": "dim", "events.gap": "magenta",
    "launch.failed": "red", "hook.failed": "red", "fuse.failed": "red", "webhook.dead": "red",
    "notify.failed": "red",
}  # fmt: skip


def render_event(event: Event, home: str | None, *, colour: bool, dated: bool = False) -> str:
    """Return when it happened, its type, its subject and the details."""
    moment = time.localtime(event.seen_at)
    when = time.strftime("%Y-%m-%d %H:%M:%S" if dated else "%H:%M:%S", moment)
    kind = text.paint(text.pad(text.clean_line(event.type), 18), COLOURS.get(event.type, ""), on=colour)
    details = text.shorten_homes(_details(event), home)
    return "  ".join(filter(None, (when, kind, _subject(event, home), details)))


def _subject(event: Event, home: str | None) -> str:
    adapter = text.clean_line(event.adapter or "-")
    if event.subject is None:
        launch = event.body.get("data", {}).get("launch")
        name = text.clean_line(f"launch {launch}") if launch else ""
        return f"{adapter} {name}".rstrip() if event.adapter is not None else ""
    if event.adapter is None:
        return text.clean_line(text.shorten_home(event.subject, home))
    is_process = event.subject.startswith("proc:")
    short_id = event.subject if is_process else rows.short_ids([event.subject])[0]
    return f"{adapter} {text.clean_line(short_id)}"


def _details(event: Event) -> str:
    session, data = event.body.get("session"), event.body.get("data", {})
    if event.type == "events.gap":
        return text.clean_line(f"{data.get('from')} to {data.get('to')}: {data.get('reason')}")
    if isinstance(session, Mapping):
        return text.clean_line(_session_details(event.type, session, data))
    skipped = {"launch", "pid", *(name for name in data if data[name] == event.subject)}
    fields = (f"{name} {data[name]}" for name in data if name not in skipped and _is_plain(data[name]))
    return text.clean_line(", ".join(fields))


def _session_details(kind: str, session: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    if kind == "session.started":
        return f"pid {session.get('pid')}, in {session.get('cwd')}"
    if kind == "session.identified":
        return f"was {data.get('was')}"
    outcome = f"{session['outcome']}: " if session.get("outcome") else ""
    code = f" (exit code {session['exit_code']})" if session.get("exit_code") is not None else ""
    return f"{outcome}{session.get('reason')}{code}"


def _is_plain(value: object) -> bool:
    return value is not None and not isinstance(value, Mapping | list)
