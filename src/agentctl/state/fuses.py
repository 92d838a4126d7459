"""Fuses, one row each: lit, extended, cancelled, each in one transaction with its event.
`state/fuse_firing.py` is what happens when one is due, `state/fuse.py` says when that is."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import Any

from agentctl.errors import NotFound, Refused
from agentctl.state import db, fuse_rows, journal
from agentctl.state import fuse as clocks
from agentctl.state.column import as_text
from agentctl.state.fuse import BURNING, CANCELLED, FIRING, LIT, Action, Fuse, Moment
from agentctl.state.journal import Event
from agentctl.system.clock import rfc3339
from agentctl.truth.model import Launch

KEEP = 7 * 86400.0  # seconds that a settled one can still be asked for
STOP = Action("stop")


def recorded(path: str) -> list[Fuse]:
    """All that are kept, the oldest first. Raises SourceError."""
    return fuse_rows.read(path, "order by fuse.created_at, fuse.rowid", ())


def any_lit(path: str) -> bool:
    """Whether there is anything to see to, now or later. Raises SourceError."""
    return bool(_lit(path))


def lit(path: str) -> list[Fuse]:
    """Those that burn or fire, the next one first; not the timeout of an agent that has ended."""
    moment = clocks.now()
    found = [each for each in _lit(path) if not each.moot]
    return sorted(found, key=lambda each: each.left(moment))


def due(path: str, moment: Moment | None = None) -> list[Fuse]:
    """Those to be seen to: it is time, or who fired them has died."""
    moment = moment or clocks.now()
    return [
        each
        for each in _lit(path)
        if each.abandoned or (each.state == BURNING and each.left(moment) <= 0)
    ]


def timeout_of(path: str, launch_id: str) -> Fuse | None:
    """The one that `launch --timeout` lit. Raises SourceError."""
    return next(iter(fuse_rows.read(path, "where fuse.launch = ?", (launch_id,))), None)


def light(
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
    moment = moment or clocks.now()
    adapter, session_id = session if session is not None else (None, None)
    made = _made(actions, seconds, moment)._replace(
        directory=directory, adapter=adapter, session_id=session_id, cwd=cwd, label=label
    )
    with db.transaction(path) as connection:
        _forget(connection, moment)
        fuse_rows.insert(connection, made)
        tell(connection, "fuse.set", made, moment)
    return made


def light_timeout(connection: sqlite3.Connection, launch: Launch, seconds: float) -> None:
    """Inside the transaction that begins the launch."""
    moment = clocks.now()
    made = _made((STOP,), seconds, moment)._replace(launch_id=launch.id, label="timeout")
    fuse_rows.insert(connection, made)
    known = made._replace(adapter=launch.adapter, session_id=launch.session_id, group=launch.group)
    tell(connection, "fuse.set", known, moment)


def extend(path: str, fuse_id: str, seconds: float, *, anew: bool, moment: Moment | None = None) -> Fuse:
    """By so much; `anew`: so much from now. One that is overdue gets it from now on. Raises NotFound,
    Refused where it burns no more."""
    moment = moment or clocks.now()
    with db.transaction(path) as connection:
        found = _burning(connection, fuse_id)
        left = seconds if anew else max(0.0, found.left(moment)) + seconds
        known = found._replace(
            boot=moment.boot, due_elapsed=moment.elapsed + left, due_at=moment.at + left
        )
        connection.execute(
            "update fuse set boot = ?, due_boot = ?, due_at = ? where id = ?",
            (known.boot, known.due_elapsed, known.due_at, fuse_id),
        )
        tell(connection, "fuse.extended", known, moment, was_due_at=rfc3339(found.due_at))
    return known


def cancel(path: str, fuse_id: str, reason: str, moment: Moment | None = None) -> Fuse:
    """Also one whose firing nobody goes on with. Raises NotFound, Refused."""
    moment = moment or clocks.now()
    with db.transaction(path) as connection:
        return _cancelled(connection, _burning(connection, fuse_id, given_up=True), reason, moment)


def cancel_in(connection: sqlite3.Connection, directory: str, launch_id: str) -> None:
    """A launch begins there, in its transaction."""
    found = fuse_rows.within(
        connection, "where phase = ? and directory = ?", (BURNING, as_text(directory))
    )
    for each in found:
        _cancelled(connection, each, f"launch {launch_id} began there", clocks.now(), launch_id)


def burn_on(connection: sqlite3.Connection, launch_id: str) -> None:
    """That launch has failed: what it cancelled was not to be cancelled."""
    moment = clocks.now()
    for each in fuse_rows.within(
        connection, "where phase = ? and cancelled_by = ?", (CANCELLED, launch_id)
    ):
        connection.execute(
            "update fuse set phase = ?, settled_at = null, reason = null, cancelled_by = null"
            " where id = ?",
            (BURNING, each.id),
        )
        tell(connection, "fuse.set", each, moment, why=f"launch {launch_id} failed")


def end_timeout(connection: sqlite3.Connection, launch_id: str, reason: str) -> None:
    """Of a launch whose agent is gone. What fires just then has its own end."""
    for each in fuse_rows.within(
        connection, "where fuse.launch = ? and phase = ?", (launch_id, BURNING)
    ):
        _cancelled(connection, each, reason, clocks.now())


def moot(path: str, fuse_id: str) -> Fuse | None:
    """If it is a timeout that burns on though its agent's process is gone: nobody has said so yet."""
    found = next(iter(fuse_rows.read(path, "where fuse.id = ?", (fuse_id,))), None)
    return found if found is not None and found.state == BURNING and found.moot else None


