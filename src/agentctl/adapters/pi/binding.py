"""Which Pi process runs which session file, though Pi hides it: it overwrites its arguments, never
keeps its file open and writes no pid anywhere.

Exact: a command that Pi runs for a session carries the session's id in its environment (since 0.82);
arguments, while they are still visible (0.2 to 0.9 s, always in the Rust port); what it told us when we
launched it.

Inferred: Pi makes the header's time, which is also in the file's name, on its start, long before it
writes the file. A process's *own* files are those born then (`header_time`), in its directory, and those
whose id continues the sequence of such a file: 1.x numbers its ids per process, which shows `/new`. It
runs the one of them that it wrote last, unless somebody wrote another file since that it may have
moved to (`/resume`, or `/new` in versions with random ids): then nothing tells, unless its turn is open,
because whoever is in the middle of a turn has not moved. A process without a file of its own runs the
one older file that no other process claims and whose last prompt came soon after its start, or after a
key was pressed at its terminal (`hand`). Two candidates on either side are `bind`'s to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from agentctl.adapters.pi import hand, header_time
from agentctl.adapters.pi.header_time import Birth, kin, sequence
from agentctl.adapters.pi.places import absolute, directory, option
from agentctl.adapters.pi.transcript import header_of, session_id
from agentctl.errors import Gone, SourceError
from agentctl.system import clock, files, jsonl
from agentctl.system.proc import Process
from agentctl.truth.bind import Tie
from agentctl.truth.launched import ends, overtaken
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts


class File(NamedTuple):
    """A session file, of which only the name has been looked at."""

    path: str
    name: str
    id: str


class Claim(NamedTuple):
    """A tie, and the file it is about, if there is one."""

    tie: Tie
    path: str | None


def claims(look: Look, facts: Callable[[str], Facts]) -> list[Claim]:
    """Every reason to believe that a live process runs a session."""
    found: list[Claim] = []
    rest: dict[str, list[Process]] = {}
    noted = {tie.process.pid: tie for tie in look.noted()}
    for process in look.owned:
        exact = _told_by_child(process, look) or _told_by_argument(process, look)
        if exact is None and process.pid in noted:
            exact = _told_by_note(noted[process.pid], look)
        if exact is not None:
            found.append(exact)
        elif (place := directory(process, look)) is not None:
            rest.setdefault(place, []).append(process)
    taken = {claim.tie.session_id for claim in found}
    for place, processes in rest.items():
        found.extend(_Shelf(place, processes, taken, look, facts).claims())
    return found


def silent(look: Look) -> dict[str, tuple[Evidence, ...]]:
    """By directory of session files: the processes that keep theirs there and have written none. Each
    may have any of them open (`--session`, `--continue`): that leaves no trace before a prompt."""
    found: dict[str, tuple[Evidence, ...]] = {}
    for process in look.loose:
        try:
            place = directory(process, look)
        except Gone:  # it has ended since we looked, and has nothing open any more
            continue
        if place is not None:
            note = f"pid {process.pid}: at no session that we know, and may have this one open"
            doubt = Evidence("ambiguous", process.identity.address, "derived", note=note)
            found[place] = (*found.get(place, ()), doubt)
    return found


def _told_by_child(process: Process, look: Look) -> Claim | None:
    """The session that the youngest command below it was started for. An id that the process itself
    has inherited is that of the session which started *it*."""
    inherited = look.environ_of(process).get("PI_SESSION_ID")
    others = {other.pid for other in look.owned}
    for child in sorted(look.descendants(process), key=lambda p: -p.identity.start):
        environ = _environ(child)
        told = environ.get("PI_SESSION_ID")
        if not told or told == inherited:
            continue
        if child.pid in others or not _below(child, others, process, look):
            tie = Tie(told, process, "child's environment", f"{child.identity.address}/environ")
            path = environ.get("PI_SESSION_FILE")
            return Claim(tie, look.through(child, path) if path else None)
    return None


def _below(child: Process, others: set[int], process: Process, look: Look) -> bool:
    """Whether another Pi stands between the two: what it runs is its own business."""
    parent = look.table.get(child.parent)
    while parent is not None and parent.pid != process.pid:
        if parent.pid in others:
            return True
        parent = look.table.get(parent.parent)
    return False


def _environ(process: Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except SourceError:  # gone, or run as another user: it tells us nothing
        return {}


def _told_by_note(tie: Tie, look: Look) -> Claim:
    """We launched it, and it told us its id, long before there is a file where it is an old one."""
    place = directory(tie.process, look)
    found = _files(place, look.names(place)) if place is not None else []
    return Claim(tie, next((file.path for file in found if file.id == tie.session_id), None))


def _told_by_argument(process: Process, look: Look) -> Claim | None:
    place = directory(process, look) if len(process.argv) > 1 else None
    if place is None:
        return None
    file = _chosen(process, place, look) or _named(process, place, look)
    if file is None:
        return None
    source = f"{process.identity.address}/cmdline"
    return Claim(Tie(file.id, process, "argument", source), file.path or None)


def _chosen(process: Process, place: str, look: Look) -> File | None:
    """`--session-id`: known before there is a file."""
    given = option(process.argv, "--session-id")
    if given is None:
        return None
    found = [file for file in _files(place, look.names(place)) if file.id == given]
    return found[0] if found else File("", "", given)


def _named(process: Process, place: str, look: Look) -> File | None:
    """`--session`: a path, or any prefix that only one session of this directory has."""
    given = option(process.argv, "--session")
    if given is None:
        return None
    if "/" in given or given.endswith(".jsonl"):
        path = absolute(given, look.environ_of(process), process.cwd or "/")
        path = look.through(process, path)
        known = id_of(path, look)
        return File(path, given, known) if known else None
    fitting = [file for file in _files(place, look.names(place)) if file.id.startswith(given)]
    exact = [file for file in fitting if file.id == given] or fitting
    return exact[0] if len(exact) == 1 else None


def id_of(path: str, look: Look) -> str | None:
    """By name; a file with a name of somebody's choice says it in its header."""
    known = session_id(path)
    if known is None:
        told = (_header(path, look) or {}).get("id")
        known = told if isinstance(told, str) else None
    return known


