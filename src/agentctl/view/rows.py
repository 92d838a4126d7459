"""How a session looks in a list: its short id, its status with an age, its colour, its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from os.path import commonprefix

from agentctl.text import age, one_line, tilde
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.model import STATUSES, Session
from agentctl.view.table import WHOLE, Cell, Column

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
    Column("ID", WHOLE),  # so that it can be typed back
    Column("STATUS", WHOLE),
    Column("AGENT", 6, goes=2),
    Column("MODEL", 8, goes=4),
    Column("DIRECTORY", 12, goes=3),
    Column("ABOUT", 16, goes=1),
)
# How much of an id tells two sessions apart. Ids that begin with a time need more of it.
SHORT_RANDOM, SHORT_TIMED, SHORT_OTHER = 8, 13, 12


def in_order(sessions: Iterable[Session]) -> list[Session]:
    """Who needs a person first; among equals, the latest first."""
    groups: dict[str, list[Session]] = {status: [] for status in STATUSES}
    for session in sessions:
        groups[session.verdict.status].append(session)
    return [s for group in groups.values() for s in sorted(group, key=_freshness, reverse=True)]


def _freshness(session: Session) -> float:
    return latest(session) or 0


def latest(session: Session) -> float | None:
    facts = session.seen.facts
    return facts.last_activity_at or facts.started_at


def since(session: Session) -> float | None:
    """When the status became what it is, as far as a source says; else its last sign of life."""
    over = session.verdict.status == "stopped"
    sought = ("exited",) if over else ACTIVITY  # of what we did not launch nobody wrote down its end
    told = [e.at for e in session.verdict.used if e.at is not None and e.claim in sought]
    return told[0] if told else latest(session)


def cells(sessions: Sequence[Session], now: float, home: str | None) -> list[list[Cell]]:
    ids = short_ids([name(s) for s in sessions])
    return [_row(s, i, now, home) for s, i in zip(sessions, ids, strict=True)]


def name(session: Session) -> str:
    """Its id, or the process when it has none: both can be typed back."""
    seen = session.seen
    if seen.session_id is not None:
        return one_line(seen.session_id)
    return f"pid:{seen.owner.pid}" if seen.owner is not None else "-"


def short_ids(ids: Sequence[str]) -> list[str]:
    """The shortest prefixes worth typing, unique among these."""
    shared: dict[str, int] = {}  # how many characters each has in common with a neighbour in order
    ordered = sorted(ids)
    for one, two in pairwise(ordered):
        if one[:SHORT_RANDOM] == two[:SHORT_RANDOM]:
            common = len(commonprefix((one, two)))  # noqa: RUF071 - characters are meant
            shared[one] = max(common, shared.get(one, 0))
            shared[two] = common
    return [_short(full, shared.get(full, 0)) for full in ids]


def about(session: Session) -> str:
    facts = session.seen.facts
    label = session.launch.name if session.launch is not None else None
    return one_line(label or facts.title or facts.prompt or "")


def word(session: Session) -> str:
    """The status in a word; of an ended one, how it ended, if that is known."""
    verdict = session.verdict
    if verdict.suspended:
        return "suspended"
    if verdict.status == "stopped" and verdict.outcome not in (None, "unknown"):
        return str(verdict.outcome)
    if verdict.status == "running" and verdict.activity == "unknown":
        return "running?"
    return verdict.status


def _row(session: Session, short: str, now: float, home: str | None) -> list[Cell]:
    facts, status = session.seen.facts, word(session)
    moment = since(session)
    told = f"{status} {age(now - moment)}" if moment is not None else status
    colour = COLOURS.get(status) or COLOURS.get(session.verdict.status, "")
    return [
        Cell(short, "bold"),
        Cell(told, colour),
        Cell(session.seen.adapter),
        Cell(one_line(facts.model or "-")),
        Cell(one_line(tilde(facts.cwd, home)) if facts.cwd else "-", keep_end=True),
        Cell(about(session)),
    ]


def _short(full: str, shared: int) -> str:
    if full.startswith("pid:"):
        return full
    uuid = len(full) == 36 and full[8:9] == "-"
    least = (SHORT_TIMED if full[14:15] == "7" else SHORT_RANDOM) if uuid else SHORT_OTHER
    return full[: max(least, shared + 1)]