def end_moot(path: str, fuse_id: str) -> None:
    with db.transaction(path) as connection:
        known = fuse_rows.one(connection, fuse_id)
        if known is not None and known.state == BURNING and known.moot:
            _cancelled(connection, known, "its agent has ended", clocks.now())


def forget(path: str) -> None:
    """Those settled long ago."""
    if fuse_rows.read(path, "where settled_at < ?", (clocks.now().at - KEEP,)):
        with db.transaction(path) as connection:
            _forget(connection, clocks.now())


def keep_time(path: str, moment: Moment | None = None) -> None:
    """Somebody has set the clock: when they are due by the time of day changes with it, for the boot
    after this one."""
    moment = moment or clocks.now()
    shift = moment.at - moment.elapsed
    where = "phase = 'burning' and boot = ? and abs(due_at - due_boot - ?) > 1.0"
    known = fuse_rows.read(path, f"where {where.replace('boot =', 'fuse.boot =')}", (moment.boot, shift))
    if known:
        with db.transaction(path) as connection:
            connection.execute(
                f"update fuse set due_at = due_boot + ? where {where}",  # noqa: S608 - our own words
                (shift, moment.boot, shift),
            )


def tell(connection: sqlite3.Connection, kind: str, fuse: Fuse, moment: Moment, **more: Any) -> int:
    """Inside the transaction that makes it true. The event's number."""
    data = {
        "fuse": fuse.id,
        "label": fuse.label,
        "directory": journal.plain(fuse.directory),
        "session_id": fuse.session_id,
        "launch": fuse.launch_id,
        "actions": [action.shown() for action in fuse.actions],
        "due_at": rfc3339(fuse.due_at),
        **more,
    }
    subject = fuse.directory if fuse.directory is not None else fuse.session_id
    told = Event(kind, moment.at, moment.at, fuse.adapter, subject, fuse.group, {"data": data})
    return journal.append(connection, told)


def _forget(connection: sqlite3.Connection, moment: Moment) -> None:
    connection.execute("delete from fuse where settled_at < ?", (moment.at - KEEP,))


def _burning(connection: sqlite3.Connection, fuse_id: str, *, given_up: bool = False) -> Fuse:
    found = fuse_rows.one(connection, fuse_id)
    if found is None:
        raise NotFound(f"no fuse {fuse_id!r}", "agentctl fuse list shows those that burn")
    loose = found.abandoned or (found.claim is not None and found.claim.foreign)
    if found.state == BURNING or (given_up and found.state == FIRING and loose):
        return found
    if found.state == FIRING:
        by = f", by pid {found.claim.identity.pid}" if found.claim is not None else ""
        raise Refused(
            f"fuse {found.id} is firing{by}", "agentctl fuse list --all shows what comes of it"
        )
    raise Refused(f"fuse {found.id} has {_how(found)}", "agentctl fuse set lights another")


def _how(fuse: Fuse) -> str:
    return "been cancelled" if fuse.state == CANCELLED else f"{fuse.state} already"


def _cancelled(
    connection: sqlite3.Connection, fuse: Fuse, reason: str, moment: Moment, launch_id: str | None = None
) -> Fuse:
    connection.execute(
        "update fuse set phase = ?, settled_at = ?, reason = ?, cancelled_by = ? where id = ?",
        (CANCELLED, moment.at, reason, launch_id, fuse.id),
    )
    tell(connection, "fuse.cancelled", fuse, moment, why=reason)
    return fuse._replace(state=CANCELLED, settled_at=moment.at, reason=reason)


def _made(actions: Sequence[Action], seconds: float, moment: Moment) -> Fuse:
    return Fuse(
        os.urandom(4).hex(),
        None,
        None,
        None,
        None,
        None,
        tuple(actions),
        moment.at,
        moment.boot,
        moment.elapsed + seconds,
        moment.at + seconds,
        BURNING,
    )


def _lit(path: str) -> list[Fuse]:
    return fuse_rows.read(path, "where phase in (?, ?)", LIT)
