"""The payload of a webhook: every field of its table, and none besides."""

from typing import Any

import pytest

from agentctl.system.clock import parse
from agentctl.truth.event import Event
from agentctl.truth.event_types import TYPES
from agentctl.wire import webhook as payload
from agentctl.wire.webhook import PAYLOAD_FIELDS, webhook

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


def _stopped(**more: Any) -> Event:
    at = parse("2026-11-15T10:01:30.500Z")
    assert at is not None
    evidence = [{"claim": "gone", "address": "proc:12@9", "note": "x"}]
    body = {"session": {**SESSION, **more}, "evidence": evidence, "data": {}}
    return Event("session.stopped", at + 1, at, "demo", "s1", "g", body, 42)


def test_a_session_that_ended() -> None:
    made = webhook(_stopped(), "d1")
    assert made == {
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


def test_exit_0_is_no_absence() -> None:
    assert webhook(_stopped(exit_code=0), "d")["exit_status"] == 0
    assert webhook(_stopped(exit_code=None), "d")["exit_status"] is None


@pytest.mark.parametrize("kind", [*TYPES, "user.deploy", payload.TEST])
@pytest.mark.parametrize("body", [{}, {"session": SESSION}, {"data": {"directory": "/x", "why": "so"}}])
def test_every_event_has_every_field_and_a_sentence(kind: str, body: dict[str, Any]) -> None:
    made = webhook(Event(kind, 1.0, body=body), "d")
    assert list(made) == [name for name, _, _ in PAYLOAD_FIELDS]
    assert made["summary"].endswith(".")
    assert "None" not in made["summary"]


def test_a_launch_tells_what_it_knows() -> None:
    data = {"launch": "l1", "name": "n", "cwd": "/x", "pid": 5, "exit_code": -9}
    made = webhook(Event("launch.ended", 1.0, None, "demo", "s1", "g", {"data": data}), "d")
    assert [made[name] for name in ("session_id", "launch_id", "name", "cwd", "pid", "exit_status")] == [
        "s1", "l1", "n", "/x", 5, -9,
    ]  # fmt: skip
    assert made["timestamp"] == made["seen_at"]


def test_a_directory_is_no_session() -> None:
    made = webhook(
        Event("lock.acquired", 1.0, None, None, "/x", None, {"data": {"directory": "/x"}}), "d"
    )
    assert (made["session_id"], made["cwd"]) == (None, "/x")


def test_a_process_without_a_session_has_no_id() -> None:
    made = webhook(
        Event("session.started", 1.0, None, "demo", "proc:1@2", None, {"session": {"id": None}}), "d"
    )
    assert made["session_id"] is None


def test_the_test_has_no_number() -> None:
    made = webhook(payload.test_event(5.0), "d")
    assert (made["hook_type"], made["seq"]) == ("webhook.test", None)
