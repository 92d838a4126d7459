"""Observe the sessions of an OpenCode database that no process runs.

Querying a thousand sessions takes a good part of a long list; checking that the database is unchanged
takes three calls of stat. So rows are cached until the database changes. The status is not cached: each
look checks which process may run a session, and then chooses one of the two stored turns.
"""

from __future__ import annotations

from agentctl.adapters.base import HistoryQuery
from agentctl.adapters.opencode import db as database
from agentctl.adapters.opencode.db import SessionReader, address
from agentctl.adapters.opencode.log import Last, Log
from agentctl.adapters.opencode.places import check_complete
from agentctl.errors import SourceError
from agentctl.light_functools import partial
from agentctl.light_typing import Any, Iterable, Iterator
from agentctl.system import files
from agentctl.system.proc import Process
from agentctl.system.sqlite import Database, read_stamp
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Turn, pack_facts, unpack_facts

# One session as plain values: when its row was written (ms), id, facts, last message, the turn if its
# process is gone, and the turn if that is uncertain.
StoredSession = tuple[
    float, str, tuple[Any, ...], str | None, tuple[Any, ...] | None, tuple[Any, ...] | None
]
KnownSession = tuple[str, Facts, str | None, tuple[Any, ...] | None, tuple[Any, ...] | None]


def observe_history(look: Look, path: str, query: HistoryQuery) -> Iterator[Observation]:
    try:
        uid = files.read_status(path).st_uid
        sessions = _read_cached(look, path, query)
    except SourceError as error:
        look.report_unreadable(error)
        return
    log = Log.read(look, look.unbound_processes)
    for session_id, facts, message_id, turn, open_turn in sessions:
        last = Last(session_id, message_id, facts.last_activity_at or look.now, None)
        owner = look.find_evidence_without_owner(
            facts.last_activity_at,
            partial(_may_run, log, last),
            path=path,
            uid=uid,
            began=facts.started_at,
            turn_open=turn is not None and turn[0] != "idle",
        )
        chosen_turn = turn if owner.claim == "gone" else open_turn
        evidence: tuple[Evidence, ...] = (owner,)
        if chosen_turn is not None:
            claim, detail, at, _, note = chosen_turn
            where = address(path, session_id, message_id)
            evidence = (owner, Evidence(claim, where, "journal", at, detail, note))
        yield Observation(look.adapter, session_id, evidence, facts, None, path)


def _may_run(log: Log, last: Last, process: Process) -> bool:
    return not log.rules_out(process, last)


def _read_cached(look: Look, path: str, query: HistoryQuery) -> list[KnownSession]:
    cache, stamp = look.cache, read_stamp(path) if look.cache is not None else None
    if cache is None or stamp is None or query.id_prefix:
        return _unpack(_read(look, path, query))
    since, (version, changed_at) = round(query.since * 1000), stamp
    try:
        cached_since, sessions = cache.recall(path, version)
        if cached_since <= since:  # else the cache may lack older sessions
            return _unpack(one for one in sessions if one[0] >= since)
    except (TypeError, ValueError):  # nothing cached, or in another format
        pass
    problem_count = look.problem_count
    sessions = _read(look, path, query)
    if look.problem_count == problem_count:  # else the next look reads and reports it again
        cache.remember(path, version, changed_at, (since, sessions))
    return _unpack(sessions)


def _read(look: Look, path: str, query: HistoryQuery) -> list[StoredSession]:
    with Database(check_complete(path)) as db:
        rows = database.read_rows_since(db, query.since, query.id_prefix)
        reader = SessionReader(path, db, rows, look, is_live=False)
    sessions: list[StoredSession] = []
    for row in rows:
        turn = _to_plain(reader.turn(look, row, is_gone=True))
        open_turn = _to_plain(reader.turn(look, row, is_gone=False)) if row.is_between_steps else turn
        sessions.append(
            (row.touched, row.id, pack_facts(reader.facts(row)), row.message_id, turn, open_turn)
        )
    return sessions


def _to_plain(turn: Turn | None) -> tuple[Any, ...] | None:
    return None if turn is None else tuple(turn)


def _unpack(sessions: Iterable[StoredSession]) -> list[KnownSession]:
    return [
        (id_, unpack_facts(facts), message, turn, open_turn)
        for _, id_, facts, message, turn, open_turn in sessions
    ]
