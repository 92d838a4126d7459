"""Claude Code's own record of a process, `sessions/PID.json`: whose it is, and what it says.

It is left behind by `kill -9`, rewritten in place (a reader may catch it empty), shared with
containers that mount the same home (their pids mean other processes here), and names a provisional
session until `--continue` has found its own. So it is believed only after it was checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from agentctl.adapters.roots import claude_root
from agentctl.errors import Gone, Malformed, SourceError
from agentctl.system import clock, files, jsonl, proc
from agentctl.system.jsonl import as_dict
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Claim, Evidence

SAME_BOOT = 60.0  # seconds between a process and its first record, on a busy machine
TICKS_CAP = 15  # digits: more than any machine has been up
HEX = frozenset("0123456789abcdefABCDEF")
ATTEMPTS = 3  # a record caught half-written is whole a moment later
SAYS: dict[str, tuple[Claim, str]] = {
    "busy": ("working", ""),
    "idle": ("idle", ""),
    "shell": ("idle", "background shell"),  # the prompt is free, a command it left behind runs on
}
WAITS: dict[str, tuple[Claim, str]] = {
    "permission prompt": ("waiting", "permission"),
    "sandbox request": ("waiting", "permission"),  # a sandboxed command wants to reach the network
    "worker request": ("waiting", "permission"),
    "goal proposal": ("waiting", "permission"),
    "input needed": ("waiting", "question"),
    "dialog open": ("idle", ""),  # /status, /model …: between two turns nobody is blocked on the agent
}
DIALOG = "status waiting: dialog open"  # how the evidence of that reads
# What the supervisor of background jobs says of one that has no process.
ENDED_JOBS = {"crashed": True, "resuming": True, "stopped": False}  # whether it comes back by itself
DONE_JOBS = {"done": "completed", "failed": "failed"}
RUNNING_JOBS = ("working", "running", "blocked")  # it has not noticed yet


class Paper(NamedTuple):
    """What a process's own record says, if it is its own."""

    process: Process
    root: str
    path: str
    record: jsonl.Record | None  # None: none, or none that can be believed
    doubt: Evidence | None = None  # why not
    unclaimed: bool = False  # a spare for background jobs that no job has taken

    @property
    def session_id(self) -> str | None:
        return plausible(self.record.get("sessionId")) if self.record is not None else None


def paper(process: Process, look: Look) -> Paper:
    root = look.root_of(process, claude_root) or ""
    found = _look_up(process, process.pid, root, look)
    if found.record is None and (inner := _inner_pid(process)) != process.pid:
        # in a child pid namespace it writes the number that it has there
        found = _look_up(process, inner, root, look)
    if found.record is None and found.doubt is not None:
        look.problem("stale", found.doubt.note, found.path)
    return _by_roster(found, look) if found.record is None and is_spare(process) else found


def is_spare(process: Process) -> bool:
    return "--bg-spare" in process.argv[1:2]


def _by_roster(found: Paper, look: Look) -> Paper:
    """A spare keeps its arguments when a job takes it, and its own record may be gone or unreadable:
    the supervisor's roster tells which job it runs. Where that cannot be read, nothing tells."""
    path = f"{found.root}/daemon/roster.json"
    try:
        workers = as_dict(load(path).get("workers")).values()
    except Gone:
        return found
    except SourceError as error:
        look.unreadable(error)
        return found
    process = found.process
    numbers, start = (process.pid, _inner_pid(process)), str(process.identity.start)
    named = (w for w in map(as_dict, workers) if w.get("replPid") in numbers)
    mine = next((w for w in named if w.get("replProcStart") == start), None)
    if mine is None:
        return found._replace(unclaimed=True)
    told = {"sessionId": mine.get("sessionId"), "kind": "bg", "startedAt": mine.get("startedAt")}
    return found._replace(path=path, record=told)


def _look_up(process: Process, number: int, root: str, look: Look) -> Paper:
    path = f"{root}/sessions/{number}.json"
    try:
        record = look.read(path, _load)
        doubt = _flaw(record, process, look)
    except Gone:  # starting up, in a dialog before that, or a child session: absent is not dead
        return Paper(process, root, path, None)
    except SourceError as error:
        look.unreadable(error)
        return Paper(process, root, path, None)
    if not doubt:
        return Paper(process, root, path, record)
    note = f"{doubt}: its session {plausible(record.get('sessionId'))} is not this process's"
    return Paper(process, root, path, None, Evidence("alive", path, "record", note=note, trusted=False))


