"""The soak can fail: whatever is missing, doubled or wrong is complained of."""

from __future__ import annotations

from typing import Any

from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event
from agentctl.watch.observer import AWAY
from tests.soak import reconcile
from tests.soak.book import Book, Fuse, Held, Launch, Lock, Run, Watch
from tests.soak.flapping import Got

PLACE, LAUNCH, SESSION = "/place/1", "1a", "s1"


def numbered(*events: Event) -> reconcile.Told:
    return [(float(n), event._replace(seq=n)) for n, event in enumerate(events, 1)]


def told(kind: str, subject: str | None = SESSION, **body: Any) -> Event:
    return Event(kind, 0.0, 0.0, "demo", subject, None, {"data": {}, **body})


def ended(code: int | None = 3, outcome: str = "failed") -> Event:
    return told("session.stopped", session={"exit_code": code, "outcome": outcome, "cwd": PLACE})


def launched() -> Book:
    run = Run("demo", 0.0, SESSION, None, 1.0, 2.0, 2.0, 3, frozenset({"failed"}), LAUNCH)
    return Book(runs=[run], launches=[Launch(PLACE, 0.0, 1.0, LAUNCH, 0, "", run)])


def of_launch(kind: str, **data: Any) -> Event:
    return told(kind, data={"launch": LAUNCH, "cwd": PLACE, **data})


STARTED, ENDED = of_launch("launch.started"), of_launch("launch.ended", exit_code=3)
HOOK = of_launch("hook.succeeded")
LINES = ["create 1a s1 ", "complete 1a s1 3"]


def test_an_end_is_told_once_and_as_it_was() -> None:
    book = launched()
    assert list(reconcile.sessions(book, numbered(ended()))) == []
    for wrong in ((), (ended(), ended()), (ended(0),), (ended(3, "completed"),), (ended(None),)):
        assert list(reconcile.sessions(book, numbered(*wrong)))


def test_one_that_lived_too_briefly_may_go_unseen() -> None:
    run = Run("demo", 0.0, SESSION, "proc:7@7", 1.0, 1.4, 1.5, 0, frozenset({"completed"}))
    assert list(reconcile.sessions(Book(runs=[run]), [])) == []
    run.gone = 3.0
    assert list(reconcile.sessions(Book(runs=[run]), []))


def test_nobody_is_told_of_whom_nobody_knows() -> None:
    strange = told("session.started", "s2", session={"cwd": "/elsewhere"})
    (complaint,) = reconcile.sessions(launched(), numbered(ended(), strange))
    assert "s2" in complaint
    nameless, named = (
        told("session.running", "proc:7@7"),
        told("session.identified", data={"was": "proc:7@7"}),
    )
    assert list(reconcile.sessions(launched(), numbered(nameless, ended())))
    assert list(reconcile.sessions(launched(), numbered(nameless, named, ended()))) == []


def test_a_state_that_was_watched_is_told() -> None:
    run = Run("demo", 0.0, SESSION, "proc:7@7", 0.0, 20.0, 20.0, 0, frozenset({"completed"}))
    run.held.append(Held("waiting", 5.0, 15.0))
    book = Book(runs=[run], watches=[Watch(1, 0.0, 0.0)])
    said = [(6.0, told("session.waiting")), (20.0, ended(0, "completed"))]
    assert list(reconcile.sessions(book, said)) == []
    late = [(16.0, told("session.waiting")), (20.0, ended(0, "completed"))]
    assert list(reconcile.sessions(book, late))
    book.watches[0].killed = 14.0  # nobody could see it
    assert list(reconcile.sessions(book, late)) == []


def test_after_the_clock_was_set_some_do_not_tell_what_they_do() -> None:
    run = Run("codex", 0.0, SESSION, "proc:7@7", 0.0, 20.0, 20.0, 0, frozenset({"completed"}))
    run.held.append(Held("waiting", 5.0, 15.0))
    book = Book(runs=[run], watches=[Watch(1, 0.0, 0.0)])
    said = [(6.0, told("session.idle")), (20.0, ended(0, "completed"))]
    assert list(reconcile.sessions(book, said))
    book.steps.append((16.0, 3600.0))
    assert list(reconcile.sessions(book, said)), "that came later"
    book.steps.append((4.0, -3600.0))
    assert list(reconcile.sessions(book, said)) == []
    run.adapter = "demo"
    assert list(reconcile.sessions(book, said))


