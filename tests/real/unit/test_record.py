"""The record of a play survives being written and read, and its notifications really arrive."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from agentctl.config import settings as config
from agentctl.deliver import notice
from agentctl.deliver.notify import send_notice
from agentctl.rehearsal.model.journal import Journal
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.event import Event
from tests.real.accuracy.record import (
    ModelRequest,
    Notification,
    Record,
    decode,
    encode,
    model_request,
    read_notifications,
    stream_event,
    write_notify_settings,
)
from tests.real.accuracy.timeline import Timeline
from tests.real.actor import make_prompt
from tests.real.book import State, Who

WHO = Who("one", "codex", ProcessIdentity("boot", 7, 70), "id-1")


def event(kind: str, **session: str) -> Event:
    body = {"session": session, "data": {"process": "proc:7@70"}}
    return Event(kind, 10.0, None, "codex", "id-1", body=body, seq=3)


def test_a_record_is_read_as_it_was_written() -> None:
    timeline = Timeline(hold=0.0)
    timeline.unsettled(WHO._replace(process=None), 9.0)
    timeline.declare(WHO, State("waiting", waiting_for="permission"), 10.0)
    timeline.record_end(WHO, 11.0)
    data = {"from": "1970-01-01T00:00:01Z", "to": "1970-01-01T00:00:02Z", "reason": "why"}
    gap = Event("events.gap", 12.0, body={"data": data}, seq=4)
    record = Record(
        timeline.actors,
        [
            stream_event(event("session.waiting", waiting_for="permission", reason="asks")),
            stream_event(gap),
        ],
        frozenset({"one"}),
        {"one": ("m1x1",)},
        [ModelRequest(9.5, "asked", ("m1x1",))],
        [Notification(10.1, 3, "waiting")],
    )
    again = decode(json.loads(json.dumps(encode(record))))
    assert again[1:] == record[1:]
    (one,) = again.actors.values()
    assert (one.entries, one.died_at) == (timeline.actors["one"].entries, 11.0)
    assert again.events[1].span == (1.0, 2.0)


def test_a_request_keeps_the_marks_of_its_prompts() -> None:
    mark, prompt = make_prompt("[[gate=%]] count")
    journal = Journal()
    assert set(model_request(journal.add("asked", prompt)).marks) == {mark}
    assert model_request(journal.add("asked", "a turn of its own")).marks == ()


def test_a_notification_is_written(tmp_path: Path) -> None:
    settings, lines = tmp_path / "home" / "config.toml", tmp_path / "lines"
    assert read_notifications(lines) == []
    write_notify_settings(settings, lines)
    environ = {
        "AGENTCTL_HOME": str(settings.parent),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    target = config.load(environ).notify["driver"]
    stop = event("session.stopped", outcome="failed", status="stopped", adapter="codex")
    before = time.time()
    assert send_notice(notice.make_notice(stop), target, environ).outcome == "delivered"
    ((at, seq, word),) = read_notifications(lines)
    assert (seq, word) == (3, "failed")
    assert before <= at <= time.time()
