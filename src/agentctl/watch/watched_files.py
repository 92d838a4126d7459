"""The files that may change when a session does: its transcript, and whatever its evidence points to.
While there is neither, where its first sign will be, as its adapter says."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from agentctl.adapters.registry import load
from agentctl.errors import Gone
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.look import Look
from agentctl.truth.model import Problem, Session

if TYPE_CHECKING:
    from agentctl.truth.look import Environ

_OFFSET = re.compile(r"@\d+\Z")  # after the path of a transcript: where in it


def files_of(session: Session) -> Iterator[str]:
    seen = session.seen
    if seen.transcript is not None:
        yield seen.transcript
        yield f"{seen.transcript}-wal"  # a database's latest
    for address in (seen.tied_by, *(piece.address for piece in seen.evidence)):
        if _is_path(address):
            yield from _meant(address, seen.transcript)


def deciding(session: Session) -> Iterator[str]:
    """Those of its files that can change what it is. While a record says what a live one does, no
    transcript overrules that (see `judge`), and an agent at work writes into it all the time."""
    record = record_of(session)
    if record is None or all(piece.address != record for piece in session.verdict.used):
        yield from files_of(session)
        return
    yield record
    if _is_path(session.seen.tied_by):
        yield session.seen.tied_by


def record_of(session: Session) -> str | None:
    """The file that says what it is doing, and nothing else: a whole, written anew for each change."""
    for piece in session.seen.evidence:
        if piece.authority == "record" and piece.claim in ACTIVITY:
            address = piece.address
            bare = not _shortened(address) or os.path.isfile(address)
            if _is_path(address) and bare:
                return address
    return None


def _is_path(address: str) -> bool:
    return address.startswith("/") and not f"{address}/".startswith("/proc/")


def _meant(address: str, transcript: str | None) -> list[str]:
    """The file that an address names: a path, or a path and a place in it (`@512`, `#ses_1/msg_2`).
    Since a path may hold both marks too, the file system decides; where no such file is there, all that
    it could be are meant."""
    if transcript is not None and address.startswith((f"{transcript}@", f"{transcript}#")):
        return [transcript]
    shorter = _shortened(address)
    if not shorter:
        return [address]
    there = [path for path in (address, *shorter) if os.path.isfile(path)]
    return there[:1] or (shorter if _OFFSET.search(address) else [address, *shorter])


def _shortened(address: str) -> list[str]:
    """Without a place in the file, the longest path first."""
    found = [_OFFSET.sub("", address)] if _OFFSET.search(address) else []
    parts = address.split("#")
    return found + ["#".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def gives_no_sign(session: Session) -> bool:
    """Whether nobody knows which file to watch for its next change."""
    seen, verdict = session.seen, session.verdict
    if verdict.status == "stopped":
        return False
    return seen.session_id is None or seen.transcript is None or verdict.activity == "unknown"


def works_unseen(session: Session) -> bool:
    """Whether it may begin to work without a change of any file: some agents do, outside their turns."""
    return session.verdict.status == "idle" and _works_unseen(session.seen.adapter)


def _works_unseen(adapter: str) -> bool:
    try:
        return _declares_unseen_work(adapter)
    except Exception:  # noqa: BLE001 - the fence. The survey loads it too, and reports the failure
        return False


@cache  # to load an adapter reads the installed packages; a failure is not remembered
def _declares_unseen_work(adapter: str) -> bool:
    return bool(getattr(load(adapter), "works_unseen", False))


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
