"""The soak can fail: it complains of whatever is missing, doubled or wrong."""

from __future__ import annotations

from typing import Any

from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event
from agentctl.watch.observer import AWAY
from tests.soak import reconcile
from tests.soak.book import Book, Fuse, Launch, Lock, Run, State, Watch
from tests.soak.flapping import Arrival

PLACE, LAUNCH, SESSION = "/place/1", "1a", "s1"


def numbered(*events: Event) -> reconcile.Timeline:
    return [(float(n), event._replace(seq=n)) for n, event in enumerate(events, 1)]


def make_event(kind: str, subject: str | None = SESSION, **body: Any) -> Event:
    return Event(kind, 0.0, 0.0, "demo", subject, None, {"data": {}, **body})


def make_end(code: int | None = 3, outcome: str = "failed") -> Event:
    return make_event("session.stopped", session={"exit_code": code, "outcome": outcome, "cwd": PLACE})


def make_book() -> Book:
    run = Run("demo", 0.0, SESSION, None, 1.0, 2.0, 2.0, 3, frozenset({"failed"}), LAUNCH)
    return Book(runs=[run], launches=[Launch(PLACE, 0.0, 1.0, LAUNCH, 0, "", run)])


def make_launch_event(kind: str, **data: Any) -> Event:
    return make_event(kind, data={"launch": LAUNCH, "cwd": PLACE, **data})


STARTED, ENDED = make_launch_event("launch.started"), make_launch_event("launch.ended", exit_code=3)
HOOK = make_launch_event("hook.succeeded")
LINES = ["create 1a s1 ", "complete 1a s1 3"]


def test_an_end_comes_once_and_is_correct() -> None:
    book = make_book()
    assert list(reconcile.check_sessions(book, numbered(make_end()))) == []
    for wrong in (
        (),
        (make_end(), make_end()),
        (make_end(0),),
        (make_end(3, "completed"),),
        (make_end(None),),
    ):
        assert list(reconcile.check_sessions(book, numbered(*wrong)))


def test_a_brief_run_may_be_missed() -> None:
    run = Run("demo", 0.0, SESSION, "proc:7@7", 1.0, 1.4, 1.5, 0, frozenset({"completed"}))
    assert list(reconcile.check_sessions(Book(runs=[run]), [])) == []
    run.gone_by = 3.0
    assert list(reconcile.check_sessions(Book(runs=[run]), []))


def test_an_unknown_session_is_a_complaint() -> None:
    strange = make_event("session.started", "s2", session={"cwd": "/elsewhere"})
    (complaint,) = reconcile.check_sessions(make_book(), numbered(make_end(), strange))
    assert "s2" in complaint
    nameless, identified = (
        make_event("session.running", "proc:7@7"),
        make_event("session.identified", data={"was": "proc:7@7"}),
    )
    assert list(reconcile.check_sessions(make_book(), numbered(nameless, make_end())))
    assert list(reconcile.check_sessions(make_book(), numbered(nameless, identified, make_end()))) == []


def test_a_watched_state_has_an_event() -> None:
    run = Run("demo", 0.0, SESSION, "proc:7@7", 0.0, 20.0, 20.0, 0, frozenset({"completed"}))
    run.states.append(State("waiting", 5.0, 15.0))
    book = Book(runs=[run], watches=[Watch(1, 0.0, 0.0)])
    in_time = [(6.0, make_event("session.waiting")), (20.0, make_end(0, "completed"))]
    assert list(reconcile.check_sessions(book, in_time)) == []
    late = [(16.0, make_event("session.waiting")), (20.0, make_end(0, "completed"))]
    assert list(reconcile.check_sessions(book, late))
    book.watches[0].killed = 14.0  # no daemon could see it
    assert list(reconcile.check_sessions(book, late)) == []


def test_some_states_are_not_compared_after_the_clock_was_set() -> None:
    run = Run("codex", 0.0, SESSION, "proc:7@7", 0.0, 20.0, 20.0, 0, frozenset({"completed"}))
    run.states.append(State("waiting", 5.0, 15.0))
    book = Book(runs=[run], watches=[Watch(1, 0.0, 0.0)])
    events = [(6.0, make_event("session.idle")), (20.0, make_end(0, "completed"))]
    assert list(reconcile.check_sessions(book, events))
    book.steps.append((16.0, 3600.0))
    assert list(reconcile.check_sessions(book, events)), "the clock was set later"
    book.steps.append((4.0, -3600.0))
    assert list(reconcile.check_sessions(book, events)) == []
    run.adapter = "demo"
    assert list(reconcile.check_sessions(book, events))


