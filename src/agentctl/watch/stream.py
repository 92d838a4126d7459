"""Events as they come: from the journal that a daemon keeps, or from a look of our own.

A daemon only rings: what happened is read from the journal, from where we were. So nothing is lost when
it is restarted or killed, and a reader that is slow holds up nobody.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Mapping

from agentctl import paths
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import start
from agentctl.daemon_client.client import Client
from agentctl.errors import Gone, NoDaemon, SourceError, Unreachable
from agentctl.state import journal
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.truth.event import Event
from agentctl.watch.observer import Observer
from agentctl.watch.story import Story, gap

BEAT = 1.0  # seconds at most between two batches, empty or not: who prints may have lost his reader
AGAIN = 0.1  # seconds between two tries to reach a daemon that another starts: nobody tells us
COMES_BACK = 10.0  # seconds within which a daemon that was restarted is there again
FORGOTTEN = "the journal was deleted, and begins anew"
PRUNED = "the journal goes back to here; what was told before is forgotten"


def kept(notes: str, seq: int) -> Iterator[list[Event]]:
    """All that the journal has after that number, and a gap where it should have more."""
    first = journal.first(notes)
    if first > seq + 1 and seq > 0:
        oldest = journal.after(notes, first - 1, 1)
        moment = oldest[0].seen_at if oldest else time.time()
        yield [gap(moment, moment, PRUNED)]
    reader = journal.Reader(notes, seq)
    try:
        while events := _news(reader):
            yield events
    finally:
        reader.close()


def by_daemon(environ: Mapping[str, str], seq: int) -> Iterator[list[Event]]:
    """What comes after that number, as it is told. Raises Unreachable when the daemon was stopped, and
    what `start.ensure` raises."""
    notes, stopped = paths.notes_file(start.home_of(environ)), False
    while True:
        with _again(environ) if stopped else start.ensure(environ) as client:
            client.call("events.subscribe")
            reader = journal.Reader(notes, seq)
            try:
                for events in _rung(client, reader):
                    stopped = events[-1].type == "daemon.stopped" if events else stopped
                    yield events
            finally:
                reader.close()
            seq = reader.seq


def _rung(client: Client, reader: journal.Reader) -> Iterator[list[Event]]:
    """Until the daemon is gone; with what it said last, which comes after it has hung up."""
    told = client.hello()
    daemon = ProcessIdentity(proc.boot_id(), told.pid, told.start)
    try:
        with Handle(daemon) as handle:
            try:
                while True:
                    events = _news(reader)
                    yield events
                    if not events:
                        client.rung(BEAT)
            except NoDaemon:
                handle.wait(COMES_BACK)
    except Gone:
        pass
    yield _news(reader)


def _news(reader: journal.Reader) -> list[Event]:
    events, now = reader.new(), time.time()
    return [gap(now, now, FORGOTTEN), *events] if reader.anew else events


def _again(environ: Mapping[str, str]) -> Client:
    """A daemon that a person has stopped is not ours to start; one that is restarted comes back."""
    end = time.monotonic() + COMES_BACK
    while True:
        try:
            return rpc.connect(start.home_of(environ))
        except NoDaemon as error:
            if time.monotonic() > end:
                raise Unreachable("the daemon was stopped", "agentctl daemon start") from error
        time.sleep(AGAIN)


def by_ourselves(environ: Mapping[str, str], seq: int) -> Iterator[list[Event]]:
    """The same without a daemon: sessions as we see them, which no journal has, and what others write
    into it meanwhile."""
    state = paths.state_directory(environ)
    told: list[Event] = []
    observer = Observer(Story((), time.time()), told.extend, environ)
    reader = journal.Reader(paths.notes_file(state), seq) if state is not None else None
    try:
        if reader is not None and state is not None:
            observer.watch_ours(paths.notes_file(state), _reads(reader, told))
        observer.begin(silent=True)
        beat = time.monotonic() + BEAT
        while True:
            observer.step()
            if told or time.monotonic() > beat:
                beat = time.monotonic() + BEAT
                yield list(told)
                told.clear()
    finally:
        observer.close()
        if reader is not None:
            reader.close()


def _reads(reader: journal.Reader, told: list[Event]) -> Callable[[], None]:
    def read() -> None:
        try:
            told.extend(_news(reader))
        except SourceError as error:
            now = time.time()
            told.append(gap(now, now, f"the journal cannot be read: {error}"))

    return read


def unread(descriptor: int) -> bool:
    """Whether nobody reads what is written there any more."""
    asked = select.poll()
    asked.register(descriptor, 0)
    return any(told & (select.POLLERR | select.POLLHUP) for _, told in asked.poll(0))
