"""Find which process works on which session in OpenCode's log, one file that all processes append to.

Each line names its run, and a run is one process, but no line names the pid. The kernel links the two:
the position of a descriptor that appends is the end of its own last write. The line that ends there
names the run.
"""

from __future__ import annotations

from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Container, Iterable, Iterator, Mapping, NamedTuple
from agentctl.system import clock, files
from agentctl.system.proc import Process
from agentctl.truth.look import Look

LOG_FOLDER = "/opencode/log/"
WINDOW = 1 << 16  # bytes before a process's last line, and of the log's end: some twenty turns


# The words before a session's id. They follow the head of a line: a quoted command may hold the same.
MENTIONS = (
    b" message=created id=",
    b" message=loop session.id=",
    b" message=process session.id=",
    b' message="exiting loop" session.id=',
)
QUESTION = b" message=asking id=per_"
LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"  # of ids


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
        head = _parse_head(piece.data[piece.data.rfind(b"\n", 0, -1) + 1 :])
        # Nothing can be learned from a log that was emptied or overwritten since.
        if head and position <= piece.size and piece.data.endswith(b"\n"):
            run, is_verbose = head.run.decode(), b" level=INFO run=" + head.run in piece.data
            first_at = _find_first_time(piece.data, head) if piece.offset else 0.0
            self._runs[process.pid] = Run(run, first_at, _time(head.stamp), is_verbose)
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
            for line in _find_lines(piece.data, QUESTION):
                if line.run.decode() == run:
                    self._asked_at[run] = _time(line.stamp)


class Head(NamedTuple):
    """How a line begins: `timestamp=… level=… run=… `."""

    stamp: bytes
    run: bytes
    start: int = 0  # of the line, in its piece
    rest: int = 0  # behind the words that were searched for


def _parse_head(line: bytes) -> Head | None:
    words = line.split(b" ", 3)
    if len(words) < 4:
        return None
    (a, _, stamp), (b, _, level), (c, _, run) = (word.partition(b"=") for word in words[:3])
    is_head = (
        (a, b, c) == (b"timestamp", b"level", b"run") and stamp and _is_word(level) and _is_word(run)
    )
    return Head(stamp, run) if is_head else None


def _is_word(text: bytes) -> bool:
    return bool(text) and not text.translate(None, LETTERS)


def _find_first_time(data: bytes, last: Head) -> float:
    """Return the time of the first line of this run."""
    for line in data[data.find(b"\n") + 1 :].split(b"\n"):
        head = _parse_head(line)
        if head is not None and head.run == last.run:
            return _time(head.stamp)
    return _time(last.stamp)


def _find_lines(data: bytes, words: bytes) -> Iterator[Head]:
    """Yield the lines with these words right behind their head."""
    at = data.find(words)
    while at >= 0:
        start, rest = data.rfind(b"\n", 0, at) + 1, at + len(words)
        head = _parse_head(data[start : at + 1]) if data.count(b" ", start, at) == 2 else None
        if head is not None:
            yield head._replace(start=start, rest=rest)
        at = data.find(words, rest)


def _read_mentions(piece: files.Piece) -> Iterator[Mention]:
    for words in MENTIONS:
        for line in _find_lines(piece.data, words):
            session = _read_id(piece.data, line.rest, b"ses_")
            if not session:
                continue
            more = line.rest + len(session)
            message = _read_id(piece.data, more, b" messageID=msg_").removeprefix(b" messageID=")
            step = _read_id(piece.data, more, b" step=")
            yield Mention(
                offset=piece.offset + line.start,
                run=line.run.decode(),
                session=session.decode(),
                message=message.decode() or None,
                stamp=line.stamp,
                begins_turn=step == b" step=0",
            )


def _read_id(data: bytes, start: int, prefix: bytes) -> bytes:
    """Return the prefix and the letters behind it; empty if either is missing."""
    if not data.startswith(prefix, start):
        return b""
    begin, end = start + len(prefix), data.find(b"\n", start)
    line = data[begin : end if end >= 0 else len(data)]
    length = len(line) - len(line.lstrip(LETTERS))
    return data[start : begin + length] if length else b""


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