def recorded(root: str, look: Look) -> Iterator[Process]:
    """Live processes that a record of theirs names, whatever they are called."""
    known = {process.pid for process in look.owned}
    for name in look.names(f"{root}/sessions"):
        number = name.removesuffix(".json")
        process = look.table.get(int(number)) if number.isdecimal() and len(number) < 10 else None
        if process is None or process.pid in known or not process.alive:
            continue
        try:
            record = look.read(f"{root}/sessions/{name}", _load)
            if "procStart" in record and look.admits(process) and not _flaw(record, process, look):
                yield process
        except Gone:
            continue
        except SourceError as error:
            look.unreadable(error)


def load(path: str) -> jsonl.Record:
    for _ in range(ATTEMPTS):
        record = jsonl.parse(files.whole(path).data)
        if record is not None:
            return record
    raise Malformed(path, "empty or half-written, not a JSON object")


def _load(path: str, _: Look) -> jsonl.Record:
    return load(path)


def _flaw(record: jsonl.Record, process: Process, look: Look) -> str:
    """Why the record is not this process's; empty if it is."""
    if not _is_by(record, process, look):
        return "written by an earlier process with this pid, or by one of another pid namespace"
    written_in, lives_in = namespace(record), process.namespace
    if written_in and lives_in and written_in != lives_in:  # 2.1.197 does not say
        return f"written in another pid namespace, {written_in}"
    return ""


def _is_by(record: jsonl.Record, process: Process, look: Look) -> bool:
    """By its start. Versions before 2.1.113 do not write that down: but whatever was written under this
    number since the process began is its own, if it was written in its directory too."""
    if "procStart" in record:
        return bool(record["procStart"] == str(process.identity.start))
    written = clock.from_ms(record.get("startedAt"))
    since = written is not None and written >= look.started_at(process) - clock.TICK
    return since and record.get("cwd") == process.cwd


def namespace(record: jsonl.Record) -> str:
    """`pid:[4026531836]` out of `linux:MACHINE:pid:[4026531836]`."""
    _, colon, rest = str(record.get("pidDomain", "")).rpartition(":pid:")
    return f"pid:{rest}" if colon else ""


def _inner_pid(process: Process) -> int:
    try:
        return process.inner_pid()
    except SourceError:  # it has just ended, or it may not be asked: the number we know
        return process.pid


def plausible(session_id: object) -> str | None:
    """A UUID, as all of Claude's ids are. A damaged id names no session; above all it does not say that
    the process runs another one than before."""
    if not isinstance(session_id, str) or len(session_id) != 36:
        return None
    dashes = {session_id[place] for place in (8, 13, 18, 23)} == {"-"}
    return session_id if dashes and HEX.issuperset(session_id.replace("-", "")) else None


def status(record: jsonl.Record, path: str, look: Look) -> Evidence | None:
    """The live status it publishes; None while it publishes none."""
    word = record.get("status")
    if word is None:
        return None
    at = clock.from_ms(record.get("statusUpdatedAt", record.get("updatedAt")))
    if word == "waiting":
        return _waiting(record, path, at, look)
    if str(word) not in SAYS:
        return _drifted("status", record, path, look)
    claim, note = SAYS[str(word)]
    said = f"status {word}{f': {note}' if note else ''}"
    return Evidence(claim, path, "record", at, note=said)


def _waiting(record: jsonl.Record, path: str, at: float | None, look: Look) -> Evidence:
    reason = record.get("waitingFor")
    if reason is None:
        return Evidence("waiting", path, "record", at, note="status waiting")
    if str(reason) not in WAITS:
        return _drifted("waitingFor", record, path, look)
    claim, detail = WAITS[str(reason)]
    return Evidence(claim, path, "record", at, detail, f"status waiting: {reason}")


def _drifted(key: str, record: jsonl.Record, path: str, look: Look) -> Evidence:
    word = record.get(key)
    look.drift(key, word, str(record.get("version")), path)
    return Evidence("working", path, "record", note=f"{key} {word!r}: not known", trusted=False)


