"""Bind OpenCode's sessions to processes.

The database does not link the two. The log does (`log`), and an id in argv; without them, directory and
time allow an inference (`argv`), which counts if there is one candidate on both sides.
"""

from __future__ import annotations

from agentctl.adapters.opencode.argv import SLACK, Call
from agentctl.adapters.opencode.db import Row
from agentctl.adapters.opencode.log import Log
from agentctl.light_typing import Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence
from agentctl.truth.bind import Binding, Tie, bind
from agentctl.truth.launches import find_recorded_exits, is_overtaken
from agentctl.truth.look import Look

# Seconds. A process that logs has logged its work within one; work that is not logged by then may be
# that of a process that was killed before.
LOG_DELAY = 5.0


class Users(NamedTuple):
    """The processes that use one database."""

    database: str | None
    calls: Sequence[Call]
    clients: Sequence[Call]  # of servers, with any database
    log: Log


def bind_all(look: Look, users: Users, rows: Sequence[Row]) -> dict[str, Binding]:
    """Return the owner of every session that one of these processes runs or may run."""
    roots = [row for row in rows if row.parent_id is None]
    by_log = _log_ties(users, roots)
    exact = [*_argument_ties(users.calls, roots, by_log), *_launch_ties(look, users.calls), *by_log]
    exits = find_recorded_exits(look)
    taken_ids = {tie.session_id for tie in exact}
    taken_ids |= {
        row.id for row in roots if row.id in exits and not is_overtaken(exits[row.id], row.updated)
    }
    open_rows = [row for row in roots if row.id not in taken_ids]
    by_directory, unclear = _directory_ties(look, users, open_rows, {tie.process.pid for tie in by_log})
    by_server, doubtful = _server_ties(users, open_rows, {tie.session_id for tie in by_directory})
    bindings = bind([*exact, *by_directory, *by_server])
    for tie in (*unclear, *doubtful):
        candidates = bindings[tie.session_id].candidates if tie.session_id in bindings else ()
        bindings[tie.session_id] = Binding(
            tie.session_id, None, (*candidates, tie.process), "inferred", tie.address
        )
    bindings.update(_bind_children(look, rows, bindings))
    return bindings


def _log_ties(users: Users, roots: Sequence[Row]) -> list[Tie]:
    """Return ties by the log. A server runs all sessions that it has worked on. Any other process runs
    the last one; a session that it has left counts while its turn is open."""
    ties: list[Tie] = []
    log, by_id = users.log, {row.id: row for row in roots}
    for call in users.calls:
        mentions = {
            id_: mention for id_, mention in log.mentions_by(call.process).items() if id_ in by_id
        }
        current = log.find_current(call.process, by_id)
        for session_id, mention in mentions.items():
            row = by_id[session_id]
            last = log.find_writer(row.last) if row.is_unfinished else None
            if last is not None and last.run != mention.run:
                continue  # another process has continued it, and the open turn is of that process
            if call.kind == "server" or session_id == current or last is not None:
                address = f"{log.path}@{mention.offset}"
                ties.append(Tie(session_id, call.process, "held open", address, call.kind == "server"))
    return sorted(ties, key=lambda tie: -int(tie.address.rpartition("@")[2]))


def _argument_ties(
    calls: Sequence[Call], roots: Sequence[Row], log_ties: Sequence[Tie]
) -> Iterator[Tie]:
    """Yield ties by argv, which names only the first session of a TUI."""
    open_turns = {row.id for row in roots if row.is_unfinished}
    argument_ids = {call.session for call in calls}
    moved_on = {tie.process.pid for tie in log_ties} - {
        tie.process.pid for tie in log_ties if tie.session_id in argument_ids
    }
    for call in calls:
        has_left = call.kind == "tui" and call.process.pid in moved_on and call.session not in open_turns
        if call.session is not None and not has_left:
            yield Tie(call.session, call.process, "argument", call.address())


def _launch_ties(look: Look, calls: Sequence[Call]) -> Iterator[Tie]:
    """Return ties by our launch notes, which are certain, unlike those by directory."""
    pids = {call.process.pid for call in calls if call.kind == "run" and call.session is None}
    return (tie for tie in look.find_launch_ties() if tie.process.pid in pids)


