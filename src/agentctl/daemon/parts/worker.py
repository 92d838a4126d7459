"""The base of a daemon part that waits in one thread and works in others, so that work that hangs holds
up nothing else."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time

from agentctl.errors import Exhausted, SourceError
from agentctl.light_typing import Any, Generic, Hashable, Iterable, TypeVar
from agentctl.state import db
from agentctl.system.waiter import Waker, Watch

log = logging.getLogger("agentctl.daemon.parts.worker")

LONGEST_WAIT = 60.0  # seconds: then look anyway, for file systems without notifications (NFS)
STOP_LIMIT = 1.0  # seconds for the work in hand when the daemon ends; the next daemon does the rest
REST = 5.0  # seconds after an unexpected error
LOOK_PAUSE = 0.05  # seconds between two looks: a thousand writes a second are not a thousand looks

Work = TypeVar("Work", bound=Hashable)


class FileWaiter:
    """Waits until one of a few files changes, or until another thread calls `wake`.

    If inotify has no instance or watch left, a wait ends after a second, so that its caller looks by the
    clock. inotify is used again as soon as it is available.
    """

    def __init__(self, files: Iterable[str], part: str = "") -> None:
        """`part` is for the log. Raises SourceError if no descriptor is left."""
        self._files, self._part = tuple(files), part
        self.problem: str | None = None  # why inotify does not report changes
        self._watch = Watch()
        self._waker = Waker()
        self._watch.add_descriptor(self._waker.fileno())
        self._watch_files()

    def wake(self) -> None:
        self._waker.wake()

    def wait(self, seconds: float) -> None:
        """Return when something may have happened, after a minute at most. Other files in the same
        directories do not end the wait."""
        if not self._watch_files():
            self._watch.wait(min(seconds, LONGEST_WAIT))
        self._waker.clear()

    def close(self) -> None:
        self._watch.close()
        self._waker.close()

    @property
    def condition(self) -> dict[str, Any]:
        """Fields for the status of a part; empty: all is well."""
        return {} if self.problem is None else {"state": "degraded", "problem": self.problem}

    def _watch_files(self) -> bool:
        """Return True if a file is watched in another directory than before: the directory was made or
        replaced, and the file may have changed before we watched it."""
        is_new = [self._watch.add_file(file) for file in self._files]
        problem = _first_reason(self._watch.unwatched.values())
        if problem != self.problem:
            level = logging.INFO if problem is None else logging.WARNING
            log.log(level, "%s: %s", self._part, problem or "inotify reports changes again")
        self.problem = problem
        return any(is_new)


def _first_reason(errors: Iterable[SourceError]) -> str | None:
    """Name the file unless a limit is reached: then any file would do."""
    for error in errors:
        return error.why if isinstance(error, Exhausted) else str(error)
    return None


class Worker(Generic[Work]):
    """A subclass has a `_run` that waits with `_pause` until `_stopping` is set."""

    name = "worker"

    def __init__(self, *files: str) -> None:
        """A change of one of `files` ends a pause."""
        self._files = files
        self._stopping = threading.Event()
        self._mutex = threading.Lock()
        self._threads: dict[Work, threading.Thread] = {}  # the work in hand
        self._rest_until: dict[Work, float] = {}  # by the monotonic clock
        self._error: str | None = None  # what ended `_run` too early

    def start(self) -> None:
        self._waiter = FileWaiter(self._files, self.name)
        self._thread = threading.Thread(target=self._keep_running, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._waiter.wake()
        until = time.monotonic() + STOP_LIMIT
        with self._mutex:
            threads = list(self._threads.values())
        for thread in (self._thread, *threads):
            thread.join(max(0.0, until - time.monotonic()))

    @property
    def _condition(self) -> dict[str, Any]:
        """Fields for `status`; empty: all is well."""
        if self._error is not None:
            return {"state": "failing", "problem": self._error}
        return self._waiter.condition

    def _keep_running(self) -> None:
        """Run again after an unexpected error: it does not end the part."""
        while not self._stopping.is_set():
            try:
                self._run()
            except Exception as error:  # the fence
                self._error = f"{type(error).__name__}: {error}"
                log.exception("%s runs again in %g s", self.name, REST)
                self._stopping.wait(REST)

    def _run(self) -> None:
        raise NotImplementedError

    def _pause(self, seconds: float) -> None:
        """Wait until something may have happened."""
        self._error = None  # a whole round went well
        self._waiter.wait(seconds)
        self._stopping.wait(LOOK_PAUSE)


class OpenDatabase:
    """Our database, kept open, and opened again if it is replaced.

    When the last connection closes, SQLite copies and deletes the log: each write would pay for this and
    wake every watcher of the log. So one connection stays open. A database that is deleted under the
    daemon is not made again: the home may be going away. `open` and `close` belong to one thread;
    `is_current` may be read in any.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._file_id: db.FileId | None = None
        self._was_open = False

    @property
    def is_current(self) -> bool:
        """The file at the path is the one that is open."""
        return self._file_id is not None and db.read_file_id(self._path) == self._file_id

    @property
    def connection(self) -> sqlite3.Connection | None:
        """For reads in the thread that opened it; None: the file is gone or replaced."""
        return self._connection if self.is_current else None

    def open(self) -> bool:
        """Return True if another file is open than before. The first file is made if need be. Raises
        SourceError."""
        if self.is_current:
            return False
        self.close()
        if self._was_open and db.read_file_id(self._path) is None:
            return False
        connection = db.open_writable(self._path)
        try:
            connection.execute("select 1 from outbox limit 1").fetchone()  # opens the log, too
        except sqlite3.Error:
            connection.close()
            raise
        self._connection, self._file_id, self._was_open = connection, db.read_file_id(self._path), True
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._file_id = None
