"""A session as a row of a list: short id, status with its age, colour, directory."""

from __future__ import annotations

from itertools import pairwise
from os.path import commonprefix

from agentctl.durations import format_age
from agentctl.light_typing import Iterable, Sequence
from agentctl.text import clean_line, shorten_home
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.model import STATUSES, Session
from agentctl.view.table import WHOLE, Cell, Column, Screen, render
from agentctl.wire.session import WireSession, wire_session

COLOURS = {
    "waiting": "yellow",
    "running": "green",
    "idle": "cyan",
    "unknown": "magenta",
    "suspended": "dim",
    "stopped": "dim",
    "failed": "red",
    "killed": "red",
}
LAYOUT = (
    Column("ID", WHOLE),  # a prefix that is cut could be ambiguous
    Column("STATUS", WHOLE),
    Column("AGENT", 6, goes=2),
    Column("MODEL", 8, goes=4),
    Column("DIRECTORY", 12, goes=3),
    Column("ABOUT", 16, goes=1),
)
# Characters of an id that are shown. Ids that begin with a time need more.
SHORT_RANDOM, SHORT_TIMED, SHORT_OTHER = 8, 13, 12


def sort_sessions(sessions: Iterable[WireSession]) -> list[WireSession]:
    """Sort by how much a session needs the user; among equals, the latest first."""
    groups: dict[str, list[WireSession]] = {status: [] for status in STATUSES}
    for session in sessions:
        groups.setdefault(session.status, []).append(session)
    return [s for group in groups.values() for s in sorted(group, key=_sort_key, reverse=True)]


def _sort_key(session: WireSession) -> float:
    return last_activity(session) or 0


def last_activity(session: WireSession) -> float | None:
    return session.last_activity_at or session.started_at


def status_since(session: WireSession) -> float | None:
    """Return when the status began, if a source says so; otherwise the last activity."""
    # Only our launches have a record of their end.
    claims = ("exited",) if session.status == "stopped" else ACTIVITY
    times = [piece.at for piece in session.used if piece.at is not None and piece.claim in claims]
    return times[0] if times else last_activity(session)


def session_lines(sessions: Sequence[WireSession], screen: Screen) -> list[str]:
    return render(LAYOUT, session_cells(sessions, screen), screen.columns, colour=screen.colour)


def session_cells(sessions: Sequence[WireSession], screen: Screen) -> list[list[Cell]]:
    ids = short_ids([wire_name(session) for session in sessions])
    return [_row(session, short_id, screen) for session, short_id in zip(sessions, ids, strict=True)]


def wire_name(session: WireSession) -> str:
    """Return the id of a session, or pid:N if it has none. Verbs take both."""
    if session.id is not None:
        return clean_line(session.id)
    return f"pid:{session.pid}" if session.pid is not None else "-"


def session_name(session: Session) -> str:
    """Return the id of a session, or pid:N if it has none. Verbs take both."""
    return wire_name(wire_session(session))


def short_ids(ids: Sequence[str]) -> list[str]:
    """Return short prefixes of the ids, unique among them."""
    shared: dict[str, int] = {}  # how many characters an id shares with its neighbour in sorted order
    ordered = sorted(ids)
    for one, two in pairwise(ordered):
        if one[:SHORT_RANDOM] == two[:SHORT_RANDOM]:
            common = len(commonprefix((one, two)))  # noqa: RUF071 - characters are meant
            shared[one] = max(common, shared.get(one, 0))
            shared[two] = common
    return [_short(full, shared.get(full, 0)) for full in ids]


def description(session: WireSession) -> str:
    label = session.launch.name if session.launch is not None else None
    return clean_line(label or session.title or session.prompt or "")


def status_word(session: WireSession) -> str:
    """Return the status in one word; of an ended session its outcome, if known."""
    if session.suspended:
        return "suspended"
    if session.status == "stopped" and session.outcome not in (None, "unknown"):
        return str(session.outcome)
    if session.status == "running" and session.activity == "unknown":
        return "running?"
    return session.status


def status_colour(session: WireSession) -> str:
    return COLOURS.get(status_word(session)) or COLOURS.get(session.status, "")


def _row(session: WireSession, short_id: str, screen: Screen) -> list[Cell]:
    status, moment, cwd = status_word(session), status_since(session), session.cwd
    if moment is not None:
        status = f"{status} {format_age(screen.now - moment)}"
    return [
        Cell(short_id, "bold"),
        Cell(status, status_colour(session)),
        Cell(session.adapter),
        Cell(clean_line(session.model or "-")),
        Cell(clean_line(shorten_home(cwd, screen.home)) if cwd else "-", keep_end=True),
        Cell(description(session)),
    ]


def _short(full: str, shared: int) -> str:
    if full.startswith("pid:"):
        return full
    uuid = len(full) == 36 and full[8:9] == "-"
    least = (SHORT_TIMED if full[14:15] == "7" else SHORT_RANDOM) if uuid else SHORT_OTHER
    return full[: max(least, shared + 1)]
