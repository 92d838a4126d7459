"""One sentence of what happened, that a person can read without knowing what a session is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST = 300  # characters: it is read on a telephone, too
_ENDED = {
    "completed": "has finished",
    "failed": "has failed",
    "interrupted": "was interrupted",
    "killed": "was killed",
}
_SESSIONS = {
    "session.started": "has started",
    "session.identified": "has begun a session",
    "session.running": "is at work",
    "session.idle": "rests: its turn is over",
    "session.unknown": "cannot be told about any more",
    "launch.started": "was launched",
    "launch.identified": "has begun a session",
    "launch.expired": "was ended: its time was over",
    "hook.succeeded": "is done with a hook",
}
_WAITS = {
    "permission": "needs your permission",
    "question": "has a question for you",
    "startup": "waits for you at its start",
}
_DIRECTORIES = {
    "lock.acquired": "was locked",
    "lock.released": "was released",
    "lock.expired": "is free: the lock on it ran out",
}
_FUSES = {
    "fuse.set": "was set",
    "fuse.extended": "was given more time",
    "fuse.cancelled": "was cancelled",
    "fuse.fired": "has fired",
    "fuse.failed": "has fired, and something failed",
}


def sentence(kind: str, known: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """`known`: the fields of the payload. Every event has one, whatever is known of it."""
    text = " ".join(_sentence(kind, known, data).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _sentence(kind: str, known: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    who = _who(known)
    if kind == "session.waiting":
        return f"{who} {_WAITS.get(known['waiting_for'], 'waits for you')}."
    if kind in ("session.stopped", "launch.ended"):
        return f"{who} {_ended(known)}{_after(known['duration_seconds'])}."
    if kind in ("launch.failed", "hook.failed"):
        what = "could not be launched" if kind == "launch.failed" else f"had its {_hook(data)} fail"
        return f"{who} {what}{_because(data)}."
    if kind in _SESSIONS:
        return f"{who} {_SESSIONS[kind]}."
    if kind in _DIRECTORIES:
        return f"{data.get('directory') or known['cwd'] or 'A directory'} {_DIRECTORIES[kind]}."
    if kind in _FUSES:
        label, place = data.get("label"), data.get("directory") or known["cwd"]
        named = f" {label!r}" if label else ""
        return f"The fuse{named}{f' on {place}' if place else ''} {_FUSES[kind]}."
    if kind == "webhook.test":
        return "This is a test: agentctl can reach you."
    return f"{kind}{f': {who}' if known['adapter'] else ''}."


def _who(known: Mapping[str, Any]) -> str:
    named = known["name"] or known["title"]
    cwd = known["cwd"]
    place = f" in {cwd.rstrip('/').rpartition('/')[2] or cwd}" if cwd else ""
    return f"{known['adapter'] or 'An agent'}{place}{f' ({named})' if named else ''}"


def _ended(known: Mapping[str, Any]) -> str:
    code = known["exit_status"]
    how = _ENDED.get(known["outcome"] or "", "has ended")
    if code is None or (code == 0 and how == "has finished"):
        return how
    return f"{how} ({f'signal {-code}' if code < 0 else f'exit code {code}'})"


def _after(seconds: float | None) -> str:
    if seconds is None:
        return ""
    from agentctl.durations import age

    return f" after {age(seconds)}"


def _hook(data: Mapping[str, Any]) -> str:
    return f"hook {data['hook']}" if data.get("hook") else "hook"


def _because(data: Mapping[str, Any]) -> str:
    why = data.get("why")
    return f": {str(why).rstrip('.')}" if why else ""
