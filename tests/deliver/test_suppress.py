"""When a person need not be told."""

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
    made = str(tmp_path / "state.db")
    db.open_writable(made).close()
    return made


def tell(path: str, kind: str, seen_at: float = NOW, at: float | None = None, **body: Any) -> Event:
    told = Event(kind, seen_at, at, "pi", "s1", None, {"session": {}, **body})
    return told._replace(seq=journal.record(path, [told])[0])


@pytest.mark.parametrize(
    ("kind", "seen", "at", "why"),
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
def test_too_late(path: str, kind: str, seen: float, at: float | None, why: str | None) -> None:
    event = tell(path, kind, NOW - seen, NOW - at if at is not None else None)
    assert suppress.reason(path, "desk", event, NOW) == why


def test_one_that_went_on(path: str) -> None:
    event = tell(path, "session.waiting")
    tell(path, "session.running")
    assert suppress.reason(path, "desk", event, NOW) == "it has gone on: session.running"
    again = tell(path, "session.waiting")
    assert suppress.reason(path, "desk", event, NOW) == "it waits anew"
    assert suppress.reason(path, "desk", again, NOW) is None


def test_an_end_is_told_also_if_it_was_resumed(path: str) -> None:
    event = tell(path, "session.stopped")
    tell(path, "session.started")
    assert suppress.reason(path, "desk", event, NOW) is None


def alive(address: str) -> Event:
    evidence = [{"claim": "waiting", "address": "/x"}, {"claim": "alive", "address": address}]
    return Event("session.waiting", NOW, body={"evidence": evidence})


def test_somebody_is_there_who_typed_a_moment_ago() -> None:
    with sitting() as one:
        one.typed_at(NOW - 20)
        assert suppress.there(alive(one.identity.address), NOW)
        one.typed_at(NOW - 61)
        assert not suppress.there(alive(one.identity.address), NOW)


def test_the_pid_alone_proves_nothing() -> None:
    with sitting() as one:
        one.typed_at(NOW - 20)
        pid = one.identity.pid
        assert not suppress.there(alive(f"proc:{pid}@1"), NOW)
        assert not suppress.there(Event("session.waiting", NOW, body={"session": {"pid": pid}}), NOW)


def test_without_a_terminal_nobody_is_there() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        address = proc.read_process(child.pid, proc.boot_id()).identity.address
        assert not suppress.there(alive(address), NOW)
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize("address", ["proc:x@1", "/etc/passwd", "proc:1", "", None])
def test_an_address_that_names_no_process(address: str | None) -> None:
    body = {"session": {"evidence": [{"claim": "alive", "address": address}]}}
    assert suppress.owner(body) is None


def test_the_process_may_be_named_with_the_session() -> None:
    body = {"session": {"evidence": [{"claim": "alive", "address": "proc:12@34"}]}}
    found = suppress.owner(body)
    assert found is not None
    assert (found.pid, found.start) == (12, 34)