def test_each_daemon_is_told_of_and_each_gap() -> None:
    book = Book(watches=[Watch(7, 0.0, 0.0, 1.0), Watch(8, 2.0, 2.0)])
    first, second = (told("daemon.started", None, data={"pid": pid}) for pid in (7, 8))
    gap = told("events.gap", None, data={"reason": AWAY})
    assert list(reconcile.watching(book, numbered(first, second, gap))) == []
    for wrong in ((first, second), (first, gap), (first, second, gap, gap), (first, first, second, gap)):
        assert list(reconcile.watching(book, numbered(*wrong)))


def test_a_launch_begins_and_ends_once_with_its_hooks() -> None:
    book, right = launched(), (STARTED, HOOK, ENDED, HOOK)
    assert list(reconcile.launches(book, numbered(*right), LINES)) == []
    for wrong in (right[1:], right[:3], (*right, ENDED), (*right, of_launch("launch.expired"))):
        assert list(reconcile.launches(book, numbered(*wrong), LINES))
    for lines in (LINES[:1], [*LINES, LINES[1]], [LINES[0], "complete 1a s1 0"]):
        assert list(reconcile.launches(book, numbered(*right), lines))
    strange = told("launch.started", data={"launch": "2b", "cwd": "/elsewhere"})
    assert list(reconcile.launches(book, numbered(*right, strange), LINES))


def test_a_launch_that_failed_has_no_end_left_open() -> None:
    book = Book(launches=[Launch(PLACE, 0.0, 1.0, None, 1, "", None, expected="failed")])
    failed = of_launch("launch.failed")
    assert list(reconcile.launches(book, numbered(STARTED, failed), [])) == []
    assert list(reconcile.launches(book, numbered(STARTED), []))


def test_a_fuse_burns_down_once_or_is_put_out() -> None:
    lit, fired, cancelled = (
        told(f"fuse.{w}", data={"fuse": "f"}) for w in ("set", "fired", "cancelled")
    )
    burning = Book(fuses=[Fuse(PLACE, "f", "run")])
    assert list(reconcile.fuses(burning, numbered(lit, fired), ["f"])) == []
    for events, lines in (((lit,), ["f"]), ((lit, fired, fired), ["f"]), ((lit, fired), ["f", "f"])):
        assert list(reconcile.fuses(burning, numbered(*events), lines))
    out = Book(fuses=[Fuse(PLACE, "f", "cancel", settled=True)])
    assert list(reconcile.fuses(out, numbered(lit, cancelled), [])) == []
    assert list(reconcile.fuses(out, numbered(lit, cancelled), ["f"]))


def test_what_is_locked_is_freed() -> None:
    book = Book(locks=[Lock(PLACE, "expired")])
    taken, expired, released = (told(f"lock.{w}", PLACE) for w in ("acquired", "expired", "released"))
    assert list(reconcile.locks(book, numbered(taken, expired))) == []
    for wrong in ((taken,), (taken, released), (taken, expired, expired)):
        assert list(reconcile.locks(book, numbered(*wrong)))


def test_every_wanted_event_is_delivered() -> None:
    events = numbered(STARTED, ENDED)
    sent = [
        Delivery(f"d{seq}", "webhook", "t", None, seq, 0, 0, None, None, 1, "delivered", None, None)
        for seq in (1, 2)
    ]
    got = [Got(f"d{seq}", seq, "launch.started", True, b"{}") for seq in (1, 2)]
    assert list(reconcile.deliveries(events, sent, got)) == []
    assert list(reconcile.deliveries(events, sent, [*got, got[0]])) == []  # at least once
    other = got[0]._replace(body=b"[]")
    refused = got[1]._replace(taken=False)
    for arrived in (got[:1], [*got, other], [got[0], refused], [*got, got[0]._replace(delivery="x")]):
        assert list(reconcile.deliveries(events, sent, arrived))
    for written in (sent[:1], [*sent, sent[1]], [sent[0], sent[1]._replace(state="dead")]):
        assert list(reconcile.deliveries(events, written, got))


def test_the_list_agrees() -> None:
    row = {"id": SESSION, "status": "stopped", "outcome": "failed", "exit_code": 3, "cwd": PLACE}
    assert list(reconcile.list_of_all(launched(), [row])) == []
    for wrong in ([], [row, row], [{**row, "status": "running"}], [{**row, "exit_code": 0}]):
        assert list(reconcile.list_of_all(launched(), wrong))
    assert list(reconcile.list_of_all(launched(), [row, {**row, "id": "s2"}]))


def test_no_number_is_left_out() -> None:
    events = numbered(STARTED, ENDED)
    assert list(reconcile.journal(events)) == []
    assert list(reconcile.journal(events[1:]))
