"""The payload of a webhook: every field of its table, and no other."""

from typing import Any

import pytest

from agentctl.system.clock import parse_time
from agentctl.truth.event import TYPES, Event
from agentctl.wire import webhook as payload
from agentctl.wire.webhook import LONGEST, PAYLOAD_FIELDS, make_payload, summarize

SESSION: dict[str, Any] = {
    "id": "s1",
    "status": "stopped",
    "outcome": "failed",
    "waiting_for": None,
    "exit_code": 3,
    "cwd": "/home/me/shop",
    "started_at": "2026-11-15T10:00:00.000Z",
    "pid": 12,
    "host": "box",
    "title": "Fix it",
    "model": "m",
    "cost_usd": 0.5,
    "launch": {"id": "l1", "name": "nightly", "group": "g", "meta": {"ticket": "7"}},
}


def _make_stopped_event(**more: Any) -> Event:
    at = parse_time("2026-11-15T10:01:30.500Z")
    assert at is not None
    evidence = [{"claim": "gone", "address": "proc:12@9", "note": "x"}]
    body = {"session": {**SESSION, **more}, "evidence": evidence, "data": {}}
    return Event("session.stopped", at + 1, at, "demo", "s1", "g", body, 42)


def test_the_payload_of_an_ended_session() -> None:
    sent = make_payload(_make_stopped_event(), "d1")
    assert sent == {
        "version": 1,
        "hook_type": "session.stopped",
        "delivery_id": "d1",
        "seq": 42,
        "timestamp": "2026-11-15T10:01:30.500Z",
        "seen_at": "2026-11-15T10:01:31.500Z",
        "summary": "demo in shop (nightly) has failed (exit code 3) after 1m.",
        "session_id": "s1",
        "adapter": "demo",
        "status": "stopped",
        "waiting_for": None,
        "outcome": "failed",
        "exit_status": 3,
        "duration_seconds": 90.5,
        "cwd": "/home/me/shop",
        "title": "Fix it",
        "model": "m",
        "cost_usd": 0.5,
        "pid": 12,
        "host": "box",
        "launch_id": "l1",
        "name": "nightly",
        "group": "g",
        "meta": {"ticket": "7"},
        "evidence": [{"claim": "gone", "address": "proc:12@9"}],
        "data": {},
    }


def test_exit_code_0_is_not_null() -> None:
    assert make_payload(_make_stopped_event(exit_code=0), "d")["exit_status"] == 0
    assert make_payload(_make_stopped_event(exit_code=None), "d")["exit_status"] is None


@pytest.mark.parametrize("kind", [*TYPES, "user.deploy", payload.TEST])
@pytest.mark.parametrize("body", [{}, {"session": SESSION}, {"data": {"directory": "/x", "why": "so"}}])
def test_every_event_has_every_field_and_a_sentence(kind: str, body: dict[str, Any]) -> None:
    sent = make_payload(Event(kind, 1.0, body=body), "d")
    assert list(sent) == [name for name, _, _ in PAYLOAD_FIELDS]
    assert sent["summary"].endswith(".")
    assert "None" not in sent["summary"]


def test_the_payload_of_a_launch() -> None:
    data = {"launch": "l1", "name": "n", "cwd": "/x", "pid": 5, "exit_code": -9}
    sent = make_payload(Event("launch.ended", 1.0, None, "demo", "s1", "g", {"data": data}), "d")
    assert [sent[name] for name in ("session_id", "launch_id", "name", "cwd", "pid", "exit_status")] == [
        "s1", "l1", "n", "/x", 5, -9,
    ]  # fmt: skip
    assert sent["timestamp"] == sent["seen_at"]


def test_a_directory_is_no_session() -> None:
    sent = make_payload(
        Event("lock.acquired", 1.0, None, None, "/x", None, {"data": {"directory": "/x"}}), "d"
    )
    assert (sent["session_id"], sent["cwd"]) == (None, "/x")


def test_a_process_without_a_session_has_no_id() -> None:
    sent = make_payload(
        Event("session.started", 1.0, None, "demo", "proc:1@2", None, {"session": {"id": None}}), "d"
    )
    assert sent["session_id"] is None


def test_a_test_event_has_no_number() -> None:
    sent = make_payload(payload.test_event(5.0), "d")
    assert (sent["hook_type"], sent["seq"]) == ("webhook.test", None)


NOTHING: dict[str, Any] = dict.fromkeys(
    ("adapter", "cwd", "name", "title", "waiting_for", "outcome", "exit_status", "duration_seconds")
)
CODEX = {**NOTHING, "adapter": "codex", "cwd": "/home/me/shop"}


@pytest.mark.parametrize(
    ("kind", "fields", "data", "summary"),
    [
        ("session.waiting", {"waiting_for": "permission"}, {}, "codex in shop needs your permission."),
        ("session.waiting", {}, {}, "codex in shop waits for you."),
        ("session.idle", {"title": "Fix it"}, {}, "codex in shop (Fix it) is idle: its turn is over."),
        ("session.stopped", {"outcome": "completed", "exit_status": 0, "duration_seconds": 7300.0}, {},
         "codex in shop has finished after 2h."),
        ("session.stopped", {"outcome": "killed", "exit_status": -9}, {},
         "codex in shop was killed (signal 9)."),
        ("session.stopped", {"outcome": "unknown"}, {}, "codex in shop has ended."),
        ("launch.failed", {}, {"why": "no login."}, "codex in shop could not be launched: no login."),
        ("hook.failed", {}, {"hook": "on-complete"}, "codex in shop: its hook on-complete failed."),
        ("fuse.fired", {}, {"label": "lunch"}, "The fuse 'lunch' on /home/me/shop has fired."),
        ("lock.expired", {}, {"directory": "/x"}, "/x is free: its lock has expired."),
        ("user.deploy", {}, {}, "user.deploy: codex in shop."),
        ("daemon.started", NOTHING, {}, "daemon.started."),
        ("session.started", {**NOTHING, "cwd": "/"}, {}, "An agent in / has started."),
    ],
)  # fmt: skip
def test_summaries(kind: str, fields: dict[str, Any], data: dict[str, Any], summary: str) -> None:
    assert summarize(kind, {**CODEX, **fields}, data) == summary


def test_a_summary_is_one_short_line() -> None:
    summary = summarize("session.idle", {**CODEX, "title": "a\n\tb " * 500}, {})
    assert len(summary) == LONGEST
    assert "\n" not in summary