class Leftover(NamedTuple):
    """A record whose process is not here (any more)."""

    path: str
    number: int
    record: jsonl.Record
    foreign: bool  # of another pid namespace or machine: its process may live where we cannot look

    def fate(self, look: Look) -> Iterator[Evidence]:
        """Where its process is, by the kernel's word."""
        start = str(self.record.get("procStart"))
        if self.foreign:
            where = self.record.get("pidDomain")
            note = (
                f"its record was written in another pid namespace or machine ({where}), out of our sight"
            )
            yield Evidence("hidden", self.path, "record", note=note)
        elif start.isdecimal() and len(start) <= TICKS_CAP:
            yield from look.fate(self.number, int(start), self.path)
        elif "procStart" not in self.record and self._may_be_held(look):
            note = f"{self.path} names pid {self.number}, which lived when it was written, and lives"
            yield Evidence("hidden", self.path, "derived", note=note)

    def _may_be_held(self, look: Look) -> bool:
        """Versions before 2.1.113 write no start: the process of that number may be its writer."""
        process = look.table.get(self.number)
        try:
            return process is not None and process.alive and _is_by(self.record, process, look)
        except Gone:
            return False
        except SourceError:  # withheld: it may be
            return True


def leftovers(root: str, look: Look) -> Iterator[Leftover]:
    machine, visible = _machine(), _visible(look)
    for name in look.names(f"{root}/sessions"):
        number, _, rest = name.partition(".")
        if rest != "json" or not number.isdecimal():  # PID.HASH.key is a secret: never read
            continue
        path = f"{root}/sessions/{name}"
        try:
            record = load(path)
        except Gone:
            continue
        except SourceError as error:
            look.unreadable(error)
            continue
        if not _has_holder(record, int(number), look):
            foreign = _is_foreign(record, path, machine, visible, look)
            yield Leftover(path, int(number), record, foreign)


def _has_holder(record: jsonl.Record, number: int, look: Look) -> bool:
    """By its start alone among our own: in a child namespace the number is another one."""
    if "procStart" not in record:
        return any(process.pid == number and _is_by(record, process, look) for process in look.owned)
    here = (look.table.get(number), *look.owned)
    starts = {str(process.identity.start) for process in here if process is not None and process.alive}
    start = record.get("procStart")
    return isinstance(start, str) and start in starts


def _visible(look: Look) -> set[str]:
    """Pid namespaces we see into: ours, and those of every process that we see."""
    found = set()
    for process in (look.table.get(os.getpid()), *look.owned):
        try:
            found.add((process.namespace or "") if process is not None else "")
        except SourceError:  # it has just ended
            continue
    return found - {""}


def _machine() -> str:
    try:
        return files.head("/etc/machine-id", 64).data.decode("ascii", "replace").strip()
    except SourceError:  # not every system has one
        return ""


def _is_foreign(record: jsonl.Record, path: str, machine: str, visible: set[str], look: Look) -> bool:
    """A home may be shared with containers and, over a network, with other machines."""
    there, inside = str(record.get("pidDomain", "")).rpartition(":pid:")[0], namespace(record)
    elsewhere = machine and there and there != f"linux:{machine}"
    if elsewhere or (visible and inside and inside not in visible):
        return True
    return look.sight.is_on_network(path) and not _is_of_this_boot(record, look)


def _is_of_this_boot(record: jsonl.Record, look: Look) -> bool:
    """Machines that were cloned have one id, and each has the initial pid namespace. But a process that
    began here began when its start tick says, counted from our boot."""
    began, ticks = clock.from_ms(record.get("startedAt")), str(record.get("procStart"))
    if began is None or not ticks.isdecimal() or len(ticks) > TICKS_CAP:
        return False
    return abs(look.boot_time + int(ticks) / proc.TICKS - began) < SAME_BOOT


# background jobs


def job_word(root: str, session_id: str, look: Look) -> Evidence | None:
    """The word of Claude's own supervisor on a background job that has no process."""
    path = f"{root}/jobs/{session_id[:8]}/state.json"
    try:
        job = load(path)
    except Gone:
        return None
    except SourceError as error:
        look.unreadable(error)
        return None
    state, detail = str(job.get("state")), str(job.get("detail") or "")
    if session_id not in (job.get("sessionId"), job.get("resumeSessionId")) or state in RUNNING_JOBS:
        return None
    at, note = clock.parse(job.get("updatedAt")), f"job {state}: {detail}"
    if state in DONE_JOBS:
        return Evidence("idle", path, "record", at, DONE_JOBS[state], note)
    if state not in ENDED_JOBS:
        look.drift("job state", state, str(job.get("cliVersion")), path)
        return None
    if ENDED_JOBS[state]:
        note += "; Claude's own supervisor is about to respawn it"
    return Evidence("exited", path, "record", at, note=note, value=_signal(detail))


def _signal(detail: str) -> int | None:
    """Minus the signal, out of `SIGKILL (137); respawning`."""
    name, _, rest = detail.partition(" (")
    number = rest.partition(")")[0]
    is_signal = name.startswith("SIG") and number.isdecimal() and len(number) < 4
    return 128 - int(number) if is_signal else None
