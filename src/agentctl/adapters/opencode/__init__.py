"""OpenCode, since 1.2 on one SQLite database shared by all its processes.

Binding: the open descriptors tell which database a process uses, never which session; how far it has
written in the log that all share does (`log`), or an id in argv, else directory and time (`argv`).
Status: the session's last message, and its tool calls.
Sessions of earlier versions are history (`legacy_json`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentctl.adapters.base import Place, Starting, Wanted
from agentctl.adapters.opencode import db as database
from agentctl.adapters.opencode import history as ended
from agentctl.adapters.opencode import legacy_json
from agentctl.adapters.opencode.argv import SERVERS, SLACK, Call, read_call
from agentctl.adapters.opencode.binding import Users, bind_all, left_by_another, quiet
from agentctl.adapters.opencode.db import Row
from agentctl.adapters.opencode.log import Log
from agentctl.adapters.opencode.messages import asking, running_commands
from agentctl.adapters.opencode.places import (
    database_of,
    databases,
    made,
    stale_locks,
    state_home,
    usual_database,
    writes_log,
)
from agentctl.adapters.opencode.words import Words
from agentctl.adapters.registry import COMMS
from agentctl.adapters.roots import opencode_data
from agentctl.errors import Gone, SourceError
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.system.program import acts_as_runtime, program_of
from agentctl.system.sqlite import Database
from agentctl.truth.bind import Bound
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Message, Observation
from agentctl.truth.observe import living, settled, unless_prompted
from agentctl.truth.survey import bare_process

NAMES = frozenset({"opencode", "opencode.exe", "opencode-cli"})


class OpenCode(Starting):
    start = "agentctl.adapters.opencode.start"
    name = "opencode"
    comms = COMMS["opencode"]
    binary = "opencode"
    permission_modes = ("plan", "auto")

    def owns(self, process: Process) -> bool:
        name = program_of(process).name
        return (name in NAMES or name.startswith("opencode-linux-")) and not acts_as_runtime(process)

    def recognised(self, look: Look) -> Iterable[Process]:
        """Whoever has both its database and its log open is OpenCode, under whatever name."""
        for root in look.roots(opencode_data):
            for name in look.names(root):
                if name.startswith("opencode") and name.endswith(".db-shm"):
                    holders = look.lock_holders(f"{root}/{name}")
                    yield from (p for p in holders if writes_log(p, root) and not acts_as_runtime(p))

    def live(self, look: Look) -> Iterable[Observation]:
        used: dict[str | None, list[Call]] = {}
        clients = []
        for process in look.owned:
            call = read_call(process, look)
            if call.kind == "client":
                look.set_aside(process, "client of a server")
                clients.append(call)
            elif call.kind == "none":
                look.set_aside(process, f"opencode {call.command} runs no session")
            else:
                used.setdefault(database_of(process, look), []).append(call)
        for path, calls in used.items():
            log = Log.read(look, (call.process for call in calls)) if path is not None else Log()
            yield from _living(look, Users(path, calls, clients, log))

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        paths = databases(look)
        for path in paths:
            yield from ended.history(look, path, wanted)
        for root in look.roots(opencode_data):
            if next(legacy_json.sessions(look, root), None) is None:
                continue
            known = _known(look, paths)
            if known is not None:  # else their copies in a database may be alive: nothing is said
                yield from legacy_json.history(look, root, known, wanted)

    def messages(self, seen: Observation, look: Look) -> Iterator[Message]:
        if seen.transcript is None or seen.session_id is None:
            return
        try:
            if seen.transcript.endswith(".json"):
                yield from legacy_json.messages(seen.transcript, look)
            else:
                yield from database.messages(seen.transcript, seen.session_id)
        except Gone:
            return
        except SourceError as error:
            look.unreadable(error)

    def signs(self, seen: Observation, look: Look) -> Iterable[str]:
        """All its sessions are in its database, which it opens some seconds after its start."""
        if seen.owner is None:
            return
        path = database_of(seen.owner, look)
        if path is None and (usual := usual_database(look.environ_of(seen.owner))) is not None:
            path = look.through(seen.owner, usual)
        if path is not None:
            yield from (path, f"{path}-wal")

    def places(self, look: Look) -> Iterable[Place]:
        for root in look.roots(opencode_data):
            yield Place("database", f"{root}/opencode.db")
            yield Place("log", f"{root}/log/opencode.log")
            yield Place("sessions of versions before 1.2", f"{root}/storage/session")
        for path in databases(look):
            yield Place("database in use", path)
        for root in look.roots(state_home):
            stale_locks(look, f"{root}/locks")


def _known(look: Look, paths: Iterable[str]) -> frozenset[str] | None:
    """Ids of all sessions in the databases; None when one cannot be read."""
    known: set[str] = set()
    for path in paths:
        try:
            with Database(made(path)) as db:
                known |= database.ids(db)
        except SourceError as error:
            look.unreadable(error)
            return None
    return frozenset(known)


def _living(look: Look, users: Users) -> Iterator[Observation]:
    path, calls = users.database, users.calls
    named = [call.session for call in calls if call.session is not None]
    if path is not None:
        try:
            with look.database(made(path)) as db:
                # down to a tenth: when a process began comes out a little different at each look
                since = (min(call.started for call in calls) - SLACK) * 10 // 1 / 10
                rows = database.touched(db, named, since, look.now)
                bound = bind_all(look, users, rows)
                words = Words(path, db, [row for row in rows if row.id in bound], look, live=True)
        except SourceError as error:
            look.unreadable(error)
        else:
            by_id = {row.id: row for row in rows}
            for session_id, owner in bound.items():
                yield _observed(look, owner, by_id.get(session_id), words, users)
            for call in quiet(users, rows, bound):
                yield _at_its_prompt(look, call, path)
            return
    # what argv names is known without any database
    for owner in bind_all(look, users, ()).values():
        yield living(look, owner, path, Facts())


def _at_its_prompt(look: Look, call: Call, path: str) -> Observation:
    bare = bare_process(look, call.process)
    note = "no turn is open in its database that it could have begun"
    idle = Evidence("idle", path, "derived", call.started, note=note)
    return bare._replace(evidence=(*bare.evidence, idle))


def _observed(look: Look, bound: Bound, row: Row | None, words: Words, users: Users) -> Observation:
    if row is None:  # argv names a session that the database does not have (yet)
        return living(look, bound, words.path, Facts())
    facts = words.facts(row)
    call = next((call for call in users.calls if call.process is bound.owner), None)
    if call is not None and call.command in SERVERS and not row.headless:
        facts = facts._replace(entry_point="daemon")
    evidence = list(words.evidence(look, row))
    alone = call is not None and call.kind != "run" and len(bound.candidates) == 1
    if call is not None and alone and left_by_another(call, row, users.log):
        note = "its open turn is of a process that is gone"
        evidence = [Evidence("idle", words.address(row), "derived", call.started, note=note)]
    elif call is not None and call.attended and any(piece.claim == "working" for piece in evidence):
        evidence = _working(look, call.process, row, words, users.log) or evidence
    elif row.message_id is None and call is not None and call.kind == "server":
        evidence = [Evidence("idle", words.address(row), "journal", row.created, note="no message yet")]
    if call is not None and call.kind == "run" and not call.attended:
        evidence = [unless_prompted(piece, call.started + TICK) for piece in evidence]
    return living(look, bound, words.path, facts, *evidence)


def _working(look: Look, owner: Process, row: Row, words: Words, log: Log) -> list[Evidence]:
    """What stands in for the journal's "working", which is all it says while a person is asked."""
    parts = words.parts.of(row.message_id)
    asked = asking(parts, lambda since: log.has_asked(owner, since), look.now)
    if asked is None:
        return []
    found = Evidence("waiting", words.address(row), "derived", asked.since, asked.what, asked.note)
    if asked.sure and asked.what == "permission":
        begun = len(_children_since(look, owner, asked.since, row.directory)) - running_commands(parts)
    else:
        begun = 0
    if not asked.sure or begun > 0:  # the tool may run after all
        return [found._replace(trusted=False)]
    return [settled(found, look.now)]


def _children_since(look: Look, owner: Process, since: float | None, directory: str) -> list[Process]:
    """Those that it started there since. Language and MCP servers are children too, but older."""
    found = []
    for child in look.children(owner):
        try:
            here = child.cwd is None or child.cwd == directory
        except Gone:
            continue
        if child.alive and here and (since is None or look.started_at(child) >= since - 1):
            found.append(child)
    return found
