"""Fuses, one row each. Each change is one transaction with its event. `state/fuse_firing.py` fires the
fuses that are due.

Two clocks decide when a fuse is due. The boot clock also runs while the machine sleeps, and nothing can
set it: within one boot only it counts. It starts again at each boot; a fuse from before the boot is due
by the time of day.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time

from agentctl.errors import NotFound, Refused
from agentctl.light_typing import Any, Mapping, NamedTuple, Sequence
from agentctl.state import db, journal
from agentctl.state.db import path_to_text, text_to_path
from agentctl.state.journal import Event
from agentctl.system import clock, proc
from agentctl.system.clock import format_rfc3339
from agentctl.system.owner import Owner
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import Launch

KEEP = 7 * 86400.0  # seconds that a settled fuse is kept for `fuse list --all`
SET, FIRING, FIRED, FAILED, CANCELLED = "burning", "firing", "fired", "failed", "cancelled"
ACTIVE = (SET, FIRING)  # not settled


class Moment(NamedTuple):
    """One moment, by both clocks."""

    boot: str
    elapsed: float  # seconds since the boot, sleep included
    at: float  # the time of day


def read_clocks() -> Moment:
    return Moment(proc.read_boot_id(), clock.read_boot_clock(), time.time())


Claim = Owner  # the process that fires a fuse


class Action(NamedTuple):
    do: str  # run, stop, emit, webhook
    what: str = ""  # the command, the name, the address or name of a webhook; a stop has none

    @property
    def is_named_target(self) -> bool:
        """True for a webhook of the settings, False for an address: no name has ":" or "/"."""
        return ":" not in self.what and "/" not in self.what

    def public_form(self) -> dict[str, str]:
        """Return the action for events and JSON: without the password that an address may have."""
        if self.do != "webhook":
            return {"do": self.do, **({"what": self.what} if self.what else {})}
        if self.is_named_target:
            return {"do": self.do, "what": self.what}
        from agentctl.urls import redact_url

        return {"do": self.do, "what": redact_url(self.what)}


class Fuse(NamedTuple):
    id: str
    # the fuse is on a directory, on a session (adapter and id), or on a launch
    directory: str | None
    adapter: str | None
    session_id: str | None
    launch_id: str | None  # the fuse is the timeout of this launch
    label: str | None
    actions: tuple[Action, ...]
    created_at: float
    boot: str
    due_elapsed: float
    due_at: float
    state: str
    claimed_at: float | None = None
    claim: Claim | None = None
    settled_at: float | None = None
    results: tuple[Mapping[str, Any] | None, ...] = ()  # one for each action; None: not confirmed
    reason: str | None = None  # why it was cancelled
    cwd: str | None = None  # where its command runs; None: in a folder of the fuse
    agent: Claim | None = None  # of a timeout: the process to end; None: the launch note was deleted
    group: str | None = None

    def seconds_left(self, moment: Moment) -> float:
        """Return the seconds until the fuse is due; negative if it is overdue."""
        if self.boot == moment.boot:
            return self.due_elapsed - moment.elapsed
        return self.due_at - moment.at

    @property
    def is_moot(self) -> bool:
        """True for a timeout whose agent has ended."""
        return self.launch_id is not None and (self.agent is None or not self.agent.may_live)

    @property
    def is_abandoned(self) -> bool:
        """True if the process that fired the fuse died before all actions were confirmed."""
        return self.state == FIRING and (self.claim is None or not self.claim.may_live)

    @property
    def subject(self) -> str:
        """What the fuse is on, as text for people."""
        if self.directory is not None:
            return self.directory
        return f"session {self.session_id}" if self.session_id else f"launch {self.launch_id}"


STOP = Action("stop")
_ALL = (
    "select fuse.id, directory, coalesce(adapter, json_extract(launch.detail, '$.adapter')),"
    " coalesce(fuse.session_id, launch.session_id), fuse.launch, label, actions, fuse.created_at,"
    " fuse.boot, due_boot, due_at, phase, claimed_at, claimed_by, settled_at, results, reason, cwd,"
    " launch.boot, launch.pid, launch.start, json_extract(launch.detail, '$.namespace'),"
    ' launch."group" from fuse left join launch on launch.id = fuse.launch'
)
_INSERT = (
    "insert into fuse (id, directory, adapter, session_id, launch, label, cwd, actions, created_at,"
    " boot, due_boot, due_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def list_fuses(path: str) -> list[Fuse]:
    """Return all fuses, oldest first. Raises SourceError."""
    return read_fuses(path, "order by fuse.created_at, fuse.rowid", ())


def has_active(path: str) -> bool:
    """Return True if a fuse is set or firing. Raises SourceError."""
    return bool(_read_active(path))


def list_active(path: str) -> list[Fuse]:
    """Return the fuses that are set or firing, the next due first, without timeouts of agents that have
    ended. Raises SourceError."""
    moment = read_clocks()
    active = [fuse for fuse in _read_active(path) if not fuse.is_moot]
    return sorted(active, key=lambda fuse: fuse.seconds_left(moment))


def list_due(path: str, moment: Moment | None = None) -> list[Fuse]:
    """Return the fuses to fire: those that are due, and those whose firing was abandoned. Raises
    SourceError."""
    moment = moment or read_clocks()
    return [
        fuse
        for fuse in _read_active(path)
        if fuse.is_abandoned or (fuse.state == SET and fuse.seconds_left(moment) <= 0)
    ]


def find_timeout(path: str, launch_id: str) -> Fuse | None:
    """Return the fuse that `launch --timeout` set for this launch. Raises SourceError."""
    return next(iter(read_fuses(path, "where fuse.launch = ?", (launch_id,))), None)


def set_fuse(
    path: str,
    actions: Sequence[Action],
    seconds: float,
    *,
    directory: str | None = None,
    session: tuple[str, str] | None = None,  # adapter and id
    cwd: str | None = None,
    label: str | None = None,
    moment: Moment | None = None,
) -> Fuse:
    """Set a fuse that is due in `seconds`. Raises SourceError."""
    moment = moment or read_clocks()
    adapter, session_id = session if session is not None else (None, None)
    fuse = _new_fuse(actions, seconds, moment)._replace(
        directory=directory, adapter=adapter, session_id=session_id, cwd=cwd, label=label
    )
    with db.transaction(path) as connection:
        _delete_settled(connection, moment)
        insert_fuse(connection, fuse)
        append_event(connection, "fuse.set", fuse, moment)
    return fuse


def set_timeout(connection: sqlite3.Connection, launch: Launch, seconds: float) -> None:
    """Set the timeout of a launch, inside the transaction that begins the launch."""
    moment = read_clocks()
    fuse = _new_fuse((STOP,), seconds, moment)._replace(launch_id=launch.id, label="timeout")
    insert_fuse(connection, fuse)
    fuse = fuse._replace(adapter=launch.adapter, session_id=launch.session_id, group=launch.group)
    append_event(connection, "fuse.set", fuse, moment)


def extend_fuse(
    path: str, fuse_id: str, seconds: float, *, from_now: bool, moment: Moment | None = None
) -> Fuse:
    """Add `seconds` to what is left, or with `from_now` start again with them. An overdue fuse gets them
    from now on. Raises NotFound, and Refused if the fuse is not set any more."""
    moment = moment or read_clocks()
    with db.transaction(path) as connection:
        fuse = _find_changeable(connection, fuse_id)
        remaining = seconds if from_now else max(0.0, fuse.seconds_left(moment)) + seconds
        extended_fuse = fuse._replace(
            boot=moment.boot, due_elapsed=moment.elapsed + remaining, due_at=moment.at + remaining
        )
        connection.execute(
            "update fuse set boot = ?, due_boot = ?, due_at = ? where id = ?",
            (extended_fuse.boot, extended_fuse.due_elapsed, extended_fuse.due_at, fuse_id),
        )
        was_due_at = format_rfc3339(fuse.due_at)
        append_event(connection, "fuse.extended", extended_fuse, moment, was_due_at=was_due_at)
    return extended_fuse


def cancel_fuse(path: str, fuse_id: str, reason: str, moment: Moment | None = None) -> Fuse:
    """Cancel a fuse that is set, or whose firing was abandoned. Raises NotFound, Refused."""
    moment = moment or read_clocks()
    with db.transaction(path) as connection:
        fuse = _find_changeable(connection, fuse_id, or_abandoned=True)
        return _cancel(connection, fuse, reason, moment)


def cancel_in_directory(connection: sqlite3.Connection, directory: str, launch_id: str) -> None:
    """Cancel the fuses on this directory, inside the transaction of the launch that begins there."""
    parameters = (SET, path_to_text(directory))
    for fuse in select_fuses(connection, "where phase = ? and directory = ?", parameters):
        _cancel(connection, fuse, f"launch {launch_id} began there", read_clocks(), launch_id)


def rearm_fuses(connection: sqlite3.Connection, launch_id: str) -> None:
    """Set the fuses again that this launch had cancelled: the launch failed."""
    moment = read_clocks()
    for fuse in select_fuses(connection, "where phase = ? and cancelled_by = ?", (CANCELLED, launch_id)):
        connection.execute(
            "update fuse set phase = ?, settled_at = null, reason = null, cancelled_by = null"
            " where id = ?",
            (SET, fuse.id),
        )
        append_event(connection, "fuse.set", fuse, moment, why=f"launch {launch_id} failed")


def cancel_timeout(connection: sqlite3.Connection, launch_id: str, reason: str) -> None:
    """Cancel the timeout of a launch whose agent is gone, unless it is firing."""
    for fuse in select_fuses(connection, "where fuse.launch = ? and phase = ?", (launch_id, SET)):
        _cancel(connection, fuse, reason, read_clocks())


def find_moot(path: str, fuse_id: str) -> Fuse | None:
    """Return this fuse if it is a timeout that is still set although its agent is gone. Raises
    SourceError."""
    fuse = next(iter(read_fuses(path, "where fuse.id = ?", (fuse_id,))), None)
    return fuse if fuse is not None and fuse.state == SET and fuse.is_moot else None


def cancel_moot(path: str, fuse_id: str) -> None:
    """Cancel this fuse if it is a timeout whose agent is gone. Raises SourceError."""
    with db.transaction(path) as connection:
        fuse = find_fuse(connection, fuse_id)
        if fuse is not None and fuse.state == SET and fuse.is_moot:
            _cancel(connection, fuse, "its agent has ended", read_clocks())


def forget_settled(path: str) -> None:
    """Delete the fuses that settled more than KEEP seconds ago. Raises SourceError."""
    if read_fuses(path, "where settled_at < ?", (read_clocks().at - KEEP,)):
        with db.transaction(path) as connection:
            _delete_settled(connection, read_clocks())


def adjust_to_clock(path: str, moment: Moment | None = None) -> None:
    """Recompute the time of day at which fuses are due, if the clock was set. It counts after a reboot.
    Raises SourceError."""
    moment = moment or read_clocks()
    shift = moment.at - moment.elapsed
    where = "phase = 'burning' and boot = ? and abs(due_at - due_boot - ?) > 1.0"
    if read_fuses(path, f"where {where.replace('boot =', 'fuse.boot =')}", (moment.boot, shift)):
        with db.transaction(path) as connection:
            connection.execute(
                f"update fuse set due_at = due_boot + ? where {where}",  # noqa: S608 - a constant
                (shift, moment.boot, shift),
            )


def append_event(
    connection: sqlite3.Connection, kind: str, fuse: Fuse, moment: Moment, **more: Any
) -> int:
    """Append an event about this fuse, inside the caller's transaction. Return its number."""
    data = {
        "fuse": fuse.id,
        "label": fuse.label,
        "directory": journal.escape_bytes(fuse.directory),
        "session_id": fuse.session_id,
        "launch": fuse.launch_id,
        "actions": [action.public_form() for action in fuse.actions],
        "due_at": format_rfc3339(fuse.due_at),
        **more,
    }
    subject = fuse.directory if fuse.directory is not None else fuse.session_id
    event = Event(
        type=kind,
        seen_at=moment.at,
        at=moment.at,
        adapter=fuse.adapter,
        subject=subject,
        group=fuse.group,
        body={"data": data},
    )
    return journal.append_event(connection, event)