def test_each_daemon_and_each_gap_has_an_event() -> None:
    book = Book(watches=[Watch(7, 0.0, 0.0, 1.0), Watch(8, 2.0, 2.0)])
    first, second = (make_event("daemon.started", None, data={"pid": pid}) for pid in (7, 8))
    gap = make_event("events.gap", None, data={"reason": AWAY})
    assert list(reconcile.check_daemons(book, numbered(first, second, gap))) == []
    for wrong in ((first, second), (first, gap), (first, second, gap, gap), (first, first, second, gap)):
        assert list(reconcile.check_daemons(book, numbered(*wrong)))


def test_a_launch_begins_and_ends_once_with_its_hooks() -> None:
    book, right = make_book(), (STARTED, HOOK, ENDED, HOOK)
    assert list(reconcile.check_launches(book, numbered(*right), LINES)) == []
    for wrong in (right[1:], right[:3], (*right, ENDED), (*right, make_launch_event("launch.expired"))):
        assert list(reconcile.check_launches(book, numbered(*wrong), LINES))
    for lines in (LINES[:1], [*LINES, LINES[1]], [LINES[0], "complete 1a s1 0"]):
        assert list(reconcile.check_launches(book, numbered(*right), lines))
    strange = make_event("launch.started", data={"launch": "2b", "cwd": "/elsewhere"})
    assert list(reconcile.check_launches(book, numbered(*right, strange), LINES))


def test_a_failed_launch_is_not_left_open() -> None:
    book = Book(launches=[Launch(PLACE, 0.0, 1.0, None, 1, "", None, expected="failed")])
    failed = make_launch_event("launch.failed")
    assert list(reconcile.check_launches(book, numbered(STARTED, failed), [])) == []
    assert list(reconcile.check_launches(book, numbered(STARTED), []))


def test_a_fuse_fires_once_or_is_cancelled() -> None:
    set_, fired, cancelled = (
        make_event(f"fuse.{w}", data={"fuse": "f"}) for w in ("set", "fired", "cancelled")
    )
    book = Book(fuses=[Fuse(PLACE, "f", "run")])
    assert list(reconcile.check_fuses(book, numbered(set_, fired), ["f"])) == []
    for events, lines in (((set_,), ["f"]), ((set_, fired, fired), ["f"]), ((set_, fired), ["f", "f"])):
        assert list(reconcile.check_fuses(book, numbered(*events), lines))
    other = Book(fuses=[Fuse(PLACE, "f", "cancel", settled=True)])
    assert list(reconcile.check_fuses(other, numbered(set_, cancelled), [])) == []
    assert list(reconcile.check_fuses(other, numbered(set_, cancelled), ["f"]))


def test_every_lock_is_freed() -> None:
    book = Book(locks=[Lock(PLACE, "expired")])
    acquired, expired, released = (
        make_event(f"lock.{w}", PLACE) for w in ("acquired", "expired", "released")
    )
    assert list(reconcile.check_locks(book, numbered(acquired, expired))) == []
    for wrong in ((acquired,), (acquired, released), (acquired, expired, expired)):
        assert list(reconcile.check_locks(book, numbered(*wrong)))


def test_every_event_is_delivered() -> None:
    events = numbered(STARTED, ENDED)
    outbox = [
        Delivery(f"d{seq}", "webhook", "t", None, seq, 0, 0, None, None, 1, "delivered", None, None)
        for seq in (1, 2)
    ]
    arrivals = [Arrival(f"d{seq}", seq, "launch.started", True, b"{}") for seq in (1, 2)]
    assert list(reconcile.check_deliveries(events, outbox, arrivals)) == []
    assert (
        list(reconcile.check_deliveries(events, outbox, [*arrivals, arrivals[0]])) == []
    )  # at least once
    other = arrivals[0]._replace(body=b"[]")
    refused = arrivals[1]._replace(accepted=False)
    for wrong in (
        arrivals[:1],
        [*arrivals, other],
        [arrivals[0], refused],
        [*arrivals, arrivals[0]._replace(delivery="x")],
    ):
        assert list(reconcile.check_deliveries(events, outbox, wrong))
    for wrong_outbox in (
        outbox[:1],
        [*outbox, outbox[1]],
        [outbox[0], outbox[1]._replace(state="dead")],
    ):
        assert list(reconcile.check_deliveries(events, wrong_outbox, arrivals))


def test_the_list_agrees() -> None:
    row = {"id": SESSION, "status": "stopped", "outcome": "failed", "exit_code": 3, "cwd": PLACE}
    assert list(reconcile.check_list(make_book(), [row])) == []
    for wrong in ([], [row, row], [{**row, "status": "running"}], [{**row, "exit_code": 0}]):
        assert list(reconcile.check_list(make_book(), wrong))
    assert list(reconcile.check_list(make_book(), [row, {**row, "id": "s2"}]))


def test_a_missing_number_is_a_complaint() -> None:
    events = numbered(STARTED, ENDED)
    assert list(reconcile.check_journal(events)) == []
    assert list(reconcile.check_journal(events[1:]))
