"""Which events somebody wants to see."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from agentctl.durations import seconds
from agentctl.errors import UsageError
from agentctl.system.clock import parse
from agentctl.truth.event import Event
from agentctl.wire.event import TYPES

ALWAYS = ("events.gap", "daemon.started", "daemon.stopped")  # about everybody


class EventFilter(NamedTuple):
    types: Sequence[str] = ()  # patterns, any of which may match; empty: all
    adapters: Sequence[str] = ()
    group: str | None = None
    session: str | None = None  # an id, a prefix of one, pid:N

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
    """The pattern of a type, of a family of types, or of several. Raises UsageError."""
    known = [name for name, _ in TYPES]
    pattern = f"{word}.*" if "." not in word and "*" not in word else word
    if not word.startswith("user.") and not any(fnmatchcase(name, pattern) for name in known):
        raise UsageError(f"no event type {word!r}", f"known: {', '.join(known)}")
    return pattern


def parse_since(word: str) -> int | float:
    """The number of an event; or a moment, as how long ago or as it stands in an event. Raises
    UsageError."""
    if word.isascii() and word.isdigit():
        return int(word)
    moment = parse(word) if "T" in word else None
    try:
        return moment if moment is not None else time.time() - seconds(word)
    except UsageError as error:
        raise UsageError(
            f"neither an event's number nor a time: {word!r}",
            "examples: 1200, 10m, 2h, 2026-01-31T12:00:00Z",
        ) from error


def _names(event: Event) -> Iterable[str]:
    data = event.body.get("data", {})
    names = (event.subject, data.get("session_id"), data.get("was"), _pid(event))
    return [name for name in names if isinstance(name, str)]


def _pid(event: Event) -> str | None:
    pid = (event.body.get("session") or {}).get("pid") or event.body.get("data", {}).get("pid")
    return f"pid:{pid}" if pid is not None else None
