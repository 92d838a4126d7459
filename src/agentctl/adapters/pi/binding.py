"""Find which Pi process runs which session file. Pi hides that: it overwrites its arguments, never keeps
its file open and writes its pid nowhere.

Exact: the environment of a command that Pi runs has the session's id (since 0.82); the arguments, while
they are visible (0.2 to 0.9 s, always in the Rust port); the id that Pi printed when we launched it.

Inferred: Pi sets the header's time, which is also in the file's name, during its start, long before it
writes the file. The *own* files of a process were created then (`header_time`), in its directory, or
their id continues the sequence of such a file: 1.x numbers its ids per process, which shows `/new`. The
process runs the own file that it wrote last. If another file was written since, the process may have
moved there (`/resume`, or `/new` in versions with random ids): then the owner is uncertain, unless its
turn is open, because a process does not move during a turn. A process without an own file runs the one
older file that no other process claims and whose last prompt came soon after its start, or after a key
at its terminal. If there are two candidates on either side, `bind` decides for neither.
"""

from __future__ import annotations

from agentctl.adapters.pi import header_time
from agentctl.adapters.pi.header_time import Birth, are_kin, read_sequence
from agentctl.adapters.pi.places import find_directory, find_option, make_absolute
from agentctl.adapters.pi.transcript import find_last_prompt, read_header, read_session_id
from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence
from agentctl.system import clock, files, jsonl
from agentctl.system.proc import Process
from agentctl.truth.bind import Tie
from agentctl.truth.launches import find_recorded_exits, is_overtaken
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts

SOON = 20.0  # seconds: a slow start, or the kernel's 8 and the time to type a prompt


class File(NamedTuple):
    """A session file, known by its name."""

    path: str
    name: str
    id: str


class Claim(NamedTuple):
    """A tie, and its file, if there is one."""

    tie: Tie
    path: str | None


def find_claims(look: Look, facts: Callable[[str], Facts]) -> list[Claim]:
    """Return every reason to believe that a live process runs a session."""
    claims: list[Claim] = []
    rest: dict[str, list[Process]] = {}
    launch_ties = {tie.process.pid: tie for tie in look.find_launch_ties()}
    for process in look.own_processes:
        exact = _child_claim(process, look) or _argument_claim(process, look)
        if exact is None and process.pid in launch_ties:
            exact = _launch_claim(launch_ties[process.pid], look)
        if exact is not None:
            claims.append(exact)
        elif (directory := find_directory(process, look)) is not None:
            rest.setdefault(directory, []).append(process)
    taken_ids = {claim.tie.session_id for claim in claims}
    for directory, processes in rest.items():
        claims.extend(_Directory(directory, processes, taken_ids, look, facts).find_claims())
    return claims


def find_silent(look: Look) -> dict[str, tuple[Evidence, ...]]:
    """Return, by directory of session files, evidence of the processes that have written none there.
    Each may have any of the files open (`--session`, `--continue`): that leaves no trace before a
    prompt."""
    doubts: dict[str, tuple[Evidence, ...]] = {}
    for process in look.unbound_processes:
        try:
            directory = find_directory(process, look)
        except Gone:  # the process has ended
            continue
        if directory is not None:
            note = f"pid {process.pid}: at no session that we know, and may have this one open"
            doubt = Evidence("ambiguous", process.identity.address, "derived", note=note)
            doubts[directory] = (*doubts.get(directory, ()), doubt)
    return doubts


def _child_claim(process: Process, look: Look) -> Claim | None:
    """Return the session of the youngest command below the process. An id that the process itself
    inherited is that of the session that started it."""
    inherited = look.read_environ(process).get("PI_SESSION_ID")
    if not (below := look.find_descendants(process)):
        return None
    others = {other.pid for other in look.own_processes}
    for child in sorted(below, key=lambda p: -p.identity.start):
        environ = _read_environ(child)
        session_id = environ.get("PI_SESSION_ID")
        if not session_id or session_id == inherited:
            continue
        if child.pid in others or not _has_pi_between(child, others, process, look):
            tie = Tie(session_id, process, "child's environment", f"{child.identity.address}/environ")
            path = environ.get("PI_SESSION_FILE")
            return Claim(tie, look.resolve_path(child, path) if path else None)
    return None


def _has_pi_between(child: Process, others: set[int], process: Process, look: Look) -> bool:
    """Return True if another Pi is between the two: the command is of that Pi."""
    parent = look.table.get(child.parent)
    while parent is not None and parent.pid != process.pid:
        if parent.pid in others:
            return True
        parent = look.table.get(parent.parent)
    return False


