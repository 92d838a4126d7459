"""The record of one play: the driver's book, the requests to the model, the journal, the notifications.

A record is plain JSON, so a play can be scored again without playing it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentctl.system import clock
from agentctl.system.proc import ProcessIdentity
from agentctl.watch.observer import AWAY
from tests.real.accuracy.timeline import Actor, Entry
from tests.real.book import State, Who
from tests.real.listening import process_of

if TYPE_CHECKING:
    from agentctl.rehearsal.model.journal import Note
    from agentctl.truth.event import Event

_MARK = re.compile(r"\bm\d+x\d+\b")  # as `actor.make_prompt` makes them


class StreamEvent(NamedTuple):
    """One event of the journal, reduced to what the scorer needs."""

    seq: int
    type: str
    at: float  # when the daemon saw it
    subject: str | None
    process: str | None = None  # the address of the process that runs it
    activity: str | None = None
    waiting_for: str | None = None
    outcome: str | None = None
    reason: str = ""
    span: tuple[float, float] | None = None  # of a gap


class ModelRequest(NamedTuple):
    """One moment of a request to the model."""

    at: float
    kind: str  # asked, answered … as in the model's journal
    marks: tuple[str, ...]  # of the prompts in it; empty: it may be any actor's


class Notification(NamedTuple):
    """One notification that arrived."""

    at: float
    seq: int  # of the event
    word: str  # waiting, finished, failed


class Record(NamedTuple):
    actors: Mapping[str, Actor]
    events: Sequence[StreamEvent]
    headless: frozenset[str] = frozenset()  # actors that started with a prompt
    marks: Mapping[str, tuple[str, ...]] = {}  # actor to the marks of its prompts
    requests: Sequence[ModelRequest] = ()
    notifications: Sequence[Notification] = ()

    @property
    def away(self) -> list[tuple[float, float]]:
        """The times without a daemon."""
        return [e.span for e in self.events if e.span is not None and e.reason == AWAY]


def stream_event(event: Event) -> StreamEvent:
    session, data = event.body.get("session") or {}, event.body.get("data", {})
    gap = event.type == "events.gap"
    return StreamEvent(
        event.seq or 0,
        event.type,
        event.seen_at,
        event.subject,
        process_of(event),
        session.get("activity"),
        session.get("waiting_for"),
        session.get("outcome"),
        str(data.get("reason", "") if gap else session.get("reason", "")),
        (clock.parse_time(data["from"]) or 0.0, clock.parse_time(data["to"]) or 0.0) if gap else None,
    )


def model_request(note: Note) -> ModelRequest:
    return ModelRequest(note.at, note.kind, tuple(_MARK.findall(note.text)))


def encode(record: Record) -> dict[str, Any]:
    return {
        "actors": [
            {"name": actor.name, "died_at": actor.died_at, "entries": list(map(_plain, actor.entries))}
            for actor in record.actors.values()
        ],
        "events": [list(event) for event in record.events],
        "headless": sorted(record.headless),
        "marks": record.marks,
        "requests": [list(one) for one in record.requests],
        "notifications": [list(one) for one in record.notifications],
    }


def decode(read: Mapping[str, Any]) -> Record:
    return Record(
        {one["name"]: _actor(one) for one in read["actors"]},
        [_stream_event(event) for event in read["events"]],
        frozenset(read["headless"]),
        {name: tuple(marks) for name, marks in read["marks"].items()},
        [ModelRequest(at, kind, tuple(marks)) for at, kind, marks in read["requests"]],
        [Notification(*one) for one in read["notifications"]],
    )


def write_notify_settings(settings: Path, lines: Path) -> None:
    """Settings with one notification target: a command that appends a line to `lines` each time. Keep
    `lines` out of the state directory, because a play deletes that."""
    command = f'printf "%s %s %s\\n" "$(date +%s.%N)" "$AGENTCTL_SEQ" "$AGENTCTL_ON" >> {lines}'
    settings.parent.mkdir(mode=0o700)
    settings.write_text(f"[notify.driver]\ncommand = '{command}'\n")


def read_notifications(lines: Path) -> list[Notification]:
    """The notifications that the command wrote."""
    words = [line.split() for line in lines.read_text().splitlines()] if lines.exists() else []
    return [Notification(float(at), int(seq), word) for at, seq, word in words]


def _stream_event(read: Sequence[Any]) -> StreamEvent:
    event = StreamEvent(*read)
    return event._replace(span=(event.span[0], event.span[1])) if event.span is not None else event


def _plain(entry: Entry) -> list[Any]:
    process = list(entry.who.process) if entry.who.process is not None else None
    who = [entry.who.name, entry.who.adapter, process, entry.who.session_id]
    return [entry.at, who, list(entry.now) if entry.now is not None else None]


def _actor(read: Mapping[str, Any]) -> Actor:
    actor = Actor(read["name"])
    actor.died_at = read["died_at"]
    for at, (name, adapter, process, session_id), now in read["entries"]:
        who = Who(name, adapter, ProcessIdentity(*process) if process else None, session_id)
        actor.entries.append(Entry(at, who, State(*now) if now is not None else None))
    return actor
