"""When a notice is not needed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.deliver import suppress
from agentctl.state import db, journal
from agentctl.system import proc
from agentctl.truth.event import Event
from tests.sitting import sitting

NOW = 100_000.0


@pytest.fixture
def path(tmp_path: Path) -> str:
    database = str(tmp_path / "state.db")
    db.open_writable(database).close()
    return database


def append_event(
    path: str, kind: str, seen_at: float = NOW, at: float | None = None, **body: Any
) -> Event:
    event = Event(kind, seen_at, at, "pi", "s1", None, {"session": {}, **body})
    return event._replace(seq=journal.append_events(path, [event])[0])


@pytest.mark.parametrize(
    ("kind", "age", "at", "why"),
    [
        ("session.waiting", 30, None, None),
        ("session.waiting", 30, 40_000, None),  # it still waits
        ("session.waiting", 700, None, "too late: 11m ago"),
        ("session.stopped", 30, 30, None),
        ("session.stopped", 30, None, None),
        ("session.stopped", 30, 40_000, "too late: 11h ago"),  # seen when the daemon started
        ("session.stopped", 700, None, "too late: 11m ago"),
        ("session.waiting", -5000, None, None),  # the clock was set back
    ],
)
def test_an_old_event_is_dropped(
    path: str, kind: str, age: float, at: float | None, why: str | None
) -> None:
    event = append_event(path, kind, NOW - age, NOW - at if at is not None else None)
    assert suppress.drop_reason(path, "desk", event, NOW) == why


def test_a_wait_that_is_over_is_dropped(path: str) -> None:
    event = append_event(path, "session.waiting")
    append_event(path, "session.running")
    assert suppress.drop_reason(path, "desk", event, NOW) == "it has gone on: session.running"
    again = append_event(path, "session.waiting")
    assert suppress.drop_reason(path, "desk", event, NOW) == "it waits again"
    assert suppress.drop_reason(path, "desk", again, NOW) is None


def test_an_end_is_sent_though_the_session_was_resumed(path: str) -> None:
    event = append_event(path, "session.stopped")
    append_event(path, "session.started")
    assert suppress.drop_reason(path, "desk", event, NOW) is None


def make_waiting_event(address: str) -> Event:
    evidence = [{"claim": "waiting", "address": "/x"}, {"claim": "alive", "address": address}]
    return Event("session.waiting", NOW, body={"evidence": evidence})


def test_a_user_who_just_typed_is_present() -> None:
    with sitting() as one:
        one.typed_at(NOW - 20)
        assert suppress.is_user_present(make_waiting_event(one.identity.address), NOW)
        one.typed_at(NOW - 61)
        assert not suppress.is_user_present(make_waiting_event(one.identity.address), NOW)


def test_a_pid_alone_does_not_prove_presence() -> None:
    with sitting() as one:
        one.typed_at(NOW - 20)
        pid = one.identity.pid
        assert not suppress.is_user_present(make_waiting_event(f"proc:{pid}@1"), NOW)
        assert not suppress.is_user_present(
            Event("session.waiting", NOW, body={"session": {"pid": pid}}), NOW
        )


def test_without_a_terminal_no_user_is_present() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        address = proc.read_process(child.pid, proc.read_boot_id()).identity.address
        assert not suppress.is_user_present(make_waiting_event(address), NOW)
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize("address", ["proc:x@1", "/etc/passwd", "proc:1", "", None])
def test_an_address_of_no_process_has_no_owner(address: str | None) -> None:
    body = {"session": {"evidence": [{"claim": "alive", "address": address}]}}
    assert suppress.event_owner(body) is None


def test_the_address_may_be_with_the_session() -> None:
    body = {"session": {"evidence": [{"claim": "alive", "address": "proc:12@34"}]}}
    owner = suppress.event_owner(body)
    assert owner is not None
    assert (owner.pid, owner.start) == (12, 34)
