"""Every type of event there is, and what a pattern of them means. The journal, the filters of targets
and the reference are made of this table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TYPES: Mapping[str, str] = {
    "session.started": "a process began to run it: a new session, or an old one resumed",
    "session.identified": "a process that had no session yet has one; data.was is its address",
    "session.running": "its turn is open, or nobody can tell what it is doing",
    "session.waiting": "it waits for a person",
    "session.idle": "its turn is over",
    "session.stopped": "its process is proven gone",
    "session.unknown": "nobody can tell, and session.reason says why",
    "launch.started": "agentctl started an agent",
    "launch.identified": "which session that became",
    "launch.ended": "its agent ended; data.exit_code, null where nobody knows",
    "launch.failed": "it never came to be a session; data.why",
    "launch.expired": "its --timeout was over, and it is being ended for that",
    "hook.succeeded": "a hook of a launch ran",
    "hook.failed": "a hook of a launch failed, or took too long",
    "lock.acquired": "a directory is held",
    "lock.released": "it is free again; data.why",
    "lock.expired": "it is free again: its time was over",
    "fuse.set": "a fuse burns",
    "fuse.extended": "it burns for longer",
    "fuse.cancelled": "it was put out; data.why",
    "fuse.fired": "it has burned down, and its actions are done; data.results",
    "fuse.failed": "it has burned down, and an action failed; data.results",
    "webhook.delivered": "a delivery was taken",
    "webhook.dead": "a delivery was given up",
    "notify.delivered": "a notification was handed over",
    "notify.failed": "a notification could not be handed over",
    "notify.quiet": "a notification was not needed: somebody is there, or it came too late",
    "events.gap": "what happened between data.from and data.to may not have been seen; data.reason",
    "daemon.started": "somebody watches from here on",
    "daemon.stopped": "nobody watches from here on",
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