def _delete_settled(connection: sqlite3.Connection, moment: Moment) -> None:
    connection.execute("delete from fuse where settled_at < ?", (moment.at - KEEP,))


def _find_changeable(
    connection: sqlite3.Connection, fuse_id: str, *, or_abandoned: bool = False
) -> Fuse:
    """Return a fuse that is set; with `or_abandoned` also one whose firing no live process of ours goes
    on with. Raises NotFound, Refused."""
    fuse = find_fuse(connection, fuse_id)
    if fuse is None:
        raise NotFound(f"no fuse {fuse_id!r}", "see which are set: agentctl fuse list")
    is_loose = fuse.is_abandoned or (fuse.claim is not None and fuse.claim.is_foreign)
    if fuse.state == SET or (or_abandoned and fuse.state == FIRING and is_loose):
        return fuse
    if fuse.state == FIRING:
        by = f", by pid {fuse.claim.identity.pid}" if fuse.claim is not None else ""
        raise Refused(f"fuse {fuse.id} is firing{by}", "see its result: agentctl fuse list --all")
    end = "been cancelled" if fuse.state == CANCELLED else f"{fuse.state} already"
    raise Refused(f"fuse {fuse.id} has {end}", "set another: agentctl fuse set")


def _cancel(
    connection: sqlite3.Connection, fuse: Fuse, reason: str, moment: Moment, launch_id: str | None = None
) -> Fuse:
    connection.execute(
        "update fuse set phase = ?, settled_at = ?, reason = ?, cancelled_by = ? where id = ?",
        (CANCELLED, moment.at, reason, launch_id, fuse.id),
    )
    append_event(connection, "fuse.cancelled", fuse, moment, why=reason)
    return fuse._replace(state=CANCELLED, settled_at=moment.at, reason=reason)


