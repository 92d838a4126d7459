"""Every type of event there is, and what a pattern of them means. The journal, the filters of targets
and the reference are made of this table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TYPES: Mapping[str, str] = {
    "session.started": "an agent began to run a session, or was first seen at it",
    "session.identified": "a process that had no session yet has one",
    "session.running": "a turn is open",
    "session.waiting": "it is blocked on a person",
    "session.idle": "its turn is over",
    "session.stopped": "its owner is proven gone",
    "session.unknown": "what it is cannot be told any more; the reason is with it",
    "launch.started": "we started an agent",
    "launch.identified": "its session is known",
    "launch.ended": "it has ended, with an exit code or none",
    "launch.failed": "it could not be started",
    "launch.expired": "its note was forgotten",
    "hook.succeeded": "a hook ended with 0",
    "hook.failed": "a hook ended otherwise, or could not be run",
    "lock.acquired": "a directory was taken",
    "lock.released": "a directory was released",
    "lock.expired": "a person's lock ran out",
    "fuse.set": "a fuse was lit",
    "fuse.extended": "it was given more time",
    "fuse.cancelled": "it was put out",
    "fuse.fired": "it burnt down, and did what it was to do",
    "fuse.failed": "it burnt down, and something of what it was to do failed",
    "webhook.delivered": "a webhook took a delivery",
    "webhook.dead": "a delivery was given up",
    "notify.delivered": "a notification was handed over",
    "notify.failed": "a notification was given up",
    "notify.quiet": "a notification was not needed: somebody is there, or it came too late",
    "events.gap": "some changes may not have been seen",
    "daemon.started": "the daemon began to look",
    "daemon.stopped": "the daemon was told to end",
}
# What became of a delivery is told to nobody, or it would be told of that too.
DELIVERABLE = tuple(name for name in TYPES if not name.startswith(("webhook.", "notify.")))
USER = "user."  # what a fuse emits is called user.NAME, and NAME is a person's choice
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz_-.*")


def matching(pattern: str, types: Iterable[str] = TYPES) -> list[str]:
    """Those that a pattern means; `*` stands for anything. As SQLite's glob does, of these letters."""
    if not _LETTERS.issuperset(pattern):
        return []
    from fnmatch import fnmatchcase

    return [name for name in types if fnmatchcase(name, pattern)]
