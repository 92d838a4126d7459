"""What is to be told when sessions are found as they are now, after what was told of them before.

Pure: no clock, no file, no process. It remembers what was *said*, to say it once; what a session *is*
comes with every look anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agentctl.system.clock import rfc3339
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.event import Event
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.model import Evidence, Session
from agentctl.watch.writes import Written
from agentctl.wire import event as events

Key = tuple[str, str]  # adapter; session id, or the address of a process that has none

# Seconds, at most, between the moment that an agent writes into its record and that of the write: it
# stamps first and writes then.
STAMPED = 1.0
ANOTHER = "another process runs it now; the end of the one before was not seen"


class Word(NamedTuple):
    """What was last said of a session."""

    status: str
    waiting_for: str | None
    process: ProcessIdentity | None  # which ran it
    at: float | None  # since when it is so, as the source says
    note: str = ""  # the telling word, literally
    activity: str = ""  # of a running one `working` or `unknown`: the latter is another state

    @property
    def state(self) -> tuple[str, str | None, str]:
        """What it was said to be: two that differ here are two events."""
        return self.status, self.waiting_for, self.activity


class Story:
    def __init__(self, told: Iterable[Event] = (), since: float | None = None) -> None:
        """`told`: the last of each session, from a journal. `since`: what began before that is no news
        at the first look; None: nothing is."""
        self.words: dict[Key, Word] = {}
        self.living: set[Key] = set()  # of whom no end was told
        for event in told:
            word = _word(event)
            if word is not None and event.adapter and event.subject:
                self._note((event.adapter, event.subject), word)
        self.since = since
        self.begun = False  # from then on, whatever is new is new

    def tell(self, session: Session, now: float, written: Written | None = None) -> list[Event]:
        """What has changed. `written`: how often its record was, since the last look at it."""
        key = key_of(session)
        word, before = _said_now(session), self.words.get(key)
        if before is None and self.has_a_name(session):
            return []
        if word.status == "unknown" and before is not None:  # whoever ran it may run it still
            word = word._replace(process=word.process or before.process)
        self._note(key, word)
        told = self._arrival(session, key, before, word, now)
        if (
            told
            or before is None
            or before.state != word.state
            or _again(session, before, word, written)
        ):
            if before is not None and not told:
                told += _unseen(session, before, word, now, written)
            told.append(_event(f"session.{word.status}", session, now, word.at, word.process))
        return told

    def _note(self, key: Key, word: Word) -> None:
        self.words[key] = word
        (self.living.discard if word.status == "stopped" else self.living.add)(key)

    def _arrival(
        self, session: Session, key: Key, before: Word | None, word: Word, now: float
    ) -> list[Event]:
        """Whether it began, or a process began to run it."""
        owner = word.process
        if owner is not None and self._was_nameless((key[0], owner.address), key):
            unseen = _end_unseen(session, before, owner, now)
            return [*unseen, _event("session.identified", session, now, None, was=owner.address)]
        if before is None:
            began = _began(session) or 0.0
            fresh = self.begun or (self.since is not None and began >= self.since)
            return [_started(session, now)] if fresh else []
        if before.status == "stopped":
            return [_started(session, now)] if word.status != "stopped" else []
        unseen = _end_unseen(session, before, owner, now)
        return [*unseen, _started(session, now)] if unseen else []

    def has_a_name(self, session: Session) -> bool:
        """Whether a process that shows no session was told of with one: some agents hide it a moment
        after their start, others before their end. That is no news."""
        owner = session.seen.owner
        if session.seen.session_id is not None or owner is None:
            return False
        return any(self.words[key].process == owner.identity for key in self.living)

    def _was_nameless(self, process: Key, key: Key) -> bool:
        """Whether this process was told of before it had a session; that it then is no more."""
        if process == key or process not in self.words:
            return False
        del self.words[process]
        self.living.discard(process)
        return True


def _end_unseen(
    session: Session, before: Word | None, owner: ProcessIdentity | None, now: float
) -> list[Event]:
    if before is None or before.status == "stopped" or owner is None or before.process in (None, owner):
        return []
    return [gap(before.at or now, now, ANOTHER, session)]


def key_of(session: Session) -> Key:
    seen = session.seen
    owner = seen.owner.identity.address if seen.owner is not None else _ended_process(session)
    return seen.adapter, seen.session_id or owner


def gap(began: float, ended: float, reason: str, session: Session | None = None) -> Event:
    data = {"from": rfc3339(began), "to": rfc3339(ended), "reason": reason}
    if session is None:
        return Event("events.gap", ended, began, body={"data": data})
    return _event("events.gap", session, ended, began, None, **data)


def _event(
    kind: str,
    session: Session,
    now: float,
    at: float | None,
    ran: ProcessIdentity | None = None,  # it, where nobody can tell whether it still does
    **data: object,
) -> Event:
    adapter, subject = key_of(session)
    owner = session.seen.owner.identity if session.seen.owner is not None else ran
    if owner is not None:
        data = {"process": owner.address, "boot": owner.boot, **data}
    group = session.launch.group if session.launch is not None else None
    return Event(kind, now, at, adapter, subject, group, events.body(session, **data))


def _started(session: Session, now: float) -> Event:
    return _event("session.started", session, now, _began(session))


def _word(event: Event) -> Word | None:
    """What was said, from how it was said. None: by another version, or not of a status."""
    session, data = event.body.get("session"), event.body.get("data", {})
    if not isinstance(session, dict) or not isinstance(data, dict):
        return None
    try:
        pid, start = str(data["process"]).removeprefix("proc:").split("@")
        process = ProcessIdentity(str(data["boot"]), int(pid), int(start))
    except (KeyError, ValueError):  # it had none
        process = None
    pieces = event.body.get("evidence") or ()
    note = next((str(p.get("note") or "") for p in pieces if p.get("claim") in ACTIVITY), "")
    status, waiting_for = str(session.get("status")), session.get("waiting_for")
    return Word(status, waiting_for, process, event.at, note, _activity(status, session.get("activity")))


def _said_now(session: Session) -> Word:
    verdict, owner = session.verdict, session.seen.owner
    piece = _decisive(session)
    at, note = (piece.at, piece.note) if piece is not None else (None, "")
    process = owner.identity if owner is not None else None
    activity = _activity(verdict.status, verdict.activity)
    return Word(verdict.status, verdict.waiting_for, process, at, note, activity)


def _activity(status: str, activity: object) -> str:
    """Of any other status it says nothing more than the status does."""
    return str(activity) if status == "running" else ""


def is_derived(session: Session) -> bool:
    """Whether what it is doing was concluded, and nobody has said it."""
    piece = _decisive(session)
    return piece is not None and piece.authority == "derived"


def _decisive(session: Session) -> Evidence | None:
    """The piece that says what it is doing; of an ended one, how it ended."""
    sought = ("exited",) if session.verdict.status == "stopped" else ACTIVITY
    return next((e for e in session.verdict.used if e.claim in sought), None)


def _again(session: Session, before: Word, word: Word, written: Written | None) -> bool:
    """Whether it has left its status meanwhile, and come back. An agent's transcript says of a turn that
    is open only what was written last, which moves all the time; a record says since when. A record
    whose word is another one has moved within what is one status for us, if it was written once. What we
    derived has a moment of ours, which comes out a millisecond more or less."""
    piece = _decisive(session)
    if piece is None or None in (before.at, word.at) or word.status in ("stopped", "unknown"):
        return False
    if before.at == word.at or piece.authority == "derived":
        return False
    if piece.authority == "record":
        return before.note == word.note or _often(written)
    return piece.claim != "working"


def _unseen(
    session: Session, before: Word, word: Word, now: float, written: Written | None
) -> list[Event]:
    """Whether there was anything between the two that nobody looked at."""
    began = max(before.at or 0.0, written.since - STAMPED if written is not None else 0.0)
    if before.state == word.state:
        reason = f"it was something else in between, and is {word.status} again"
        return [gap(min(began or now, word.at or now), word.at or now, reason, session)]
    piece = _decisive(session)
    if piece is None or piece.authority != "record" or piece.at is None or not _often(written):
        return []
    reason = "its record was written more than once between two looks"
    return [gap(min(began or now, piece.at), piece.at, reason, session)]


def _often(written: Written | None) -> bool:
    """Whether it may have said something that was not read. Once: that is what it says now."""
    return written is not None and (written.most is None or written.most > 1)


def _began(session: Session) -> float | None:
    alive = next((e.at for e in session.seen.evidence if e.claim == "alive"), None)
    return alive if alive is not None else session.seen.facts.started_at


def _ended_process(session: Session) -> str:
    """Of a process without a session that has ended, only its evidence names it."""
    addresses = (e.address for e in session.seen.evidence if e.address.startswith("proc:"))
    return next(addresses, "").partition("/")[0]
