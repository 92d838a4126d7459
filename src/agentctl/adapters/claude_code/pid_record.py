"""Claude Code's own record of a process, `sessions/PID.json`: which process wrote it, and its status.

The record stays after `kill -9`. It is rewritten in place, so a reader may find it empty. Containers
that mount the same home share it, and their pids mean other processes here. It names a provisional
session until `--continue` has found its own. So each record is checked before it is believed.
"""

from __future__ import annotations

import os

from agentctl.adapters.claude_code.places import claude_root
from agentctl.errors import Gone, Malformed, SourceError
from agentctl.light_typing import Iterator, NamedTuple
from agentctl.system import clock, files, jsonl, proc
from agentctl.system.jsonl import as_dict
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Claim, Evidence

SAME_BOOT = 60.0  # seconds between a process and its first record, on a busy machine
TICKS_CAP = 15  # digits: more than any machine has been up
HEX = frozenset("0123456789abcdefABCDEF")
ATTEMPTS = 3  # a half-written record is complete a moment later
STATUSES: dict[str, tuple[Claim, str]] = {
    "busy": ("working", ""),
    "idle": ("idle", ""),
    "shell": ("idle", "background shell"),  # the prompt is free, a background command still runs
}
WAIT_REASONS: dict[str, tuple[Claim, str]] = {
    "permission prompt": ("waiting", "permission"),
    "sandbox request": ("waiting", "permission"),  # a sandboxed command wants to reach the network
    "worker request": ("waiting", "permission"),
    "goal proposal": ("waiting", "permission"),
    "input needed": ("waiting", "question"),
    "dialog open": ("idle", ""),  # /status, /model …: between two turns the agent waits for nothing
}
DIALOG = "status waiting: dialog open"  # the note of that evidence
# States of a background job without a process, as its supervisor writes them.
ENDED_JOBS = {
    "crashed": True,
    "resuming": True,
    "stopped": False,
}  # True: the supervisor starts it again
DONE_JOBS = {"done": "completed", "failed": "failed"}
RUNNING_JOBS = ("working", "running", "blocked")  # the supervisor has not noticed the end yet


class OwnRecord(NamedTuple):
    """The record of a live process, if this process wrote it."""

    process: Process
    root: str
    path: str
    record: jsonl.Record | None  # None: there is none, or it fails the check
    doubt: Evidence | None = None  # why it fails
    is_unclaimed: bool = False  # a spare for background jobs that no job has taken

    @property
    def session_id(self) -> str | None:
        return check_id(self.record.get("sessionId")) if self.record is not None else None


def read_own_record(process: Process, look: Look) -> OwnRecord:
    """Return the record of a process, or of the job that a spare process has taken."""
    root = look.find_root(process, claude_root) or ""
    own = _read_record(process, process.pid, root, look)
    if own.record is None and (inner := _inner_pid(process)) != process.pid:
        # In a child pid namespace the process writes the number that it has there.
        own = _read_record(process, inner, root, look)
    if own.record is None and own.doubt is not None:
        look.report_problem("stale", own.doubt.note, own.path)
    return _read_roster(own, look) if own.record is None and is_spare(process) else own


def is_spare(process: Process) -> bool:
    return "--bg-spare" in process.argv[1:2]


def _read_roster(own: OwnRecord, look: Look) -> OwnRecord:
    """Return the record that the supervisor's roster has of a spare. A spare keeps its arguments when it
    takes a job, and its own record may be gone or unreadable."""
    path = f"{own.root}/daemon/roster.json"
    try:
        workers = as_dict(load(path).get("workers")).values()
    except Gone:
        return own
    except SourceError as error:
        look.report_unreadable(error)
        return own
    process = own.process
    numbers, start = (process.pid, _inner_pid(process)), str(process.identity.start)
    matching = (w for w in map(as_dict, workers) if w.get("replPid") in numbers)
    worker = next((w for w in matching if w.get("replProcStart") == start), None)
    if worker is None:
        return own._replace(is_unclaimed=True)
    record = {"sessionId": worker.get("sessionId"), "kind": "bg", "startedAt": worker.get("startedAt")}
    return own._replace(path=path, record=record)


def _read_record(process: Process, number: int, root: str, look: Look) -> OwnRecord:
    path = f"{root}/sessions/{number}.json"
    try:
        record = look.read_file(path, _load_for_look)
        doubt = _find_flaw(record, process, look)
    except Gone:  # it starts up, shows a first dialog, or is a child session: absent is not dead
        return OwnRecord(process, root, path, None)
    except SourceError as error:
        look.report_unreadable(error)
        return OwnRecord(process, root, path, None)
    if not doubt:
        return OwnRecord(process, root, path, record)
    note = f"{doubt}: its session {check_id(record.get('sessionId'))} is not this process's"
    return OwnRecord(
        process, root, path, None, Evidence("alive", path, "record", note=note, trusted=False)
    )


