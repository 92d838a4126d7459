"""What Claude Code's record does not tell in the middle of a turn: whether a person is needed.

A dialog may open by itself, which the record tells in the same words as one that a person has opened;
and it may wait in words that we do not know. The transcript cannot tell a question from work. So neither
is believed then.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.adapters.claude_code.pid_record import DIALOG
from agentctl.truth import observe
from agentctl.truth.model import Evidence, Facts


def distrust_open_turn(
    facts: Facts, said: Sequence[Evidence], path: str | None
) -> tuple[Facts, Sequence[Evidence]]:
    """Return facts and evidence, without trust in what cannot be believed while a turn is open."""
    if facts.turn is None or facts.turn.claim != "working":
        return facts, said
    doubts = [_doubt(piece) for piece in said]
    if not any(doubts):
        return facts, said
    doubted = [
        piece._replace(note=f"{piece.note}; {doubt}", trusted=False) if doubt else piece
        for piece, doubt in zip(said, doubts, strict=True)
    ]
    open_turn = [piece._replace(trusted=False) for piece in observe.said(facts, path)]
    return facts._replace(turn=None), [*doubted, *open_turn]


def _doubt(said: Evidence) -> str:
    """Why this word of its record does not tell whether a person is needed; empty: it does."""
    if said.note == DIALOG:
        return "its turn is open, and nothing tells whether the dialog holds it up"
    if said.note.startswith("waitingFor"):
        return "it waits, and the transcript cannot tell for whom"
    return ""
