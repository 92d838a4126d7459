"""pi."""

from __future__ import annotations

from tests.real.scenarios import Play, common

PLAYS: dict[str, Play] = {
    "start": common.start,
    "first answer": common.first_answer,
    "long stream": common.long_stream,
    "silent thinking": common.silent_thinking,
}
CANNOT: dict[str, str] = {}