def find_recorded(root: str, look: Look) -> Iterator[Process]:
    """Yield live processes, under any name, that wrote one of the records."""
    own_pids = {process.pid for process in look.own_processes}
    for name in look.list_names(f"{root}/sessions"):
        number = name.removesuffix(".json")
        process = look.table.get(int(number)) if number.isdecimal() and len(number) < 10 else None
        if process is None or process.pid in own_pids or not process.is_alive:
            continue
        try:
            record = look.read_file(f"{root}/sessions/{name}", _load_for_look)
            if (
                "procStart" in record
                and look.may_show(process)
                and not _find_flaw(record, process, look)
            ):
                yield process
        except Gone:
            continue
        except SourceError as error:
            look.report_unreadable(error)


def load(path: str) -> jsonl.Record:
    """Return the JSON object in a file. Raises SourceError."""
    for _ in range(ATTEMPTS):
        record = jsonl.parse_record(files.read_file(path).data)
        if record is not None:
            return record
    raise Malformed(path, "empty or half-written, not a JSON object")


def _load_for_look(path: str, _: Look) -> jsonl.Record:
    return load(path)


def _find_flaw(record: jsonl.Record, process: Process, look: Look) -> str:
    """Return why the record is not this process's; empty if it is."""
    if not _is_written_by(record, process, look):
        return "written by an earlier process with this pid, or by one of another pid namespace"
    written_in, lives_in = read_namespace(record), process.pid_namespace
    if written_in and lives_in and written_in != lives_in:  # 2.1.197 does not say
        return f"written in another pid namespace, {written_in}"
    return ""


def _is_written_by(record: jsonl.Record, process: Process, look: Look) -> bool:
    """Compare the process's start. Versions before 2.1.113 do not record it: there a record of this pid
    that was written since the process began, in its directory, is its own."""
    if "procStart" in record:
        return bool(record["procStart"] == str(process.identity.start))
    started_at = clock.parse_ms(record.get("startedAt"))
    is_since = started_at is not None and started_at >= look.find_start_time(process) - clock.TICK
    return is_since and record.get("cwd") == process.cwd


def read_namespace(record: jsonl.Record) -> str:
    """Return `pid:[4026531836]` from `linux:MACHINE:pid:[4026531836]`."""
    _, colon, rest = str(record.get("pidDomain", "")).rpartition(":pid:")
    return f"pid:{rest}" if colon else ""


def _inner_pid(process: Process) -> int:
    try:
        return process.read_inner_pid()
    except SourceError:  # the process has just ended, or is withheld: use the pid that we have
        return process.pid


def check_id(session_id: object) -> str | None:
    """Return the id if it is a UUID, as all of Claude's ids are. A damaged id names no session: it does
    not show that the process changed to another one."""
    if not isinstance(session_id, str) or len(session_id) != 36:
        return None
    dashes = {session_id[place] for place in (8, 13, 18, 23)} == {"-"}
    return session_id if dashes and HEX.issuperset(session_id.replace("-", "")) else None


def read_status(record: jsonl.Record, path: str, look: Look) -> Evidence | None:
    """Return the status in a record as evidence; None while it has none."""
    word = record.get("status")
    if word is None:
        return None
    at = clock.parse_ms(record.get("statusUpdatedAt", record.get("updatedAt")))
    if word == "waiting":
        return _read_wait(record, path, at, look)
    if str(word) not in STATUSES:
        return _report_drift("status", record, path, look)
    claim, note = STATUSES[str(word)]
    text = f"status {word}{f': {note}' if note else ''}"
    return Evidence(claim, path, "record", at, note=text)


def _read_wait(record: jsonl.Record, path: str, at: float | None, look: Look) -> Evidence:
    reason = record.get("waitingFor")
    if reason is None:
        return Evidence("waiting", path, "record", at, note="status waiting")
    if str(reason) not in WAIT_REASONS:
        return _report_drift("waitingFor", record, path, look)
    claim, detail = WAIT_REASONS[str(reason)]
    return Evidence(claim, path, "record", at, detail, f"status waiting: {reason}")


def _report_drift(key: str, record: jsonl.Record, path: str, look: Look) -> Evidence:
    word = record.get(key)
    look.report_drift(key, word, str(record.get("version")), path)
    return Evidence("working", path, "record", note=f"{key} {word!r}: not known", trusted=False)


