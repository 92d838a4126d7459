"""OpenCode, since 1.2 on one SQLite database shared by all its processes.

Binding: open files show which database a process uses, but not which session. The process's position in
the shared log does (`log`), or an id in argv, else directory and time (`argv`).
Status: the session's last message, and its tool calls.
Sessions of earlier versions are history (`legacy_json`).
"""

from __future__ import annotations

from agentctl.adapters.base import HistoryQuery, Place, StartModule
from agentctl.adapters.opencode import agent, legacy_json
from agentctl.adapters.opencode import db as database
from agentctl.adapters.opencode.argv import SERVERS, SLACK, Call, read_call
from agentctl.adapters.opencode.binding import Users, bind_all, find_quiet, is_left_by_another
from agentctl.adapters.opencode.db import Row, SessionReader
from agentctl.adapters.opencode.history import observe_history
from agentctl.adapters.opencode.log import Log
from agentctl.adapters.opencode.messages import count_running_commands, find_wait
from agentctl.adapters.opencode.places import (
    check_complete,
    data_directory,
    find_database,
    list_databases,
    report_stale_locks,
    state_directory,
    usual_database,
    writes_log,
)
from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Iterable, Iterator
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.system.program import is_plain_bun, read_program
from agentctl.system.sqlite import Database
from agentctl.truth.bind import Binding
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Message, Observation
from agentctl.truth.observe import discount_earlier_turn, observe_live, settle_wait
from agentctl.truth.survey import observe_process

NAMES = frozenset({"opencode", "opencode.exe", "opencode-cli"})


class OpenCode(StartModule):
    start = "agentctl.adapters.opencode.start"
    name = "opencode"
    api = 1
    comms = agent.PROCESSES
    binary = agent.BINARY
    permission_modes = ("plan", "auto")

    def owns(self, process: Process) -> bool:
        name = read_program(process).name
        return (name in NAMES or name.startswith("opencode-linux-")) and not is_plain_bun(process)

    def recognize(self, look: Look) -> Iterable[Process]:
        """Yield processes, under any name, that have OpenCode's database and its log open."""
        for root in look.find_roots(data_directory):
            for name in look.list_names(root):
                if name.startswith("opencode") and name.endswith(".db-shm"):
                    holders = look.find_lock_holders(f"{root}/{name}")
                    yield from (p for p in holders if writes_log(p, root) and not is_plain_bun(p))

    def live(self, look: Look) -> Iterable[Observation]:
        by_database: dict[str | None, list[Call]] = {}
        clients = []
        for process in look.own_processes:
            call = read_call(process, look)
            if call.kind == "client":
                look.exclude_process(process, "client of a server")
                clients.append(call)
            elif call.kind == "none":
                look.exclude_process(process, f"opencode {call.command} runs no session")
            else:
                by_database.setdefault(find_database(process, look), []).append(call)
        for path, calls in by_database.items():
            log = Log.read(look, (call.process for call in calls)) if path is not None else Log()
            yield from _observe_users(look, Users(path, calls, clients, log))

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        paths = list_databases(look)
        for path in paths:
            yield from observe_history(look, path, query)
        for root in look.find_roots(data_directory):
            if next(legacy_json.list_sessions(look, root), None) is None:
                continue
            database_ids = _read_known_ids(look, paths)
            if database_ids is not None:  # else the copies in a database may be alive
                yield from legacy_json.observe_history(look, root, database_ids, query)

    def messages(self, observation: Observation, look: Look) -> Iterator[Message]:
        if observation.transcript is None or observation.session_id is None:
            return
        try:
            if observation.transcript.endswith(".json"):
                yield from legacy_json.read_messages(observation.transcript, look)
            else:
                yield from database.read_messages(observation.transcript, observation.session_id)
        except Gone:
            return
        except SourceError as error:
            look.report_unreadable(error)

    def signs(self, observation: Observation, look: Look) -> Iterable[str]:
        """OpenCode opens its database, with all sessions, some seconds after its start."""
        if observation.owner is None:
            return
        path = find_database(observation.owner, look)
        if path is None and (usual := usual_database(look.read_environ(observation.owner))) is not None:
            path = look.resolve_path(observation.owner, usual)
        if path is not None:
            yield from (path, f"{path}-wal")

    def places(self, look: Look) -> Iterable[Place]:
        for root in look.find_roots(data_directory):
            yield Place("database", f"{root}/opencode.db")
            yield Place("log", f"{root}/log/opencode.log")
            yield Place("sessions of versions before 1.2", f"{root}/storage/session")
        for path in list_databases(look):
            yield Place("database in use", path)
        for root in look.find_roots(state_directory):
            report_stale_locks(look, f"{root}/locks")