def _read_environ(process: Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except SourceError:  # the process has ended, or is another user's
        return {}


def _launch_claim(tie: Tie, look: Look) -> Claim:
    """Return a claim by our launch note. An old Pi printed its id long before it has a file."""
    directory = find_directory(tie.process, look)
    files_there = _to_files(directory, look.list_names(directory)) if directory is not None else []
    return Claim(tie, next((file.path for file in files_there if file.id == tie.session_id), None))


def _argument_claim(process: Process, look: Look) -> Claim | None:
    directory = find_directory(process, look) if len(process.argv) > 1 else None
    if directory is None:
        return None
    file = _find_by_id_option(process, directory, look) or _find_by_session_option(
        process, directory, look
    )
    if file is None:
        return None
    source = f"{process.identity.address}/cmdline"
    return Claim(Tie(file.id, process, "argument", source), file.path or None)


def _find_by_id_option(process: Process, directory: str, look: Look) -> File | None:
    """Return the file of `--session-id`, which may not exist yet."""
    session_id = find_option(process.argv, "--session-id")
    if session_id is None:
        return None
    matches = [
        file for file in _to_files(directory, look.list_names(directory)) if file.id == session_id
    ]
    return matches[0] if matches else File("", "", session_id)


def _find_by_session_option(process: Process, directory: str, look: Look) -> File | None:
    """Return the file of `--session`: a path, or a prefix that only one session here has."""
    value = find_option(process.argv, "--session")
    if value is None:
        return None
    if "/" in value or value.endswith(".jsonl"):
        path = make_absolute(value, look.read_environ(process), process.cwd or "/")
        path = look.resolve_path(process, path)
        session_id = find_id(path, look)
        return File(path, value, session_id) if session_id else None
    matches = [
        file for file in _to_files(directory, look.list_names(directory)) if file.id.startswith(value)
    ]
    exact = [file for file in matches if file.id == value] or matches
    return exact[0] if len(exact) == 1 else None


def find_id(path: str, look: Look) -> str | None:
    """Return the session id in a file's name; of a file with another name, that in its header."""
    session_id = read_session_id(path)
    if session_id is None:
        value = (_load_header(path, look) or {}).get("id")
        session_id = value if isinstance(value, str) else None
    return session_id


class _Directory:
    """The session files of one directory, and the processes that keep theirs there."""

    def __init__(
        self,
        path: str,
        processes: Sequence[Process],
        taken_ids: set[str],
        look: Look,
        facts: Callable[[str], Facts],
    ) -> None:
        self._look = look
        self._facts = facts
        self._path = path
        self._processes = processes
        self._taken_ids = taken_ids
        self._names = [name for name in look.list_names(path) if name.endswith(".jsonl")]
        self._headers: dict[str, jsonl.Record | None] = {}
        self._mtimes: dict[str, float] = {}
        if exits := find_recorded_exits(look):
            launched = [f for f in _to_files(path, self._names) if f.id in exits]
            self._taken_ids = taken_ids | {
                f.id for f in launched if not is_overtaken(exits[f.id], self._read_mtime(f.path))
            }

    def find_claims(self) -> Iterator[Claim]:
        own = {process.pid: self._find_own(process) for process in self._processes}
        claimed_ids = {file.id for group in own.values() for file in group} | self._taken_ids
        for process in self._processes:
            current = self._find_current(own[process.pid])
            for file in [*current, *self._find_others(process, current, claimed_ids)]:
                yield Claim(Tie(file.id, process, "inferred", file.path), file.path)

    def _find_own(self, process: Process) -> list[File]:
        """Return the files created by the process's start, and those that continue their sequence."""
        birth = header_time.read_birth(process, self._look)
        young = self._list_between(birth.start, self._look.now + 1)
        born = [f for f in self._find_born(birth, young) if self._is_here(f, process)]
        return born + [f for f in young if f not in born and any(are_kin(f.id, b.id) for b in born)]

    def _find_born(self, birth: Birth, young: Sequence[File]) -> list[File]:
        last = _to_stamp(birth.latest)
        times = {f: self._read_creation_time(f) for f in young if f.name < last}
        close = [f for f, created_at in times.items() if birth.is_near_pool(created_at)]
        if close:
            return close
        recent = [f for f, created_at in times.items() if birth.is_in_window(created_at)]
        # A file of 1.x on node is close to the pool of its own process, which is not this one.
        return [f for f in recent if not (birth.on_node and _numbers_its_ids(f.path))]

    def _find_current(self, own: Sequence[File]) -> list[File]:
        """Return the last written file of each sequence of ids. Any of several may be the current
        one."""
        if len(own) < 2:  # nearly always: it needs no time
            return list(own)
        latest: list[File] = []
        for file in sorted(own, key=lambda f: -self._read_mtime(f.path)):
            if not any(are_kin(file.id, other.id) for other in latest):
                latest.append(file)
        return latest

    def _find_others(
        self, process: Process, current: Sequence[File], claimed_ids: set[str]
    ) -> list[File]:
        """Return files that it may have moved to: written later than its own, without a claim."""
        turns = [self._facts(file.path).turn for file in current]
        if any(turn is not None and turn.claim == "working" for turn in turns):
            return []
        start = self._look.find_start_time(process)
        since = max((self._read_mtime(f.path) for f in current), default=start + clock.TICK)
        names = [n for n in self._names if self._read_mtime(f"{self._path}/{n}") > since]
        recent = [f for f in _to_files(self._path, names) if f.id not in claimed_ids]
        older = [f for f in recent if f.name < _to_stamp(start + clock.TICK)]
        if not current:  # else a key shows nothing: the own file is prompted by keys, too
            older = [f for f in older if may_have_prompted(process, f.path, self._look)]
        # Without an own file no trace leads to the process; `look.find_evidence_without_owner` says that
        # it may run the file.
        younger = [
            f for f in recent if f not in older and current and not _is_born_elsewhere(f, current)
        ]
        return [f for f in older + younger if self._is_here(f, process)]

    def _list_between(self, low: float, high: float) -> list[File]:
        """Return files by their names alone, so that a long history costs nothing."""
        first, last = _to_stamp(low), _to_stamp(high)
        names = [name for name in self._names if first < name < last]
        return [f for f in _to_files(self._path, names) if f.id not in self._taken_ids]

    def _read_creation_time(self, file: File) -> float:
        return clock.parse_time((self._read_header(file) or {}).get("timestamp")) or 0.0

    def _is_here(self, file: File, process: Process) -> bool:
        return (self._read_header(file) or {}).get("cwd") == process.cwd

    def _read_header(self, file: File) -> jsonl.Record | None:
        if file.path not in self._headers:
            self._headers[file.path] = _load_header(file.path, self._look)
        return self._headers[file.path]

    def _read_mtime(self, path: str) -> float:
        """Return when a file was last written."""
        if path not in self._mtimes:
            status = self._look.stat(path)
            self._mtimes[path] = status.st_mtime if status is not None else 0.0
        return self._mtimes[path]


def _is_born_elsewhere(file: File, current: Sequence[File]) -> bool:
    """Return True if `/new` did not create the file: it makes UUIDv7 ids, in 1.x in sequence."""
    return read_sequence(file.id) is None or any(_numbers_its_ids(f.path) for f in current)


def _numbers_its_ids(path: str) -> bool:
    """Return True if 1.x began this file: only 1.x records its system message."""
    try:
        return b'"role":"system"' in files.read_head(path, 4096).data
    except SourceError:
        return False


def _to_files(directory: str, names: Iterable[str]) -> list[File]:
    ids = [(name, read_session_id(name)) for name in names]
    return [File(f"{directory}/{name}", name, id_) for name, id_ in ids if id_]


def _load_header(path: str, look: Look) -> jsonl.Record | None:
    try:
        return look.read_file(path, _read_header)
    except Gone:
        return None
    except SourceError as error:
        look.report_unreadable(error)
        return None


def _read_header(path: str, _: Look) -> jsonl.Record | None:
    return read_header(path)


def _to_stamp(seconds: float) -> str:
    """Return a time in the format of file names, which sort by it."""
    return (clock.format_rfc3339(seconds) or "").rstrip("Z").replace(":", "-").replace(".", "-")


def may_have_prompted(process: Process, path: str, look: Look) -> bool:
    """Return False if the last prompt in an older session's file cannot have been for this process.

    Pi may have opened that session; or another Pi, which has ended, wrote there while this one sat at
    its prompt. A prompt comes with the start of a process (`pi -c "go on"`) or from a key at its
    terminal, and the kernel knows when a key last came, to 8 seconds."""
    start = look.find_start_time(process)
    try:
        prompted_at = find_last_prompt(path, start + clock.TICK)
    except SourceError:  # the file is gone, or withheld
        return False
    return prompted_at is not None and prompted_at < max(start, _find_last_key(process, look)) + SOON


def _find_last_key(process: Process, look: Look) -> float:
    """Return when a key last came at the process's terminal; 0 if there is none, or it is withheld."""
    try:
        terminals = {path for path in process.list_open_files() if path.startswith("/dev/pts/")}
    except SourceError:
        return 0.0
    statuses = [look.stat(look.resolve_path(process, path)) for path in terminals]
    return max((status.st_atime for status in statuses if status is not None), default=0.0)
