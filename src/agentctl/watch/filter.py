"""Choose events by type, agent, group and session."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

from agentctl.durations import parse_duration
from agentctl.errors import UsageError
from agentctl.light_typing import Iterable, NamedTuple, Sequence
from agentctl.system.clock import parse_time
from agentctl.truth.event import Event
from agentctl.wire.event import TYPES

ALWAYS = ("events.gap", "daemon.started", "daemon.stopped")  # concern every reader


class EventFilter(NamedTuple):
    types: Sequence[str] = ()  # patterns, one of which must match; empty: all
    adapters: Sequence[str] = ()
    group: str | None = None
    session: str | None = None  # an id or a prefix of one; pid:N

    def matches(self, event: Event) -> bool:
        if self.types and not any(fnmatchcase(event.type, pattern) for pattern in self.types):
            return False
        if event.type in ALWAYS and event.adapter is None:
            return True
        if self.adapters and event.adapter not in self.adapters:
            return False
        if self.group and event.group != self.group:
            return False
        session = self.session
        return session is None or any(name.startswith(session) for name in _names(event))


def parse_type(word: str) -> str:
    """Return the pattern for a type, a family (`session`) or a pattern. Raises UsageError."""
    names = [name for name, _ in TYPES]
    pattern = f"{word}.*" if "." not in word and "*" not in word else word
    if not word.startswith("user.") and not any(fnmatchcase(name, pattern) for name in names):
        raise UsageError(f"no event type {word!r}", f"known: {', '.join(names)}")
    return pattern


def parse_since(word: str) -> int | float:
    """Return the number of an event as int, or a moment as float: a duration before now, or a time as
    events have it. Raises UsageError."""
    if word.isascii() and word.isdigit():
        return int(word)
    moment = parse_time(word) if "T" in word else None
    try:
        return moment if moment is not None else time.time() - parse_duration(word)
    except UsageError as error:
        raise UsageError(
            f"neither an event number nor a time: {word!r}",
            "examples: 1200, 10m, 2h, 2026-01-31T12:00:00Z",
        ) from error


def _names(event: Event) -> Iterable[str]:
    data = event.body.get("data", {})
    names = (event.subject, data.get("session_id"), data.get("was"), _pid(event))
    return [name for name in names if isinstance(name, str)]


def _pid(event: Event) -> str | None:
    pid = (event.body.get("session") or {}).get("pid") or event.body.get("data", {}).get("pid")
    return f"pid:{pid}" if pid is not None else None
