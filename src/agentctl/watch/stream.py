"""Follow events: from the journal that a daemon keeps, or from an observer of our own.

The daemon only rings; the events are read from the journal, from the last number on. So no event is lost
when the daemon is restarted or killed, and a slow reader delays no other.
"""

from __future__ import annotations

import select
import time

from agentctl import paths
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import start
from agentctl.daemon_client.client import Client
from agentctl.errors import Gone, NoDaemon, SourceError, Unreachable
from agentctl.light_typing import Callable, Iterator, Mapping
from agentctl.state import journal
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.event import Event
from agentctl.watch.observer import Observer
from agentctl.watch.story import Story, gap

BEAT = 1.0  # seconds at most between two batches, so that a caller notices that its reader is gone
RETRY = 0.1  # seconds between two attempts to reach a daemon that another process starts
RESTART = 10.0  # seconds that a restart of the daemon may take
FORGOTTEN = "the journal was deleted and starts again"
PRUNED = "the journal starts here; earlier events were pruned"


def read_journal(notes: str, seq: int) -> Iterator[list[Event]]:
    """Yield the events after that number, and a gap first if some of them were pruned."""
    first = journal.read_first_seq(notes)
    if first > seq + 1 and seq > 0:
        oldest = journal.read_after(notes, first - 1, 1)
        moment = oldest[0].seen_at if oldest else time.time()
        yield [gap(moment, moment, PRUNED)]
    reader = journal.Reader(notes, seq)
    try:
        while events := _read_new(reader):
            yield events
    finally:
        reader.close()


def follow_daemon(environ: Mapping[str, str], seq: int) -> Iterator[list[Event]]:
    """Yield the events after that number as the daemon records them. Raises Unreachable when the daemon
    is stopped, and what `start.ensure` raises."""
    notes, is_stopped = paths.database_file(start.find_home(environ)), False
    while True:
        with _reconnect(environ) if is_stopped else start.ensure_daemon(environ) as client:
            client.call("events.subscribe")
            reader = journal.Reader(notes, seq)
            try:
                for events in _follow_client(client, reader):
                    is_stopped = events[-1].type == "daemon.stopped" if events else is_stopped
                    yield events
            finally:
                reader.close()
            seq = reader.seq


def _follow_client(client: Client, reader: journal.Reader) -> Iterator[list[Event]]:
    """Yield events until the daemon has ended, then its last ones: it records them after it has closed
    the connection."""
    hello = client.hello()
    daemon = ProcessIdentity(proc.read_boot_id(), hello.pid, hello.start)
    try:
        with Handle(daemon) as handle:
            try:
                while True:
                    events = _read_new(reader)
                    yield events
                    if not events:
                        client.read_notification(BEAT)
            except NoDaemon:
                handle.wait(RESTART)
    except Gone:
        pass
    yield _read_new(reader)


def _read_new(reader: journal.Reader) -> list[Event]:
    events, now = reader.read_new(), time.time()
    return [gap(now, now, FORGOTTEN), *events] if reader.is_new_journal else events


def _reconnect(environ: Mapping[str, str]) -> Client:
    """Connect to a daemon that is being restarted. A daemon that a person has stopped is not started."""
    end = time.monotonic() + RESTART
    while True:
        try:
            return rpc.connect(start.find_home(environ))
        except NoDaemon as error:
            if time.monotonic() > end:
                raise Unreachable("the daemon was stopped", "agentctl daemon start") from error
        time.sleep(RETRY)


def follow_directly(environ: Mapping[str, str], seq: int) -> Iterator[list[Event]]:
    """Yield events without a daemon: those of sessions, which no journal has, and those that other
    processes record after that number."""
    state = paths.state_directory(environ)
    events: list[Event] = []
    observer = Observer(Story((), time.time()), events.extend, environ)
    reader = journal.Reader(paths.database_file(state), seq) if state is not None else None
    try:
        if reader is not None and state is not None:
            observer.watch_database(paths.database_file(state), _journal_callback(reader, events))
        observer.begin(silent=True)
        beat = time.monotonic() + BEAT
        while True:
            observer.step()
            if events or time.monotonic() > beat:
                beat = time.monotonic() + BEAT
                yield list(events)
                events.clear()
    finally:
        observer.close()
        if reader is not None:
            reader.close()


def _journal_callback(reader: journal.Reader, events: list[Event]) -> Callable[[], None]:
    def read() -> None:
        try:
            events.extend(_read_new(reader))
        except SourceError as error:
            now = time.time()
            events.append(gap(now, now, f"the journal cannot be read: {error}"))

    return read


def has_no_reader(descriptor: int) -> bool:
    """Return True if the other end of a pipe or a terminal is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(ready & (select.POLLERR | select.POLLHUP) for _, ready in poll.poll(0))
