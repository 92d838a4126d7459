"""Law 3, of a wait that we only derive: it is unknown until it has held for a second, in an answer and
in the event stream alike. Each event agrees with the answer to a question at that moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.sessions import query
from agentctl.testing import Puppet, Stage
from agentctl.truth.event import Event
from agentctl.truth.observe import SETTLED_AFTER
from agentctl.truth.survey import HistoryQuery, Survey
from agentctl.watch.observer import Observer
from agentctl.watch.story import Story
from tests.fakes.codex import CodexStage
from tests.fakes.opencode import OpenCodeStage
from tests.fakes.stages import stages
from tests.waiting import until

DERIVING: list[type[Stage]] = [CodexStage, OpenCodeStage]
# Further steps after which we cannot tell whether a person is needed.
UNCERTAIN: dict[str, tuple[str, ...]] = {
    "codex": ("command", "mcp"),
    "opencode": ("slow webfetch",),
    "claude-code": ("dialog",),
}
STATUSES = ("session.running", "session.waiting", "session.idle", "session.stopped", "session.unknown")


class Stream:
    """An observer that the test drives. Each event is compared with the answer to a question then."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.events: list[Event] = []
        self.wrong: list[str] = []
        self.observer = Observer(Story(), self.receive_events, stage.environ)
        self.observer.begin(silent=True)

    def receive_events(self, events: list[Event]) -> None:
        self.events += events
        if not events:
            return
        rows = {s.observation.session_id: s.verdict for s in self.stage.survey(HistoryQuery()).sessions}
        # events before the last one of a session are out of date
        last = {e.subject: e for e in events if e.type in STATUSES}
        for subject, event in last.items():
            session, row = event.body["session"], rows.get(subject)
            if row is not None and (session["status"], session["activity"]) != (
                row.status,
                row.activity,
            ):
                self.wrong.append(f"{session['status']}, {session['activity']}; asked: {row}")

    def list_types(self, subject: str | None) -> list[str]:
        return [e.type for e in self.events if e.subject == subject]

    def run_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.observer.step(0.02)

    def wait_for(self, puppet: Puppet, status: str, activity: str) -> None:
        def is_reported() -> bool:
            self.observer.step(0.02)
            mine = [e for e in self.events if e.subject == puppet.session_id and e.type in STATUSES]
            session = mine[-1].body["session"] if mine else {}
            return (session.get("status"), session.get("activity")) == (status, activity)

        until(
            is_reported,
            f"{status}, {activity} is reported; so far: {self.list_types(puppet.session_id)}",
        )


@pytest.fixture
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stream]:
    stage: Stage = request.param(tmp_path)
    stream = Stream(stage)
    yield stream
    stream.observer.close()
    stage.close()


def on_each(kinds: list[type[Stage]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("stream", kinds, ids=lambda kind: kind.adapter, indirect=True)


def start_working(stream: Stream) -> Puppet:
    puppet = stream.stage.start()
    puppet.do("work")
    stream.wait_for(puppet, "running", "working")
    return puppet


@pytest.mark.few(1)
@on_each(DERIVING)
def test_a_short_wait_is_not_reported(stream: Stream) -> None:
    """The call of an allowed command looks like a question for a moment, until its output comes."""
    puppet = start_working(stream)
    for _ in range(10):
        asked_at = time.time()
        puppet.do("ask")
        stream.run_for(0.3)
        puppet.do("output" if stream.stage.adapter == "codex" else "rest")
        if time.time() - asked_at < 1.0:
            break
        stream.events.clear()  # a busy machine held it for too long: try again
        puppet.do("work")
    else:
        raise AssertionError("this machine is too busy to hold anything for less than a second")
    stream.run_for(2.0)
    assert "session.waiting" not in stream.list_types(puppet.session_id)
    assert stream.wrong == []


@pytest.mark.few(1)
@on_each(DERIVING)
def test_a_wait_that_holds_is_reported_once(stream: Stream) -> None:
    puppet = start_working(stream)
    puppet.do("ask")
    stream.wait_for(puppet, "waiting", "waiting")
    stream.run_for(2.0)
    assert stream.list_types(puppet.session_id).count("session.waiting") == 1
    assert stream.wrong == []


@pytest.mark.few(1)
@on_each(DERIVING)
def test_a_slow_look_reports_no_outdated_status(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look sees the wait unsettled, and returns after it has settled."""
    puppet = start_working(stream)
    puppet.do("ask")
    key, survey_sessions = (stream.stage.adapter, puppet.session_id or ""), query.survey_sessions

    slow_looks: list[float] = []

    def has_settled(since: float) -> bool:
        is_waiting = stream.stage.session(key[1]).verdict.status == "waiting"
        return is_waiting and time.monotonic() > since + SETTLED_AFTER

    def survey_slowly(query: HistoryQuery | None, adapters: tuple[str, ...], **options: Any) -> Survey:
        survey = survey_sessions(query, adapters, **options)
        since = stream.observer._doubted.get(key) if key[0] in adapters else None
        if since is not None:
            until(lambda: has_settled(since), "the wait has settled")
            slow_looks.append(since)
        return survey

    monkeypatch.setattr(query, "survey_sessions", survey_slowly)
    stream.wait_for(puppet, "waiting", "waiting")
    assert slow_looks, "no look was slow: the test proves nothing"
    assert stream.wrong == []


@pytest.mark.few(2)
@on_each(stages())
def test_the_stream_and_a_question_agree(stream: Stream) -> None:
    stage = stream.stage
    puppet = start_working(stream)
    for step in UNCERTAIN.get(stage.adapter, ()):
        puppet.do(step)
        stream.wait_for(puppet, "running", "unknown")
        puppet.do("rest")
        stream.wait_for(puppet, "idle", "idle")
        puppet.do("work")
        stream.wait_for(puppet, "running", "working")
    if stage.can_ask:
        puppet.do("ask")
        stream.wait_for(puppet, "waiting", "waiting")
    puppet.do("rest")
    stream.wait_for(puppet, "idle", "idle")
    assert stream.wrong == []
