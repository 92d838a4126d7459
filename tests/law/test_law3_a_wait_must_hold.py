"""Law 3, of a wait that no source says outright: unknown until it has held for a second, when asked and
in the event stream alike. Whatever the stream tells is what a question at that moment is answered."""

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
from agentctl.truth.survey import Survey, Wanted
from agentctl.watch.observer import Observer
from agentctl.watch.story import Story
from tests.fakes.codex import CodexStage
from tests.fakes.opencode import OpenCodeStage
from tests.fakes.stages import stages
from tests.waiting import until

DERIVING: list[type[Stage]] = [CodexStage, OpenCodeStage]
# Further steps in which nobody can tell whether a person is needed.
UNTOLD: dict[str, tuple[str, ...]] = {
    "codex": ("command", "mcp"),
    "opencode": ("slow webfetch",),
    "claude-code": ("dialog",),
}
STATUSES = ("session.running", "session.waiting", "session.idle", "session.stopped", "session.unknown")


class Stream:
    """An observer that the test drives, and what a question is answered when it tells something."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.events: list[Event] = []
        self.wrong: list[str] = []
        self.observer = Observer(Story(), self.hear, stage.environ)
        self.observer.begin(silent=True)

    def hear(self, events: list[Event]) -> None:
        self.events += events
        if not events:
            return
        rows = {s.seen.session_id: s.verdict for s in self.stage.survey(Wanted()).sessions}
        last = {e.subject: e for e in events if e.type in STATUSES}  # before it only what led there
        for subject, event in last.items():
            said, row = event.body["session"], rows.get(subject)
            if row is not None and (said["status"], said["activity"]) != (row.status, row.activity):
                self.wrong.append(f"{said['status']}, {said['activity']}; asked: {row}")

    def kinds(self, subject: str | None) -> list[str]:
        return [e.type for e in self.events if e.subject == subject]

    def runs_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.observer.step(0.02)

    def until(self, puppet: Puppet, status: str, activity: str) -> None:
        def told() -> bool:
            self.observer.step(0.02)
            mine = [e for e in self.events if e.subject == puppet.session_id and e.type in STATUSES]
            said = mine[-1].body["session"] if mine else {}
            return (said.get("status"), said.get("activity")) == (status, activity)

        until(told, f"{status}, {activity} is told; told was {self.kinds(puppet.session_id)}")


@pytest.fixture
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stream]:
    stage: Stage = request.param(tmp_path)
    made = Stream(stage)
    yield made
    made.observer.close()
    stage.close()


def each(kinds: list[type[Stage]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("stream", kinds, ids=lambda kind: kind.adapter, indirect=True)


def at_work(stream: Stream) -> Puppet:
    puppet = stream.stage.start()
    puppet.do("work")
    stream.until(puppet, "running", "working")
    return puppet


@each(DERIVING)
def test_what_looks_like_a_wait_for_a_moment_is_not_told(stream: Stream) -> None:
    """An allowed command: for a moment its call looks as if it were asked about, then it is answered."""
    puppet = at_work(stream)
    for _ in range(10):
        asked = time.time()
        puppet.do("ask")
        stream.runs_for(0.3)
        puppet.do("output" if stream.stage.adapter == "codex" else "rest")
        if time.time() - asked < 1.0:
            break
        stream.events.clear()  # on a busy machine it has held for longer: once more
        puppet.do("work")
    else:
        raise AssertionError("this machine is too busy to hold anything for less than a second")
    stream.runs_for(2.0)
    assert "session.waiting" not in stream.kinds(puppet.session_id)
    assert stream.wrong == []


@each(DERIVING)
def test_one_that_holds_is_told_once(stream: Stream) -> None:
    puppet = at_work(stream)
    puppet.do("ask")
    stream.until(puppet, "waiting", "waiting")
    stream.runs_for(2.0)
    assert stream.kinds(puppet.session_id).count("session.waiting") == 1
    assert stream.wrong == []


@each(DERIVING)
def test_what_was_over_before_a_slow_look_ended_is_not_told(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look sees the wait unsettled, and returns when it has settled and patience is over."""
    puppet = at_work(stream)
    puppet.do("ask")
    key, everything = (stream.stage.adapter, puppet.session_id or ""), query.everything

    def settles(since: float) -> bool:
        asked = stream.stage.session(key[1]).verdict.status == "waiting"
        return asked and time.monotonic() > since + SETTLED_AFTER

    def slow(wanted: Wanted | None, adapters: tuple[str, ...], **options: Any) -> Survey:
        found = everything(wanted, adapters, **options)
        since = stream.observer._doubted.get(key) if key[0] in adapters else None
        if since is not None:
            until(lambda: settles(since), "the wait has settled")
        return found

    monkeypatch.setattr(query, "everything", slow)
    stream.until(puppet, "waiting", "waiting")
    assert stream.wrong == []


@each(stages())
def test_the_stream_tells_nothing_that_a_question_is_not_answered(stream: Stream) -> None:
    stage = stream.stage
    puppet = at_work(stream)
    for step in UNTOLD.get(stage.adapter, ()):
        puppet.do(step)
        stream.until(puppet, "running", "unknown")
        puppet.do("rest")
        stream.until(puppet, "idle", "idle")
        puppet.do("work")
        stream.until(puppet, "running", "working")
    if stage.can_ask:
        puppet.do("ask")
        stream.until(puppet, "waiting", "waiting")
    puppet.do("rest")
    stream.until(puppet, "idle", "idle")
    assert stream.wrong == []
