"""Which process runs which session.

Nothing in the database links the two. The log does (`log`), and an id in argv; where neither tells,
directory and time allow an inference (`argv`), which counts if there is one candidate on both sides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from agentctl.adapters.opencode.argv import SLACK, Call
from agentctl.adapters.opencode.db import Row
from agentctl.adapters.opencode.log import Log
from agentctl.truth.bind import Bound, Tie, bind
from agentctl.truth.launched import ends, overtaken
from agentctl.truth.look import Look

# A process that logs has told within a second what it works on; what it has not told by then may be
# that of one that was killed before it could.
LOGGED_WITHIN = 5.0


class Users(NamedTuple):
    """The processes that use one database."""

    database: str | None
    calls: Sequence[Call]
    clients: Sequence[Call]  # of servers, of whichever database
    log: Log


def bind_all(look: Look, users: Users, rows: Sequence[Row]) -> dict[str, Bound]:
    """The owner of every session that one of these processes runs or may run."""
    roots = [row for row in rows if row.parent_id is None]
    logged = _logged(users, roots)
    named = [*_named(users.calls, roots, logged), *_noted(look, users.calls), *logged]
    over = ends(look)
    taken = {tie.session_id for tie in named}
    taken |= {row.id for row in roots if row.id in over and not overtaken(over[row.id], row.updated)}
    left = [row for row in roots if row.id not in taken]
    local, unclear = _local(look, users, left, {tie.process.pid for tie in logged})
    served, doubtful = _served(users, left, {tie.session_id for tie in local})
    bound = bind([*named, *local, *served])
    for tie in (*unclear, *doubtful):
        others = bound[tie.session_id].candidates if tie.session_id in bound else ()
        bound[tie.session_id] = Bound(
            tie.session_id, None, (*others, tie.process), "inferred", tie.address
        )
    bound.update(_children(look, rows, bound))
    return bound


def _logged(users: Users, roots: Sequence[Row]) -> list[Tie]:
    """Ties by the log. A server runs all that it has worked on. Any other process is at the one that it
    worked on last: one that it has left goes on only as long as its turn is open."""
    ties: list[Tie] = []
    log, by_id = users.log, {row.id: row for row in roots}
    for call in users.calls:
        mine = {id_: told for id_, told in log.worked_on(call.process).items() if id_ in by_id}
        current = log.current(call.process, by_id)
        for session_id, mention in mine.items():
            row = by_id[session_id]
            last = log.writer(row.last) if row.unfinished else None
            if last is not None and last.run != mention.run:
                continue  # another process has gone on with it: the open turn is that one's
            if call.kind == "server" or session_id == current or last is not None:
                where = f"{log.path}@{mention.offset}"
                ties.append(Tie(session_id, call.process, "held open", where, call.kind == "server"))
    return sorted(ties, key=lambda tie: -int(tie.address.rpartition("@")[2]))


def _named(calls: Sequence[Call], roots: Sequence[Row], logged: Sequence[Tie]) -> Iterator[Tie]:
    """Ties by argv, which tells a TUI's first session only."""
    open_turns = {row.id for row in roots if row.unfinished}
    first = {call.session for call in calls}
    moved_on = {tie.process.pid for tie in logged} - {
        tie.process.pid for tie in logged if tie.session_id in first
    }
    for call in calls:
        left_it = call.kind == "tui" and call.process.pid in moved_on and call.session not in open_turns
        if call.session is not None and not left_it:
            yield Tie(call.session, call.process, "argument", call.address())


def _noted(look: Look, calls: Sequence[Call]) -> Iterator[Tie]:
    """What we know from having started it: sure, unlike anything that follows from its directory."""
    mine = {call.process.pid for call in calls if call.kind == "run" and call.session is None}
    return (tie for tie in look.noted() if tie.process.pid in mine)


