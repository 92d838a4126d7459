"""One thing that happened, as it is told: to a stream, to the journal, to who wants to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Event(NamedTuple):
    type: str  # session.stopped, lock.acquired …
    seen_at: float
    at: float | None = None  # when it became true at the source; None: no source tells
    adapter: str | None = None
    subject: str | None = None  # the session's id; of a process without one, its address; a directory
    group: str | None = None
    body: Mapping[str, Any] = {}  # `session` as in list, the `evidence` that moved it, `data`
    seq: int | None = None  # None: not in a journal
