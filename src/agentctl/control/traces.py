"""The files that may change when a session does: its transcript, and whatever its evidence points to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentctl.truth.model import Session

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