def _local(
    look: Look, users: Users, roots: Sequence[Row], settled: Collection[int]
) -> tuple[list[Tie], list[Tie]]:
    """Ties of processes that work in one directory, and those that nothing more can be made of.
    `settled`: those of which the log tells what they are at."""
    ties: list[Tie] = []
    unclear: list[Tie] = []
    by_directory: dict[str | None, list[Row]] = {}
    for row in roots:
        by_directory.setdefault(row.directory, []).append(row)
    for call in users.calls:
        if call.kind == "server" or (call.kind == "run" and call.session is not None):
            continue
        here = by_directory.get(call.process.cwd, ())
        mine = [row for row in here if call.may_run(row) and _may(users.log, call, row)]
        if call.process.pid in settled:
            # It may have begun another one, which its log does not tell yet; what is over, it has left.
            mine = [row for row in mine if row.unfinished] if call.kind == "tui" else []
        # The id a TUI was started with is only its first session: one more is told apart, two are not.
        sure = call.process.pid not in settled and (call.session is None or len(mine) == 1)
        for row in mine:
            shared = call.session is not None
            tie = Tie(row.id, call.process, "inferred", f"{users.database}#{row.id}", shared)
            late = users.log.follows(call.process) and look.now - row.last.turn > LOGGED_WITHIN
            (ties if sure and not late else unclear).append(tie)
    return ties, unclear


def _served(users: Users, roots: Sequence[Row], claimed: Collection[str]) -> tuple[list[Tie], list[Tie]]:
    """A server runs sessions of any directory: those written since it began that nobody in their own
    directory may run. One made by `opencode run` is a server's only through `run --attach`."""
    ties: list[Tie] = []
    doubtful: list[Tie] = []
    for call in (c for c in users.calls if c.kind == "server"):
        for row in roots:
            elsewhere = row.directory != call.process.cwd
            if row.updated < call.started - SLACK or (row.id in claimed and elsewhere):
                continue
            if not _may(users.log, call, row):
                continue
            tie = Tie(row.id, call.process, "inferred", f"{users.database}#{row.id}", shared=True)
            if not row.headless or any(client.started <= row.updated for client in users.clients):
                ties.append(tie)
            elif row.unfinished and row.id not in claimed:
                doubtful.append(tie)
    return ties, doubtful


def _may(log: Log, call: Call, row: Row) -> bool:
    return not log.rules_out(call.process, row.last)


def _children(look: Look, rows: Iterable[Row], bound: Mapping[str, Bound]) -> dict[str, Bound]:
    """Sub-agents run in the process of the session that called them."""
    by_id = {row.id: row for row in rows}
    found = {}
    for row in by_id.values():
        above, seen = row, {row.id}
        while above.parent_id in by_id and above.parent_id not in seen and above.id not in bound:
            above = by_id[above.parent_id]
            seen.add(above.id)
        parent = bound.get(above.id)
        if parent is None or row.id in bound:
            continue
        if all(row.updated >= look.started_at(process) - SLACK for process in parent.candidates):
            found[row.id] = parent._replace(session_id=row.id)
    return found


def quiet(users: Users, rows: Sequence[Row], bound: Mapping[str, Bound]) -> Iterator[Call]:
    """Processes that wait for a prompt: bound to no session, and no turn is open that may be theirs.
    They write a prompt down before they do anything about it."""
    busy = {each.owner.pid for each in bound.values() if each.owner is not None}
    open_turns = [row for row in rows if row.unfinished]
    for call in users.calls:
        if call.kind not in ("tui", "server") or call.given or call.process.pid in busy:
            continue
        if not any(_may_have_begun(call, row, bound.get(row.id), users.log) for row in open_turns):
            yield call


def _may_have_begun(call: Call, row: Row, bound: Bound | None, log: Log) -> bool:
    owned = bound is not None and bound.owner is not None
    return not owned and row.updated >= call.started - SLACK and _may(log, call, row)


def left_by_another(call: Call, row: Row, log: Log) -> bool:
    """Whether the open turn of a session is not that of the process which has it now: it was there
    before, or the log tells who began it."""
    return row.unfinished and (row.updated < call.started - SLACK or not _may(log, call, row))
