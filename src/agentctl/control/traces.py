"""The files that may change when a session does: its transcript, and whatever its evidence points to.
While there is neither, where its first sign will be, as its adapter says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentctl.adapters.registry import load
from agentctl.errors import Gone
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.look import Look
from agentctl.truth.model import Problem, Session

if TYPE_CHECKING:
    from agentctl.truth.look import Environ

_PLACE = re.compile(r"(/.+?)(?:@\d+|#.*)?")  # a file, with the place in it


def files_of(session: Session) -> Iterator[str]:
    seen = session.seen
    if seen.transcript is not None:
        yield seen.transcript
        yield f"{seen.transcript}-wal"  # a database's latest
    for address in (seen.tied_by, *(piece.address for piece in seen.evidence)):
        place = _PLACE.fullmatch(address)
        if place and not address.startswith("/proc"):
            yield place[1]


def deciding(session: Session) -> Iterator[str]:
    """Those of its files that can change what it is. While a record says what a live one does, no
    transcript overrules that (see `judge`), and an agent at work writes into it all the time."""
    record = record_of(session)
    if record is None or all(piece.address != record for piece in session.verdict.used):
        yield from files_of(session)
        return
    yield record
    if session.seen.tied_by.startswith("/") and not session.seen.tied_by.startswith("/proc"):
        yield session.seen.tied_by


def record_of(session: Session) -> str | None:
    """The file that says what it is doing, and nothing else: a whole, written anew for each change."""
    for piece in session.seen.evidence:
        if piece.authority == "record" and piece.claim in ACTIVITY:
            place = _PLACE.fullmatch(piece.address)
            if place and place[1] == piece.address and not piece.address.startswith("/proc"):
                return piece.address
    return None


def gives_no_sign(session: Session) -> bool:
    """Whether nobody knows which file to watch for its next change."""
    seen, verdict = session.seen, session.verdict
    if verdict.status == "stopped":
        return False
    return seen.session_id is None or seen.transcript is None or verdict.activity == "unknown"


def foreseen(session: Session, environ: Environ, problems: list[Problem]) -> list[str]:
    """Where the next change of such a one will show. An adapter that does not say, or cannot, is asked
    by the clock alone; that it cannot is a problem."""
    owner, adapter = session.seen.owner, session.seen.adapter
    if owner is None or not gives_no_sign(session):
        return []
    try:
        signs = getattr(load(adapter), "signs", None)
        look = Look({owner.pid: owner}, environ, time.time()).scoped(adapter)
        return [str(path) for path in signs(session.seen, look)] if signs is not None else []
    except Gone:  # its process has just ended
        return []
    except Exception as error:  # noqa: BLE001 - the fence: a third party's adapter
        problems.append(Problem(adapter, "broken", f"signs: {type(error).__name__}: {error}", adapter))
        return []
