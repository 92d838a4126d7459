"""The only place where a status is decided. Pure: evidence in, verdict out.

The kernel decides whether a session is alive. The most authoritative trusted source decides what it is
doing. Once its owner is gone, its last activity and the exit code decide how it ended.
docs/concepts/verdicts.md holds the truth table, generated from this function.
"""

from __future__ import annotations

from agentctl.light_typing import Sequence, cast
from agentctl.truth.model import Activity, Evidence, Outcome, Status, Verdict, WaitingFor

# Of two contradicting claims on liveness the safer stands first, whatever its authority: no claim makes
# a live process dead. `ended` proves that the process that ran the session is gone. `gone` is a proof
# only if every process is visible, so `hidden` stands before it.
LIVENESS = ("alive", "ambiguous", "ended", "hidden", "gone")
# Of two equally authoritative claims on activity (two processes on one session) the one that needs
# the user stands first.
ACTIVITY = ("waiting", "working", "idle")
RANK = {"kernel": 4, "record": 3, "journal": 2, "derived": 1}
WAITING_FOR = ("permission", "question", "startup")
ENDINGS = ("completed", "failed", "interrupted")
# 128 + signal: an agent exits so after handling INT, TERM or HUP, or reports it for a child
_SIGNAL_CODES = {129: "SIGHUP", 130: "SIGINT", 137: "SIGKILL", 143: "SIGTERM"}


def judge(evidence: Sequence[Evidence]) -> Verdict:
    """Return the verdict on one session."""
    living: list[Evidence] = []  # claims on its process
    active: list[Evidence] = []  # claims on its turn
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
        # Only the kernel makes a session alive or dead. Any source may say that its owner is unclear.
        elif claim in LIVENESS and (piece.authority == "kernel" or claim in ("ambiguous", "hidden")):
            living.append(piece)
    liveness, activity = _find_safest(living), _find_strongest(active)
    if liveness is None:
        return _judge_unknown(evidence, "no source tells whether a process runs it", ())
    if liveness.claim in ("ambiguous", "hidden"):
        return _judge_unknown(evidence, liveness.note or f"its owner is {liveness.claim}", (liveness,))
    if liveness.claim == "alive":
        return _judge_live(evidence, liveness, activity, suspended)
    if activity is not None and activity.claim == "idle" and activity.detail not in ENDINGS:
        # A stale live record may say only "idle"; how the turn ended is then in the journal.
        endings = [e for e in active if e.claim == "idle" and e.detail in ENDINGS]
        activity = _find_strongest(endings) or activity
    return _judge_ended(evidence, liveness, activity, exits[0] if exits else None)


def _judge_live(
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
        return _make_verdict(evidence, used, reason, status="running", suspended=stopped)
    if activity.claim == "waiting":
        what = cast(WaitingFor, activity.detail) if activity.detail in WAITING_FOR else None
        reason = f"its process {how} and waits for a person{f': {what}' if what else ''}"
        return _make_verdict(
            evidence, used, reason, status="waiting", activity="waiting", waiting=what, suspended=stopped
        )
    if activity.claim == "working":
        reason = f"its process {how} and its turn is open"
        return _make_verdict(
            evidence, used, reason, status="running", activity="working", suspended=stopped
        )
    reason = f"its process {how} and its turn is over"
    return _make_verdict(evidence, used, reason, status="idle", activity="idle", suspended=stopped)


def _judge_ended(
    evidence: Sequence[Evidence],
    absence: Evidence,
    activity: Evidence | None,
    exited: Evidence | None,
) -> Verdict:
    code = exited.value if exited is not None else None
    end = "the process that ran it has ended" if absence.claim == "ended" else "its process is gone"
    outcome, reason = _decide_outcome(activity, code, end)
    used: tuple[Evidence, ...] = (absence,) if activity is None else (absence, activity)
    if exited is not None:
        used += (exited,)
    return _make_verdict(evidence, used, reason, status="stopped", outcome=outcome, code=code)


def _decide_outcome(activity: Evidence | None, code: int | None, end: str) -> tuple[Outcome, str]:
    """Return the outcome and the reason, from the agent's own end record *and* the exit code: agents
    exit 0 after SIGINT and after API errors. `end` says how we know that its process is gone."""
    turn = activity.claim if activity is not None else None
    ending = activity.detail if activity is not None and turn == "idle" else ""
    if ending == "interrupted":
        return "interrupted", f"{end}; its last turn was interrupted"
    if code is not None and (code < 0 or code in _SIGNAL_CODES):
        signal = _SIGNAL_CODES.get(code, f"signal {-code}")
        return "killed", f"its process was ended by {signal}"
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


def _find_safest(living: Sequence[Evidence]) -> Evidence | None:
    if len(living) == 1:  # the usual case, and a long list has thousands
        return living[0]
    return min(living, key=lambda e: LIVENESS.index(e.claim), default=None)


def _find_strongest(active: Sequence[Evidence]) -> Evidence | None:
    if len(active) == 1:
        return active[0]
    return min(active, key=lambda e: (-RANK[e.authority], ACTIVITY.index(e.claim)), default=None)


def _judge_unknown(evidence: Sequence[Evidence], reason: str, used: tuple[Evidence, ...]) -> Verdict:
    return _make_verdict(evidence, used, reason, status="unknown")


def _make_verdict(
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
    agreeing: tuple[Evidence, ...] = ()
    overruled: tuple[Evidence, ...] = ()
    if len(used) != len(evidence):  # the other pieces agree, or are overruled
        claims = {e.claim for e in used}
        agreeing = tuple(e for e in evidence if e.trusted and e.claim in claims and e not in used)
        overruled = tuple(e for e in evidence if e not in used and e not in agreeing)
    return Verdict(
        status=status,
        activity=activity,
        waiting_for=waiting,
        outcome=outcome,
        exit_code=code,
        reason=reason,
        used=used + agreeing,
        overruled=overruled,
        suspended=suspended,
    )
