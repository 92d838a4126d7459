"""Sessions of an OpenCode database that no process runs.

To ask SQLite for a thousand of them costs a good part of a long list; that nobody has committed
anything since we last asked costs three looks at files. So what the database said is remembered as long
as it can say nothing else. What its sessions are is not: whether a process may run one is asked anew
each time, and only then is one of the two turns chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from agentctl.adapters.base import Wanted
from agentctl.adapters.opencode import db as database
from agentctl.adapters.opencode.log import Last, Log
from agentctl.adapters.opencode.places import made
from agentctl.adapters.opencode.words import Words, address
from agentctl.errors import SourceError
from agentctl.system import files
from agentctl.system.proc import Process
from agentctl.system.sqlite import Database, stamp
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Turn
from agentctl.truth.plain import pack, unpack

# Of one session, as plain values: when its row was written (ms), its id, its facts, its last message,
# the turn that this tells of if its process is gone, and the turn if that is not certain.
Said = tuple[float, str, tuple[Any, ...], str | None, tuple[Any, ...] | None, tuple[Any, ...] | None]
Known = tuple[str, Facts, str | None, tuple[Any, ...] | None, tuple[Any, ...] | None]


def history(look: Look, path: str, wanted: Wanted) -> Iterator[Observation]:
    try:
        uid = files.status(path).st_uid
        found = _remembered(look, path, wanted)
    except SourceError as error:
        look.unreadable(error)
        return
    log = Log.read(look, look.loose)
    for session_id, facts, message_id, turn, unsure in found:
        last = Last(session_id, message_id, facts.last_activity_at or look.now, None)
        owner = look.unowned(
            facts.last_activity_at,
            partial(_may_run, log, last),
            path=path,
            uid=uid,
            began=facts.started_at,
            turn_open=turn is not None and turn[0] != "idle",
        )
        told = turn if owner.claim == "gone" else unsure
        evidence: tuple[Evidence, ...] = (owner,)
        if told is not None:
            claim, detail, at, _, note = told
            where = address(path, session_id, message_id)
            evidence = (owner, Evidence(claim, where, "journal", at, detail, note))
        yield Observation(look.adapter, session_id, evidence, facts, None, path)


def _may_run(log: Log, last: Last, process: Process) -> bool:
    return not log.rules_out(process, last)


def _remembered(look: Look, path: str, wanted: Wanted) -> list[Known]:
    memory, now = look.memory, stamp(path) if look.memory is not None else None
    if memory is None or now is None or wanted.id_prefix:
        return _known(_read(look, path, wanted))
    since, (mark, changed) = round(wanted.since * 1000), now
    try:
        asked, said = memory.recall(path, mark)
        if asked <= since:  # else there may be more than we had asked for
            return _known(one for one in said if one[0] >= since)
    except (TypeError, ValueError):  # nothing known, or not what we remembered
        pass
    before = look.complaints
    said = _read(look, path, wanted)
    if look.complaints == before:  # what has a problem is read, and told, again
        memory.remember(path, mark, changed, (since, said))
    return _known(said)


def _read(look: Look, path: str, wanted: Wanted) -> list[Said]:
    with Database(made(path)) as db:
        rows = database.everything(db, wanted.since, wanted.id_prefix)
        words = Words(path, db, rows, look, live=False)
    said: list[Said] = []
    for row in rows:
        turn = _plain(words.turn(look, row, gone=True))
        unsure = _plain(words.turn(look, row, gone=False)) if row.between_steps else turn
        said.append((row.touched, row.id, pack(words.facts(row)), row.message_id, turn, unsure))
    return said


def _plain(turn: Turn | None) -> tuple[Any, ...] | None:
    return None if turn is None else tuple(turn)


def _known(said: Iterable[Said]) -> list[Known]:
    return [(id_, unpack(facts), message, turn, unsure) for _, id_, facts, message, turn, unsure in said]
