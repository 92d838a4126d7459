"""Sentences for people."""

from typing import Any

import pytest

from agentctl.wire.summary import LONGEST, sentence

NOTHING: dict[str, Any] = dict.fromkeys(
    ("adapter", "cwd", "name", "title", "waiting_for", "outcome", "exit_status", "duration_seconds")
)
CODEX = {**NOTHING, "adapter": "codex", "cwd": "/home/me/shop"}


@pytest.mark.parametrize(
    ("kind", "known", "data", "said"),
    [
        ("session.waiting", {"waiting_for": "permission"}, {}, "codex in shop needs your permission."),
        ("session.waiting", {}, {}, "codex in shop waits for you."),
        ("session.idle", {"title": "Fix it"}, {}, "codex in shop (Fix it) rests: its turn is over."),
        ("session.stopped", {"outcome": "completed", "exit_status": 0, "duration_seconds": 7300.0}, {},
         "codex in shop has finished after 2h."),
        ("session.stopped", {"outcome": "killed", "exit_status": -9}, {},
         "codex in shop was killed (signal 9)."),
        ("session.stopped", {"outcome": "unknown"}, {}, "codex in shop has ended."),
        ("launch.failed", {}, {"why": "no login."}, "codex in shop could not be launched: no login."),
        ("hook.failed", {}, {"hook": "on-complete"}, "codex in shop had its hook on-complete fail."),
        ("fuse.fired", {}, {"label": "lunch"}, "The fuse 'lunch' on /home/me/shop has fired."),
        ("lock.expired", {}, {"directory": "/x"}, "/x is free: the lock on it ran out."),
        ("user.deploy", {}, {}, "user.deploy: codex in shop."),
        ("daemon.started", NOTHING, {}, "daemon.started."),
        ("session.started", {**NOTHING, "cwd": "/"}, {}, "An agent in / has started."),
    ],
)  # fmt: skip
def test_said(kind: str, known: dict[str, Any], data: dict[str, Any], said: str) -> None:
    assert sentence(kind, {**CODEX, **known}, data) == said


def test_it_is_one_line_and_short() -> None:
    said = sentence("session.idle", {**CODEX, "title": "a\n\tb " * 500}, {})
    assert len(said) == LONGEST
    assert "\n" not in said
