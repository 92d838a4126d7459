"""Which process works on which session, by OpenCode's log: one file that all its processes append to.

Each line names its run, and a run is one process; no line names the process. The kernel does: a
descriptor that appends stands where its own last write ended. The line that ends there tells the run.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from agentctl.errors import Gone, SourceError
from agentctl.system import clock, files
from agentctl.system.proc import Process
from agentctl.truth.look import Look

HELD = re.compile(r".*/opencode/log/[^/]+\.log")
WINDOW = 1 << 16  # bytes before a process's last line, and of the log's end: some twenty turns
# Each from the beginning of a line: what it quotes, such as a command, may look like one.
RUN = re.compile(rb"(?m)^timestamp=(\S+) level=\w+ run=(\w+) ")
ABOUT = re.compile(
    rb"(?m)^timestamp=(\S+) level=\w+ run=(\w+) message="
    rb'(?:created id|(?:loop|process|"exiting loop") session\.id)=(ses_\w+)'
    rb"(?: messageID=(msg_\w+)| step=(\d+))?"
)
ASKING = re.compile(rb"(?m)^timestamp=(\S+) level=\w+ run=(\w+) message=asking id=per_")


class Last(NamedTuple):
    """A session's last message, to be looked for in the log."""

    session: str
    message: str | None
    turn: float  # when its turn began: a line on it comes after
    answer: float | None  # when the answer began, if it has: a line on it comes before


class Mention(NamedTuple):
    """One line on a session."""

    offset: int
    run: str
    session: str
    message: str | None  # that it begins to write
    stamp: bytes
    begins: bool  # a turn

    @property
    def at(self) -> float:
        return _time(self.stamp)  # of the few that are asked: to read them all takes the most time


class Run(NamedTuple):
    """What one process has written."""

    id: str  # "": nothing yet
    first: float = 0.0  # the time of the first of its lines that we have read; 0: we have read all
    last: float = 0.0  # the time of its own last line; those before have all been written
    talks: bool = False  # tells of all it does, not of errors alone, as its settings may want


class Log:
    """What the log tells of these processes, and of what was done lately by any."""

    def __init__(self) -> None:
        self.path = ""
        self._runs: dict[int, Run] = {}  # by pid
        self._last: dict[str, Mention] = {}  # by session
        self._by_run: dict[str, dict[str, Mention]] = {}  # the same, of each run
        self._latest: dict[str, dict[str, int]] = {}  # by run and session: where a turn began
        self._begun: set[str] = set()  # messages
        self._asked: dict[str, float] = {}  # by run: when it last asked for a permission

    @classmethod
    def read(cls, look: Look, processes: Iterable[Process]) -> Log:
        log = cls()
        for process in processes:
            path = _held(process)
            if path is None:
                continue
            try:
                log._add(look.through(process, path), process, path)
            except Gone:  # the process, or its log
                continue
            except SourceError as error:
                look.unreadable(error)
        return log

    def worked_on(self, process: Process) -> Mapping[str, Mention]:
        """The latest line of its own on each session."""
        run = self._runs.get(process.pid)
        return self._by_run.get(run.id, {}) if run is not None else {}

    def current(self, process: Process, sessions: Container[str]) -> str | None:
        """Of these, the one in which it began a turn last. (The last line may be on one that a person
        has left at work.)"""
        mine = {id_: said.offset for id_, said in self.worked_on(process).items()}
        began = self._latest.get(self._runs[process.pid].id, {}) if mine else {}
        for offsets in (began, mine):
            known = {offset: id_ for id_, offset in offsets.items() if id_ in sessions}
            if known:
                return known[max(known)]
        return None

    def writer(self, last: Last) -> Mention | None:
        """The latest line on a session, if it is as new as its last message."""
        found = self._last.get(last.session)
        known = found is not None and (last.message in self._begun or found.at >= last.turn)
        return found if known else None

    def follows(self, process: Process) -> bool:
        """Whether all that this process does is in the log, a moment later."""
        run = self._runs.get(process.pid)
        return run is not None and run.talks

    def rules_out(self, process: Process, last: Last) -> bool:
        """Whether somebody else wrote it, for sure: a line says so, or this process has written
        later lines and none on it."""
        run, written = self._runs.get(process.pid), self.writer(last)
        if run is None:
            return False
        if written is not None:
            return written.run != run.id
        return run.talks and last.answer is not None and run.first <= last.answer <= run.last

    def has_asked(self, process: Process, since: float) -> bool | None:
        """Whether it has asked for a permission since; None: its lines do not tell, or we have not read
        as far back as that."""
        run = self._runs.get(process.pid)
        if run is None:
            return None
        if self._asked.get(run.id, 0.0) >= since:
            return True
        return False if run.talks and run.first <= since else None

    def _add(self, path: str, process: Process, held: str) -> None:
        if path != self.path:
            # First the end of the log, then how far each process is: else the lines of one that
            # writes its first ones meanwhile would seem to be nobody's.
            self.path = path
            self._learn(files.tail(path, WINDOW))
        position = process.position_in(held)
        if not position:
            self._runs[process.pid] = Run("")
            return
        piece = files.before(path, position, WINDOW)
        mine = RUN.match(piece.data, piece.data.rfind(b"\n", 0, -1) + 1)
        # emptied or written over since, it tells nothing
        if mine and position <= piece.size and piece.data.endswith(b"\n"):
            run = mine[2].decode()
            own = (found[1] for found in RUN.finditer(piece.data) if found[2] == mine[2])
            begins = _time(next(own)) if piece.offset else 0.0
            talks = b" level=INFO run=" + mine[2] in piece.data
            self._runs[process.pid] = Run(run, begins, _time(mine[1]), talks)
            self._learn(piece, run)

    def _learn(self, piece: files.Piece, run: str | None = None) -> None:
        for mention in _mentions(piece):
            if run is not None and mention.run != run:
                continue  # of a process whose position we may have read before it wrote this
            for known in (self._last, self._by_run.setdefault(mention.run, {})):
                before = known.get(mention.session)
                if before is None or before.offset <= mention.offset:
                    known[mention.session] = mention
            if mention.begins:
                began = self._latest.setdefault(mention.run, {})
                began[mention.session] = max(began.get(mention.session, 0), mention.offset)
            if mention.message is not None:
                self._begun.add(mention.message)
        if run is not None:
            for stamp, who in ASKING.findall(piece.data):
                if who.decode() == run:
                    self._asked[run] = _time(stamp)


def _mentions(piece: files.Piece) -> Iterator[Mention]:
    for found in ABOUT.finditer(piece.data):
        stamp, run, session, message, step = found.groups()
        yield Mention(
            piece.offset + found.start(),
            run.decode(),
            session.decode(),
            message.decode() if message else None,
            stamp,
            step == b"0",
        )


def _held(process: Process) -> str | None:
    """The log that it holds open."""
    try:
        return next((path for path in process.open_files() if HELD.fullmatch(path)), None)
    except SourceError:  # told where its database is looked for
        return None


def _time(stamp: bytes) -> float:
    return clock.parse(stamp.decode()) or 0.0