class Leftover(NamedTuple):
    """A record whose process has ended or is out of sight."""

    path: str
    number: int
    record: jsonl.Record
    is_foreign: bool  # from another pid namespace or machine: its process may live out of our sight

    def find_fate(self, look: Look) -> Iterator[Evidence]:
        """Yield what the kernel says about the process that wrote the record."""
        start = str(self.record.get("procStart"))
        if self.is_foreign:
            where = self.record.get("pidDomain")
            note = (
                f"its record was written in another pid namespace or machine ({where}), out of our sight"
            )
            yield Evidence("hidden", self.path, "record", note=note)
        elif start.isdecimal() and len(start) <= TICKS_CAP:
            yield from look.find_end(self.number, int(start), self.path)
        elif "procStart" not in self.record and self._may_be_alive(look):
            note = f"{self.path} names pid {self.number}, which lived when it was written, and lives"
            yield Evidence("hidden", self.path, "derived", note=note)

    def _may_be_alive(self, look: Look) -> bool:
        """Versions before 2.1.113 record no start: the process with this pid may be the writer."""
        process = look.table.get(self.number)
        try:
            return (
                process is not None and process.is_alive and _is_written_by(self.record, process, look)
            )
        except Gone:
            return False
        except SourceError:  # withheld: it may be the writer
            return True


def find_leftovers(root: str, look: Look) -> Iterator[Leftover]:
    """Yield the records that no live process wrote."""
    machine_id, namespaces = _read_machine_id(), _visible_namespaces(look)
    for name in look.list_names(f"{root}/sessions"):
        number, _, rest = name.partition(".")
        if rest != "json" or not number.isdecimal():  # PID.HASH.key holds a secret: never read it
            continue
        path = f"{root}/sessions/{name}"
        try:
            record = load(path)
        except Gone:
            continue
        except SourceError as error:
            look.report_unreadable(error)
            continue
        if not _has_process(record, int(number), look):
            is_foreign = _is_foreign(record, path, machine_id, namespaces, look)
            yield Leftover(path, int(number), record, is_foreign)


def _has_process(record: jsonl.Record, number: int, look: Look) -> bool:
    """Compare starts, not pids: in a child pid namespace the pid is another one."""
    if "procStart" not in record:
        return any(
            process.pid == number and _is_written_by(record, process, look)
            for process in look.own_processes
        )
    here = (look.table.get(number), *look.own_processes)
    starts = {
        str(process.identity.start) for process in here if process is not None and process.is_alive
    }
    start = record.get("procStart")
    return isinstance(start, str) and start in starts


def _visible_namespaces(look: Look) -> set[str]:
    """Return the pid namespaces that we can see: ours, and those of the agent's processes."""
    namespaces = set()
    for process in (look.table.get(os.getpid()), *look.own_processes):
        try:
            namespaces.add((process.pid_namespace or "") if process is not None else "")
        except SourceError:  # the process has just ended
            continue
    return namespaces - {""}


def _read_machine_id() -> str:
    try:
        return files.read_head("/etc/machine-id", 64).data.decode("ascii", "replace").strip()
    except SourceError:  # not every system has one
        return ""


def _is_foreign(
    record: jsonl.Record, path: str, machine_id: str, namespaces: set[str], look: Look
) -> bool:
    """Return True for a record from another container or machine that shares this home."""
    machine, namespace = str(record.get("pidDomain", "")).rpartition(":pid:")[0], read_namespace(record)
    is_elsewhere = machine_id and machine and machine != f"linux:{machine_id}"
    if is_elsewhere or (namespaces and namespace and namespace not in namespaces):
        return True
    return look.visibility.is_on_network(path) and not _is_of_this_boot(record, look)


def _is_of_this_boot(record: jsonl.Record, look: Look) -> bool:
    """Cloned machines have the same id and the same initial pid namespace. But the start tick of a
    process that began here, counted from our boot, gives its start time."""
    began, ticks = clock.parse_ms(record.get("startedAt")), str(record.get("procStart"))
    if began is None or not ticks.isdecimal() or len(ticks) > TICKS_CAP:
        return False
    return abs(look.boot_time + int(ticks) / proc.TICKS - began) < SAME_BOOT


# background jobs


def read_job_state(root: str, session_id: str, look: Look) -> Evidence | None:
    """Return what Claude's supervisor says about a background job without a process."""
    path = f"{root}/jobs/{session_id[:8]}/state.json"
    try:
        job = load(path)
    except Gone:
        return None
    except SourceError as error:
        look.report_unreadable(error)
        return None
    state, detail = str(job.get("state")), str(job.get("detail") or "")
    if session_id not in (job.get("sessionId"), job.get("resumeSessionId")) or state in RUNNING_JOBS:
        return None
    at, note = clock.parse_time(job.get("updatedAt")), f"job {state}: {detail}"
    if state in DONE_JOBS:
        return Evidence("idle", path, "record", at, DONE_JOBS[state], note)
    if state not in ENDED_JOBS:
        look.report_drift("job state", state, str(job.get("cliVersion")), path)
        return None
    if ENDED_JOBS[state]:
        note += "; Claude's own supervisor is about to respawn it"
    return Evidence("exited", path, "record", at, note=note, value=_read_signal(detail))


def _read_signal(detail: str) -> int | None:
    """Return minus the signal from `SIGKILL (137); respawning`; None if there is none."""
    name, _, rest = detail.partition(" (")
    number = rest.partition(")")[0]
    is_signal = name.startswith("SIG") and number.isdecimal() and len(number) < 4
    return 128 - int(number) if is_signal else None
