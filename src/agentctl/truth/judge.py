"""The one place where a status is decided. Pure: evidence in, verdict out.

The kernel decides whether a session lives; the most authoritative trusted source decides what it is
doing; and once its owner is gone, what it was doing last, with the exit code, decides how it ended.
docs/concepts/verdicts.md holds the truth table, generated from this function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from agentctl.truth.model import Activity, Evidence, Outcome, Status, Verdict, WaitingFor

# Of two contradicting claims on liveness the safer stands first, whoever makes it: nothing makes a
# live process dead. That the very process that ran it has ended is a proof; that nobody else could run
# it is one only where everybody is visible, so what is hidden stands before it.
LIVENESS = ("alive", "ambiguous", "ended", "hidden", "gone")
# Of two equally authoritative claims on activity (two processes on one session) the one that needs
# a person stands first.
ACTIVITY = ("waiting", "working", "idle")
RANK = {"kernel": 4, "record": 3, "journal": 2, "derived": 1}
WAITING_FOR = ("permission", "question", "startup")
ENDINGS = ("completed", "failed", "interrupted")
# 128 + signal, which agents exit with after handling INT, TERM, HUP, or report of a child
_SIGNAL_CODES = {129: "SIGHUP", 130: "SIGINT", 137: "SIGKILL", 143: "SIGTERM"}


def judge(evidence: Sequence[Evidence]) -> Verdict:
    living: list[Evidence] = []  # what is said of its process
    active: list[Evidence] = []  # of its turn
    exits: list[Evidence] = []
    suspended: Evidence | None = None
    for piece in evidence:
        if not piece.trusted:
            continue
        claim = piece.claim
        if claim in ACTIVITY:
            active.append(piece)
        elif claim == "exited":
            exits.append(piece)
        elif claim == "suspended":
            suspended = piece
        # only the kernel's word makes a session alive or dead; that nobody can tell, anyone may say
        elif claim in LIVENESS and (piece.authority == "kernel" or claim in ("ambiguous", "hidden")):
            living.append(piece)
    liveness, activity = _safest(living), _strongest(active)
    if liveness is None:
        return _unknown(evidence, "no source tells whether a process runs it", ())
    if liveness.claim in ("ambiguous", "hidden"):
        return _unknown(evidence, liveness.note or f"its owner is {liveness.claim}", (liveness,))
    if liveness.claim == "alive":
        return _living(evidence, liveness, activity, suspended)
    if activity is not None and activity.claim == "idle" and activity.detail not in ENDINGS:
        # A stale live record may say only "idle"; how the turn ended is then in the journal.
        telling = [e for e in active if e.claim == "idle" and e.detail in ENDINGS]
        activity = _strongest(telling) or activity
    return _ended(evidence, liveness, activity, exits[0] if exits else None)


def _living(
    evidence: Sequence[Evidence],
    alive: Evidence,
    activity: Evidence | None,
    suspended: Evidence | None,
) -> Verdict:
    used = tuple(piece for piece in (alive, activity, suspended) if piece is not None)
    how = "is alive" if suspended is None else "is alive but suspended"
    stopped = suspended is not None
    if activity is None:
        reason = f"its process {how}; no source tells what it is doing"
        return _verdict(evidence, used, reason, status="running", suspended=stopped)
    if activity.claim == "waiting":
        what = cast(WaitingFor, activity.detail) if activity.detail in WAITING_FOR else None
        reason = f"its process {how} and waits for a person{f': {what}' if what else ''}"
        return _verdict(
            evidence, used, reason, status="waiting", activity="waiting", waiting=what, suspended=stopped
        )
    if activity.claim == "working":
        reason = f"its process {how} and its turn is open"
        return _verdict(evidence, used, reason, status="running", activity="working", suspended=stopped)
    reason = f"its process {how} and its turn is over"
    return _verdict(evidence, used, reason, status="idle", activity="idle", suspended=stopped)


def _ended(
    evidence: Sequence[Evidence],
    gone: Evidence,
    activity: Evidence | None,
    exited: Evidence | None,
) -> Verdict:
    code = exited.value if exited is not None else None
    end = "the process that ran it has ended" if gone.claim == "ended" else "its process is gone"
    outcome, reason = _outcome(activity, code, end)
    used: tuple[Evidence, ...] = (gone,) if activity is None else (gone, activity)
    if exited is not None:
        used += (exited,)
    return _verdict(evidence, used, reason, status="stopped", outcome=outcome, code=code)


def _outcome(activity: Evidence | None, code: int | None, end: str) -> tuple[Outcome, str]:
    """The agent's own end record *and* the code: agents exit 0 after SIGINT and after API errors. `end`
    says what is known of its process."""
    turn = activity.claim if activity is not None else None
    ending = activity.detail if activity is not None and turn == "idle" else ""
    if ending == "interrupted":
        return "interrupted", f"{end}; its last turn was interrupted"
    if code is not None and (code < 0 or code in _SIGNAL_CODES):
        by = _SIGNAL_CODES.get(code, f"signal {-code}")
        return "killed", f"its process was ended by {by}"
    if turn in ("working", "waiting"):
        if code == 0:
            return "interrupted", "its process exited 0 with its turn still open"
        if code is not None:
            return "failed", f"its process exited {code} with its turn still open"
        return "killed", f"{end} and its turn was never closed"
    if ending == "failed":
        return "failed", f"{end}; its last turn failed"
    if code:
        return "failed", f"its process exited {code}"
    if ending == "completed":
        return "completed", f"{end}; its last turn completed"
    return "unknown", f"{end}; no source tells how it ended"


def _safest(living: Sequence[Evidence]) -> Evidence | None:
    if len(living) == 1:  # the usual case, a thousand times in a long list
        return living[0]
    return min(living, key=lambda e: LIVENESS.index(e.claim), default=None)


def _strongest(active: Sequence[Evidence]) -> Evidence | None:
    if len(active) == 1:
        return active[0]
    return min(active, key=lambda e: (-RANK[e.authority], ACTIVITY.index(e.claim)), default=None)


def _unknown(evidence: Sequence[Evidence], reason: str, used: tuple[Evidence, ...]) -> Verdict:
    return _verdict(evidence, used, reason, status="unknown")


def _verdict(
    evidence: Sequence[Evidence],
    used: tuple[Evidence, ...],
    reason: str,
    *,
    status: Status,
    activity: Activity = "unknown",
    waiting: WaitingFor | None = None,
    outcome: Outcome | None = None,
    code: int | None = None,
    suspended: bool = False,
) -> Verdict:
    if len(used) == len(evidence):  # nothing is left to agree or to be overruled
        return Verdict(status, activity, waiting, outcome, code, reason, used, (), suspended)
    claims = {e.claim for e in used}
    agreeing = tuple(e for e in evidence if e.trusted and e.claim in claims and e not in used)
    overruled = tuple(e for e in evidence if e not in used and e not in agreeing)
    return Verdict(
        status, activity, waiting, outcome, code, reason, used + agreeing, overruled, suspended
    )
