"""The files that may change when a session does: its transcript and the files of its evidence.

While there is neither, the adapter says where the first sign will be.
"""

from __future__ import annotations

import os
import re
import time

from agentctl.adapters.registry import load
from agentctl.errors import Gone
from agentctl.light_functools import cache
from agentctl.light_typing import TYPE_CHECKING, Iterator
from agentctl.system.proc import is_in_proc
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.look import Look
from agentctl.truth.model import Problem, Session

if TYPE_CHECKING:
    from agentctl.truth.look import Environ

_OFFSET = re.compile(r"@\d+\Z")  # the place in a transcript, after its path


def session_files(session: Session) -> Iterator[str]:
    observation = session.observation
    transcript = observation.transcript
    if transcript is not None:
        yield transcript
        yield f"{transcript}-wal"  # the latest writes, if it is a database
    for address in (observation.owner_source, *(piece.address for piece in observation.evidence)):
        if _is_path(address):
            yield from _find_files(address, transcript)


def status_files(session: Session) -> Iterator[str]:
    """Yield the files that can change the status. While the record of a live session decides, no
    transcript overrules it (see `judge`), and an agent at work writes to its transcript all the time."""
    record = record_file(session)
    if record is None or all(piece.address != record for piece in session.verdict.used):
        yield from session_files(session)
        return
    yield record
    if _is_path(session.observation.owner_source):
        yield session.observation.owner_source


def record_file(session: Session) -> str | None:
    """Return the file that says what the session does, and that is rewritten for each change."""
    for piece in session.observation.evidence:
        if piece.authority == "record" and piece.claim in ACTIVITY:
            address = piece.address
            is_whole = not _shorten(address) or os.path.isfile(address)
            if _is_path(address) and is_whole:
                return address
    return None


def _is_path(address: str) -> bool:
    return address.startswith("/") and not is_in_proc(address)


def _find_files(address: str, transcript: str | None) -> list[str]:
    """Return the file that an address names: a path, or a path and a place in it (`@512`,
    `#ses_1/msg_2`). A path may contain both marks, so the file system decides. If no such file exists,
    return all that the address could mean."""
    if transcript is not None and address.startswith((f"{transcript}@", f"{transcript}#")):
        return [transcript]
    shorter = _shorten(address)
    if not shorter:
        return [address]
    existing = [path for path in (address, *shorter) if os.path.isfile(path)]
    return existing[:1] or (shorter if _OFFSET.search(address) else [address, *shorter])


def _shorten(address: str) -> list[str]:
    """Return the paths that remain without a place in the file, the longest first."""
    paths = [_OFFSET.sub("", address)] if _OFFSET.search(address) else []
    parts = address.split("#")
    return paths + ["#".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def needs_polling(session: Session) -> bool:
    """Return True if no file is known that will show the next change."""
    observation, verdict = session.observation, session.verdict
    if verdict.status == "stopped":
        return False
    is_nameless = observation.session_id is None or observation.transcript is None
    return is_nameless or verdict.activity == "unknown"


def may_work_unseen(session: Session) -> bool:
    """Return True if the session may begin to work without a change of any file. Some agents do so
    outside their turns."""
    return session.verdict.status == "idle" and _works_unseen(session.observation.adapter)


def _works_unseen(adapter: str) -> bool:
    try:
        return _declares_unseen_work(adapter)
    except Exception:  # noqa: BLE001 - the fence. The survey loads the adapter too, and reports the failure
        return False


@cache  # loading an adapter reads the installed packages; a failure is not cached
def _declares_unseen_work(adapter: str) -> bool:
    return bool(getattr(load(adapter), "works_unseen", False))


def expected_files(session: Session, environ: Environ, problems: list[Problem]) -> list[str]:
    """Return the files that will show the next change of a session that needs polling. An adapter may
    name none; a failure to do so is added to `problems`."""
    owner, adapter = session.observation.owner, session.observation.adapter
    if owner is None or not needs_polling(session):
        return []
    try:
        signs = getattr(load(adapter), "signs", None)
        look = Look({owner.pid: owner}, environ, time.time()).scope_to(adapter)
        return [str(path) for path in signs(session.observation, look)] if signs is not None else []
    except Gone:  # the process has just ended
        return []
    except Exception as error:  # noqa: BLE001 - the fence: a third party's adapter
        problems.append(Problem(adapter, "broken", f"signs: {type(error).__name__}: {error}", adapter))
        return []