def _directory_ties(
    look: Look, users: Users, roots: Sequence[Row], settled_pids: Collection[int]
) -> tuple[list[Tie], list[Tie]]:
    """Return ties of processes that work in one directory, and ties that stay unclear. `settled_pids`:
    processes whose session the log shows."""
    ties: list[Tie] = []
    unclear: list[Tie] = []
    by_directory: dict[str | None, list[Row]] = {}
    for row in roots:
        by_directory.setdefault(row.directory, []).append(row)
    for call in users.calls:
        if call.kind == "server" or (call.kind == "run" and call.session is not None):
            continue
        candidates = by_directory.get(call.process.cwd, ())
        rows = [row for row in candidates if call.may_run(row) and _may_run(users.log, call, row)]
        if call.process.pid in settled_pids:
            # A TUI may have begun another session that the log does not show yet; it has left finished
            # ones.
            rows = [row for row in rows if row.is_unfinished] if call.kind == "tui" else []
        # The id in argv is only the first session of a TUI: one more is clear, two are not.
        is_certain = call.process.pid not in settled_pids and (call.session is None or len(rows) == 1)
        for row in rows:
            shared = call.session is not None
            tie = Tie(row.id, call.process, "inferred", f"{users.database}#{row.id}", shared)
            is_late = users.log.logs_everything(call.process) and look.now - row.last.turn > LOG_DELAY
            (ties if is_certain and not is_late else unclear).append(tie)
    return ties, unclear


def _server_ties(
    users: Users, roots: Sequence[Row], claimed_ids: Collection[str]
) -> tuple[list[Tie], list[Tie]]:
    """Return ties of servers, and doubtful ones. A server runs sessions of any directory: those written
    since it began that no process in their directory may run. It runs a session of `opencode run` only
    through `run --attach`."""
    ties: list[Tie] = []
    doubtful: list[Tie] = []
    for call in (c for c in users.calls if c.kind == "server"):
        for row in roots:
            is_elsewhere = row.directory != call.process.cwd
            if row.updated < call.started_at - SLACK or (row.id in claimed_ids and is_elsewhere):
                continue
            if not _may_run(users.log, call, row):
                continue
            tie = Tie(row.id, call.process, "inferred", f"{users.database}#{row.id}", shared=True)
            if not row.is_headless or any(client.started_at <= row.updated for client in users.clients):
                ties.append(tie)
            elif row.is_unfinished and row.id not in claimed_ids:
                doubtful.append(tie)
    return ties, doubtful


def _may_run(log: Log, call: Call, row: Row) -> bool:
    return not log.rules_out(call.process, row.last)


def _bind_children(
    look: Look, rows: Iterable[Row], bindings: Mapping[str, Binding]
) -> dict[str, Binding]:
    """Return bindings of sub-agents: each runs in the process of the session that called it."""
    by_id = {row.id: row for row in rows}
    children = {}
    for row in by_id.values():
        above, visited = row, {row.id}
        while above.parent_id in by_id and above.parent_id not in visited and above.id not in bindings:
            above = by_id[above.parent_id]
            visited.add(above.id)
        parent = bindings.get(above.id)
        if parent is None or row.id in bindings:
            continue
        if all(row.updated >= look.find_start_time(process) - SLACK for process in parent.candidates):
            children[row.id] = parent._replace(session_id=row.id)
    return children


def find_quiet(users: Users, rows: Sequence[Row], bindings: Mapping[str, Binding]) -> Iterator[Call]:
    """Yield processes that wait for a prompt: bound to no session, and no open turn may be theirs.
    OpenCode records a prompt before it does anything else."""
    busy_pids = {each.owner.pid for each in bindings.values() if each.owner is not None}
    open_turns = [row for row in rows if row.is_unfinished]
    for call in users.calls:
        if call.kind not in ("tui", "server") or call.has_prompt or call.process.pid in busy_pids:
            continue
        if not any(_may_have_begun(call, row, bindings.get(row.id), users.log) for row in open_turns):
            yield call


def _may_have_begun(call: Call, row: Row, binding: Binding | None, log: Log) -> bool:
    is_owned = binding is not None and binding.owner is not None
    return not is_owned and row.updated >= call.started_at - SLACK and _may_run(log, call, row)


def is_left_by_another(call: Call, row: Row, log: Log) -> bool:
    """Return True if the session's open turn is not of this process: the turn is older, or the log shows
    that another process began it."""
    return row.is_unfinished and (row.updated < call.started_at - SLACK or not _may_run(log, call, row))
