"""Find which process works on which session in OpenCode's log, one file that all processes append to.

Each line names its run, and a run is one process, but no line names the pid. The kernel links the two:
the position of a descriptor that appends is the end of its own last write. The line that ends there
names the run.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache

from agentctl.errors import Gone, SourceError
from agentctl.light_typing import TYPE_CHECKING, NamedTuple
from agentctl.system import clock, files
from agentctl.system.proc import Process
from agentctl.truth.look import Look

if TYPE_CHECKING:
    import re

LOG_FOLDER = "/opencode/log/"
WINDOW = 1 << 16  # bytes before a process's last line, and of the log's end: some twenty turns


class Patterns(NamedTuple):
    """Of lines. Each begins at a line start: a quoted command inside a line may look the same."""

    run: re.Pattern[bytes]
    mention: re.Pattern[bytes]  # of a session
    question: re.Pattern[bytes]


@cache
def _patterns() -> Patterns:
    import re  # a look at ended sessions alone does without

    return Patterns(
        run=re.compile(rb"(?m)^timestamp=(\S+) level=\w+ run=(\w+) "),
        mention=re.compile(
            rb"(?m)^timestamp=(\S+) level=\w+ run=(\w+) message="
            rb'(?:created id|(?:loop|process|"exiting loop") session\.id)=(ses_\w+)'
            rb"(?: messageID=(msg_\w+)| step=(\d+))?"
        ),
        question=re.compile(rb"(?m)^timestamp=(\S+) level=\w+ run=(\w+) message=asking id=per_"),
    )


class Last(NamedTuple):
    """A session's last message, to be searched for in the log."""

    session: str
    message: str | None
    turn: float  # when its turn began: its log line is later
    answer: float | None  # when the answer began, if it has: its log line is earlier


class Mention(NamedTuple):
    """One line about a session."""

    offset: int
    run: str
    session: str
    message: str | None  # the message that the line begins
    stamp: bytes
    begins_turn: bool

    @property
    def at(self) -> float:
        return _time(self.stamp)  # parsed on demand: parsing all of them takes most of the time


class Run(NamedTuple):
    """What one process has written into the log."""

    id: str  # "": no line yet
    first: float = 0.0  # the time of its first line that we have read; 0: we have read all
    last: float = 0.0  # the time of its last line
    is_verbose: bool = False  # logs all that it does, not only errors (a setting)