def _new_fuse(actions: Sequence[Action], seconds: float, moment: Moment) -> Fuse:
    return Fuse(
        id=os.urandom(4).hex(),
        directory=None,
        adapter=None,
        session_id=None,
        launch_id=None,
        label=None,
        actions=tuple(actions),
        created_at=moment.at,
        boot=moment.boot,
        due_elapsed=moment.elapsed + seconds,
        due_at=moment.at + seconds,
        state=SET,
    )


def _read_active(path: str) -> list[Fuse]:
    return read_fuses(path, "where phase in (?, ?)", ACTIVE)


def find_fuse(connection: sqlite3.Connection, fuse_id: str) -> Fuse | None:
    return next(iter(select_fuses(connection, "where fuse.id = ?", (fuse_id,))), None)


def insert_fuse(connection: sqlite3.Connection, fuse: Fuse) -> None:
    connection.execute(
        _INSERT,
        (
            fuse.id,
            path_to_text(fuse.directory) if fuse.directory is not None else None,
            fuse.adapter,
            fuse.session_id,
            fuse.launch_id,
            fuse.label,
            path_to_text(fuse.cwd) if fuse.cwd is not None else None,
            json.dumps(fuse.actions),
            fuse.created_at,
            fuse.boot,
            fuse.due_elapsed,
            fuse.due_at,
        ),
    )


