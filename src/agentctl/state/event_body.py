"""An event's body, smaller: what can be put back when it is read is not written.

The facts that moved a session are among the facts that it is shown with, and most of what is said of a
fact is the same for all of them. `unpacked(packed(body))` is the body; one that has another form than we
give it stays as it is, and so does what an older agentctl has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Of a piece of evidence, in their order, with what most pieces say.
_USUAL: Mapping[str, Any] = {
    "claim": None,
    "detail": None,
    "authority": None,
    "at": None,
    "address": None,
    "note": None,
    "trusted": True,
    "decided": True,
}


def packed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    session, evidence = body.get("session"), body.get("evidence")
    if not isinstance(session, dict) or not _known(session.get("evidence")):
        return body
    if evidence != [piece for piece in session["evidence"] if piece["decided"] is True]:
        return body
    short = {name: value for name, value in session.items() if name != "evidence"}
    pieces = [_short(piece) for piece in session["evidence"]]
    return {**body, "session": short, "evidence": pieces}


def unpacked(body: dict[str, Any]) -> dict[str, Any]:
    session, evidence = body.get("session"), body.get("evidence")
    if not isinstance(session, dict) or "evidence" in session or not isinstance(evidence, list):
        return body
    pieces = [{**_USUAL, **piece} for piece in evidence if isinstance(piece, dict)]
    session["evidence"] = pieces
    body["evidence"] = [piece for piece in pieces if piece["decided"]]
    return body


def _known(evidence: object) -> bool:
    return isinstance(evidence, list) and all(
        isinstance(piece, dict) and piece.keys() == _USUAL.keys() for piece in evidence
    )


def _short(piece: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in piece.items() if value is not _USUAL[name]}