class Log:
    """What the log says about these processes, and about recent work of any process."""

    def __init__(self) -> None:
        self.path = ""
        self._runs: dict[int, Run] = {}  # by pid
        self._last_by_session: dict[str, Mention] = {}
        self._by_run: dict[str, dict[str, Mention]] = {}  # by run and session
        self._turn_offsets: dict[
            str, dict[str, int]
        ] = {}  # by run and session: offset of the last turn's start
        self._begun_messages: set[str] = set()
        self._asked_at: dict[str, float] = {}  # by run: when it last asked for permission

    @classmethod
    def read(cls, look: Look, processes: Iterable[Process]) -> Log:
        log = cls()
        for process in processes:
            path = _find_log(process)
            if path is None:
                continue
            try:
                log._add(look.resolve_path(process, path), process, path)
            except Gone:  # the process, or its log
                continue
            except SourceError as error:
                look.report_unreadable(error)
        return log

    def mentions_by(self, process: Process) -> Mapping[str, Mention]:
        """Return the process's latest line about each session."""
        run = self._runs.get(process.pid)
        return self._by_run.get(run.id, {}) if run is not None else {}

    def find_current(self, process: Process, sessions: Container[str]) -> str | None:
        """Return the one of these sessions in which the process began a turn last. (Its last line may be
        about a session that the user has left while it works.)"""
        own = {id_: mention.offset for id_, mention in self.mentions_by(process).items()}
        turns = self._turn_offsets.get(self._runs[process.pid].id, {}) if own else {}
        for offsets in (turns, own):
            by_offset = {offset: id_ for id_, offset in offsets.items() if id_ in sessions}
            if by_offset:
                return by_offset[max(by_offset)]
        return None

    def find_writer(self, last: Last) -> Mention | None:
        """Return the latest line about a session, if it is as new as the session's last message."""
        mention = self._last_by_session.get(last.session)
        is_current = mention is not None and (
            last.message in self._begun_messages or mention.at >= last.turn
        )
        return mention if is_current else None

    def logs_everything(self, process: Process) -> bool:
        """Return True if the log has all that this process does, a moment later."""
        run = self._runs.get(process.pid)
        return run is not None and run.is_verbose

    def rules_out(self, process: Process, last: Last) -> bool:
        """Return True if another process certainly wrote the message: a line says so, or this process
        has written later lines and none about it."""
        run, mention = self._runs.get(process.pid), self.find_writer(last)
        if run is None:
            return False
        if mention is not None:
            return mention.run != run.id
        return run.is_verbose and last.answer is not None and run.first <= last.answer <= run.last

    def has_asked(self, process: Process, since: float) -> bool | None:
        """Return whether the process has asked for permission since; None if its lines do not show that,
        or if we have not read that far back."""
        run = self._runs.get(process.pid)
        if run is None:
            return None
        if self._asked_at.get(run.id, 0.0) >= since:
            return True
        return False if run.is_verbose and run.first <= since else None

    def _add(self, path: str, process: Process, own_path: str) -> None:
        if path != self.path:
            # First the end of the log, then how far each process is: else the lines of one that
            # writes its first ones in between would seem to have no process.
            self.path = path
            self._read_piece(files.read_tail(path, WINDOW))
        position = process.read_file_position(own_path)
        if not position:
            self._runs[process.pid] = Run("")
            return
        piece = files.read_before(path, position, WINDOW)
        match = _patterns().run.match(piece.data, piece.data.rfind(b"\n", 0, -1) + 1)
        # Nothing can be learned from a log that was emptied or overwritten since.
        if match and position <= piece.size and piece.data.endswith(b"\n"):
            run = match[2].decode()
            own_lines = (each[1] for each in _patterns().run.finditer(piece.data) if each[2] == match[2])
            first_at = _time(next(own_lines)) if piece.offset else 0.0
            is_verbose = b" level=INFO run=" + match[2] in piece.data
            self._runs[process.pid] = Run(run, first_at, _time(match[1]), is_verbose)
            self._read_piece(piece, run)

    def _read_piece(self, piece: files.Piece, run: str | None = None) -> None:
        for mention in _read_mentions(piece):
            if run is not None and mention.run != run:
                continue  # its process may have written this after we read its position
            for mentions in (self._last_by_session, self._by_run.setdefault(mention.run, {})):
                before = mentions.get(mention.session)
                if before is None or before.offset <= mention.offset:
                    mentions[mention.session] = mention
            if mention.begins_turn:
                offsets = self._turn_offsets.setdefault(mention.run, {})
                offsets[mention.session] = max(offsets.get(mention.session, 0), mention.offset)
            if mention.message is not None:
                self._begun_messages.add(mention.message)
        if run is not None:
            for stamp, run_id in _patterns().question.findall(piece.data):
                if run_id.decode() == run:
                    self._asked_at[run] = _time(stamp)


def _read_mentions(piece: files.Piece) -> Iterator[Mention]:
    for match in _patterns().mention.finditer(piece.data):
        stamp, run, session, message, step = match.groups()
        yield Mention(
            piece.offset + match.start(),
            run.decode(),
            session.decode(),
            message.decode() if message else None,
            stamp,
            step == b"0",
        )


def _is_log(path: str) -> bool:
    _, folder, name = path.rpartition(LOG_FOLDER)
    return bool(folder) and name.endswith(".log") and len(name) > len(".log") and "/" not in name


def _find_log(process: Process) -> str | None:
    """Return the path of the log that the process holds open."""
    try:
        return next((path for path in process.list_open_files() if _is_log(path)), None)
    except SourceError:  # reported where its database is searched for
        return None


def _time(stamp: bytes) -> float:
    return clock.parse_time(stamp.decode()) or 0.0