def _read_known_ids(look: Look, paths: Iterable[str]) -> frozenset[str] | None:
    """Return the ids of all sessions in the databases; None if one cannot be read."""
    ids: set[str] = set()
    for path in paths:
        try:
            with Database(check_complete(path)) as db:
                ids |= database.read_ids(db)
        except SourceError as error:
            look.report_unreadable(error)
            return None
    return frozenset(ids)


def _observe_users(look: Look, users: Users) -> Iterator[Observation]:
    path, calls = users.database, users.calls
    argument_ids = [call.session for call in calls if call.session is not None]
    if path is not None:
        try:
            with look.open_database(check_complete(path)) as db:
                # Rounded to a tenth: the computed start of a process differs a little at each look.
                since = (min(call.started_at for call in calls) - SLACK) * 10 // 1 / 10
                rows = database.read_recent_rows(db, argument_ids, since, look.now)
                bindings = bind_all(look, users, rows)
                reader = SessionReader(
                    path, db, [row for row in rows if row.id in bindings], look, is_live=True
                )
        except SourceError as error:
            look.report_unreadable(error)
        else:
            by_id = {row.id: row for row in rows}
            for session_id, binding in bindings.items():
                yield _observe_session(look, binding, by_id.get(session_id), reader, users)
            for call in find_quiet(users, rows, bindings):
                yield _observe_waiting_process(look, call, path)
            return
    # An id in argv needs no database.
    for binding in bind_all(look, users, ()).values():
        yield observe_live(look, binding, path, Facts())


def _observe_waiting_process(look: Look, call: Call, path: str) -> Observation:
    bare = observe_process(look, call.process)
    note = "no turn is open in its database that it could have begun"
    idle = Evidence("idle", path, "derived", call.started_at, note=note)
    return bare._replace(evidence=(*bare.evidence, idle))


def _observe_session(
    look: Look, binding: Binding, row: Row | None, reader: SessionReader, users: Users
) -> Observation:
    if row is None:  # argv names a session that the database does not have (yet)
        return observe_live(look, binding, reader.path, Facts())
    facts = reader.facts(row)
    call = next((call for call in users.calls if call.process is binding.owner), None)
    if call is not None and call.command in SERVERS and not row.is_headless:
        facts = facts._replace(entry_point="daemon")
    evidence = list(reader.evidence(look, row))
    is_alone = call is not None and call.kind != "run" and len(binding.candidates) == 1
    if call is not None and is_alone and is_left_by_another(call, row, users.log):
        note = "its open turn is of a process that is gone"
        evidence = [Evidence("idle", reader.address(row), "derived", call.started_at, note=note)]
    elif call is not None and call.is_attended and any(piece.claim == "working" for piece in evidence):
        evidence = _find_wait_evidence(look, call.process, row, reader, users.log) or evidence
    elif row.message_id is None and call is not None and call.kind == "server":
        evidence = [Evidence("idle", reader.address(row), "journal", row.created, note="no message yet")]
    if call is not None and call.kind == "run" and not call.is_attended:
        evidence = [discount_earlier_turn(piece, call.started_at + TICK) for piece in evidence]
    return observe_live(look, binding, reader.path, facts, *evidence)


def _find_wait_evidence(
    look: Look, owner: Process, row: Row, reader: SessionReader, log: Log
) -> list[Evidence]:
    """Return the wait that replaces "working", which is all that the journal says during a question."""
    parts = reader.parts.of(row.message_id)
    wait = find_wait(parts, lambda since: log.has_asked(owner, since), look.now)
    if wait is None:
        return []
    evidence = Evidence("waiting", reader.address(row), "derived", wait.since, wait.what, wait.note)
    if wait.is_certain and wait.what == "permission":
        new_children = len(
            _find_children(look, owner, wait.since, row.directory)
        ) - count_running_commands(parts)
    else:
        new_children = 0
    if not wait.is_certain or new_children > 0:  # the tool may run
        return [evidence._replace(trusted=False)]
    return [settle_wait(evidence, look.now)]


def _find_children(look: Look, owner: Process, since: float | None, directory: str) -> list[Process]:
    """Return the children that it started there since. Language and MCP servers are older."""
    children = []
    for child in look.find_children(owner):
        try:
            is_here = child.cwd is None or child.cwd == directory
        except Gone:
            continue
        if child.is_alive and is_here and (since is None or look.find_start_time(child) >= since - 1):
            children.append(child)
    return children