class _Shelf:
    """The session files of one directory, and the processes that keep theirs there."""

    def __init__(
        self,
        place: str,
        processes: Sequence[Process],
        taken: set[str],
        look: Look,
        facts: Callable[[str], Facts],
    ) -> None:
        self._look = look
        self._facts = facts
        self._place = place
        self._processes = processes
        self._taken = taken
        self._names = [name for name in look.names(place) if name.endswith(".jsonl")]
        self._headers: dict[str, jsonl.Record | None] = {}
        self._written: dict[str, float] = {}
        if over := ends(look):
            known = [f for f in _files(place, self._names) if f.id in over]
            self._taken = taken | {f.id for f in known if not overtaken(over[f.id], self._time(f.path))}

    def claims(self) -> Iterator[Claim]:
        own = {process.pid: self._own(process) for process in self._processes}
        spoken_for = {file.id for found in own.values() for file in found} | self._taken
        for process in self._processes:
            current = self._current(own[process.pid])
            for file in [*current, *self._others(process, current, spoken_for)]:
                yield Claim(Tie(file.id, process, "inferred", file.path), file.path)

    def _own(self, process: Process) -> list[File]:
        """Born on its start, and what continues their sequence."""
        its = header_time.of(process, self._look)
        young = self._between(its.start, self._look.now + 1)
        born = [f for f in self._born(its, young) if self._here(f, process)]
        return born + [f for f in young if f not in born and any(kin(f.id, b.id) for b in born)]

    def _born(self, its: Birth, young: Sequence[File]) -> list[File]:
        last = _moment(its.latest)
        times = {f: self._made_at(f) for f in young if f.name < last}
        close = [f for f, made_at in times.items() if its.near_pool(made_at)]
        if close:
            return close
        recent = [f for f, made_at in times.items() if its.in_window(made_at)]
        # What 1.x made on node is close to the pool of whoever made it: not this one.
        return [f for f in recent if not (its.on_node and _numbers_its_ids(f.path))]

    def _current(self, own: Sequence[File]) -> list[File]:
        """Of each sequence of ids the file written last; several: any of them may be the one."""
        found: list[File] = []
        for file in sorted(own, key=lambda f: -self._time(f.path)):
            if not any(kin(file.id, other.id) for other in found):
                found.append(file)
        return found

    def _others(self, process: Process, current: Sequence[File], spoken_for: set[str]) -> list[File]:
        """Files that it may have moved to: written later than its own, claimed by nobody."""
        turns = [self._facts(file.path).turn for file in current]
        if any(turn is not None and turn.claim == "working" for turn in turns):
            return []
        start = self._look.started_at(process)
        since = max((self._time(f.path) for f in current), default=start + clock.TICK)
        names = [n for n in self._names if self._time(f"{self._place}/{n}") > since]
        recent = [f for f in _files(self._place, names) if f.id not in spoken_for]
        older = [f for f in recent if f.name < _moment(start + clock.TICK)]
        if not current:  # otherwise a key says nothing: its own file, too, is prompted by one
            older = [f for f in older if hand.may_have_prompted(process, f.path, self._look)]
        # Without a file of its own no sign points to it; `look.unowned` says that it may be the one.
        younger = [f for f in recent if f not in older and current and not _born_elsewhere(f, current)]
        return [f for f in older + younger if self._here(f, process)]

    def _between(self, low: float, high: float) -> list[File]:
        """By name alone, so that a long history costs no look into it."""
        first, last = _moment(low), _moment(high)
        names = [name for name in self._names if first < name < last]
        return [f for f in _files(self._place, names) if f.id not in self._taken]

    def _made_at(self, file: File) -> float:
        return clock.parse((self._header(file) or {}).get("timestamp")) or 0.0

    def _here(self, file: File, process: Process) -> bool:
        return (self._header(file) or {}).get("cwd") == process.cwd

    def _header(self, file: File) -> jsonl.Record | None:
        if file.path not in self._headers:
            self._headers[file.path] = _header(file.path, self._look)
        return self._headers[file.path]

    def _time(self, path: str) -> float:
        """When it was last written."""
        if path not in self._written:
            status = self._look.status(path)
            self._written[path] = status.st_mtime if status is not None else 0.0
        return self._written[path]


def _born_elsewhere(file: File, current: Sequence[File]) -> bool:
    """`/new` makes UUIDv7 ids, and in 1.x they would continue the sequence."""
    return sequence(file.id) is None or any(_numbers_its_ids(f.path) for f in current)


def _numbers_its_ids(path: str) -> bool:
    """Whether 1.x began this file: it alone writes down its system message."""
    try:
        return b'"role":"system"' in files.head(path, 4096).data
    except SourceError:
        return False


def _files(place: str, names: Iterable[str]) -> list[File]:
    found = [(name, session_id(name)) for name in names]
    return [File(f"{place}/{name}", name, known) for name, known in found if known]


def _header(path: str, look: Look) -> jsonl.Record | None:
    try:
        return look.read(path, _read_header)
    except Gone:
        return None
    except SourceError as error:
        look.unreadable(error)
        return None


def _read_header(path: str, _: Look) -> jsonl.Record | None:
    return header_of(path)


def _moment(seconds: float) -> str:
    """A time as file names begin with it: they sort as their times do."""
    return (clock.rfc3339(seconds) or "").rstrip("Z").replace(":", "-").replace(".", "-")
