"""Events: one change of one session, launch, lock or fuse, and the table of all types there are. The
journal, the filters of targets and the reference are made from this table."""

from __future__ import annotations

from agentctl.light_typing import Any, Iterable, Mapping, NamedTuple

TYPES: Mapping[str, str] = {
    "session.started": "a process began to run it: a new session, or an old one resumed",
    "session.identified": "a process that had no session yet has one; data.was is its address",
    "session.running": "its turn is open, or no source says what it is doing",
    "session.waiting": "it waits for a person",
    "session.idle": "its turn is over",
    "session.stopped": "its process is proven gone",
    "session.unknown": "its status cannot be decided; session.reason says why",
    "launch.started": "agentctl started an agent",
    "launch.identified": "the session of a launch is known",
    "launch.ended": "its agent ended; data.exit_code is null if it is not known",
    "launch.failed": "it never became a session; data.why",
    "launch.expired": "its --timeout is over, and it is being stopped",
    "hook.succeeded": "a hook of a launch ran",
    "hook.failed": "a hook of a launch failed, or took too long",
    "lock.acquired": "a directory is locked",
    "lock.released": "a directory is free again; data.why",
    "lock.expired": "a directory is free again: the time of its lock is over",
    "fuse.set": "a fuse is set",
    "fuse.extended": "a fuse is due later",
    "fuse.cancelled": "a fuse is cancelled; data.why",
    "fuse.fired": "a fuse fired; data.results",
    "fuse.failed": "a fuse fired, and an action failed; data.results",
    "webhook.delivered": "a webhook was delivered",
    "webhook.dead": "a webhook was given up",
    "notify.delivered": "a notification was delivered",
    "notify.failed": "a notification could not be delivered",
    "notify.quiet": "a notification was not needed: the user is there, or it came too late",
    "events.gap": "events between data.from and data.to may be missing; data.reason",
    "daemon.started": "the daemon watches from now on",
    "daemon.stopped": "the daemon no longer watches",
}
# A delivery's own outcome is not delivered: that would be one more delivery, without end.
DELIVERABLE = tuple(name for name in TYPES if not name.startswith(("webhook.", "notify.")))
USER = "user."  # a fuse emits user.NAME, and the user chooses NAME
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz_-.*")


class Event(NamedTuple):
    type: str  # session.stopped, lock.acquired …
    seen_at: float
    at: float | None = None  # when it became true at the source; None: no source says
    adapter: str | None = None
    subject: str | None = None  # a session id, the address of a process without one, or a directory
    group: str | None = None
    body: Mapping[str, Any] = {}  # `session` as in list, the `evidence` that changed it, `data`
    seq: int | None = None  # None: not in a journal


def match_types(pattern: str, types: Iterable[str] = TYPES) -> list[str]:
    """Return the types that match a pattern; `*` matches anything, as in SQLite's glob."""
    if not _LETTERS.issuperset(pattern):
        return []
    from fnmatch import fnmatchcase

    return [name for name in types if fnmatchcase(name, pattern)]