def read_fuses(path: str, which: str, parameters: Sequence[object]) -> list[Fuse]:
    rows = db.read_table(path, "fuse", f"{_ALL} {which}", parameters, column="cancelled_by")
    return [_fuse(row) for row in rows]


def select_fuses(connection: sqlite3.Connection, which: str, parameters: Sequence[object]) -> list[Fuse]:
    return [_fuse(row) for row in connection.execute(f"{_ALL} {which}", parameters).fetchall()]


def _fuse(row: tuple[Any, ...]) -> Fuse:
    id_, directory, adapter, session_id, launch, label, actions, created, boot, *rest = row
    due_boot, due_at, *rest = rest
    state, claimed_at, claim, settled_at, results, reason, cwd, *agent, group = rest
    steps = tuple(Action(*action) for action in json.loads(actions))
    return Fuse(
        id=id_,
        directory=text_to_path(directory) if directory is not None else None,
        adapter=adapter,
        session_id=session_id,
        launch_id=launch,
        label=label,
        actions=steps,
        created_at=created,
        boot=boot,
        due_elapsed=due_boot,
        due_at=due_at,
        state=state,
        claimed_at=claimed_at,
        claim=_make_claim(*json.loads(claim)) if claim is not None else None,
        settled_at=settled_at,
        results=tuple(json.loads(results)) if results is not None else (None,) * len(steps),
        reason=reason,
        cwd=text_to_path(cwd) if cwd is not None else None,
        agent=_make_claim(*agent) if agent[0] is not None else None,
        group=group,
    )


def _make_claim(boot: str, pid: int, start: int, namespace: str | None) -> Claim:
    return Claim(ProcessIdentity(boot, pid, start), namespace)
