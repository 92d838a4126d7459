"""The truth table, by cases and by properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.truth.judge import ACTIVITY, judge
from agentctl.truth.model import STATUSES, Authority, Claim, Evidence
from tests.truth.strategies import bodies, codes, details, evidences

ALIVE = Evidence("alive", "proc:7@1", "kernel")
GONE = Evidence("gone", "/proc", "kernel")
ENDED = Evidence("ended", "/exit", "kernel")
AMBIGUOUS = Evidence("ambiguous", "proc:7@1", "derived", note="pid 7 or pid 8")
HIDDEN = Evidence("hidden", "/s.jsonl", "journal", note="permission denied")
PARKED = Evidence("idle", "/7.json", "record", note="parked", trusted=False)
LIVING = ("running", "waiting", "idle")


def fact(
    claim: Claim, detail: str = "", authority: Authority = "journal", *, trusted: bool = True
) -> Evidence:
    return Evidence(claim, f"/{claim}", authority, detail=detail, trusted=trusted)


def exit_fact(code: int | None) -> Evidence:
    return Evidence("exited", "/exit.json", "record", value=code)


@pytest.mark.parametrize(
    ("evidence", "status", "activity", "waiting_for"),
    [
        ([ALIVE], "running", "unknown", None),
        ([ALIVE, fact("working")], "running", "working", None),
        ([ALIVE, fact("idle", "completed")], "idle", "idle", None),
        ([ALIVE, fact("waiting", "permission")], "waiting", "waiting", "permission"),
        ([ALIVE, fact("waiting", "a bus")], "waiting", "waiting", None),
        # the agent's live record beats its transcript
        ([ALIVE, fact("working"), fact("idle", authority="record")], "idle", "idle", None),
        ([ALIVE, fact("idle"), fact("working", authority="derived")], "idle", "idle", None),
        # a record with a value that we do not know leaves the decision to the transcript
        ([ALIVE, PARKED, fact("working")], "running", "working", None),
        # two processes on one session: the one that needs a person
        ([ALIVE, fact("working"), fact("waiting", "question")], "waiting", "waiting", "question"),
        # nothing makes a live process dead
        ([GONE, ALIVE, exit_fact(0), fact("idle", "completed")], "idle", "idle", None),
        ([], "unknown", "unknown", None),
        ([fact("working")], "unknown", "unknown", None),
        ([AMBIGUOUS, fact("working")], "unknown", "unknown", None),
        ([HIDDEN, exit_fact(0)], "unknown", "unknown", None),
        # a possible owner and none at all: the safer claim wins
        ([GONE, AMBIGUOUS], "unknown", "unknown", None),
        ([GONE, HIDDEN], "unknown", "unknown", None),
        ([ALIVE, AMBIGUOUS], "running", "unknown", None),
        ([ALIVE, ENDED], "running", "unknown", None),
        ([ENDED, AMBIGUOUS], "unknown", "unknown", None),
        ([Evidence("ended", "/7.json", "record")], "unknown", "unknown", None),
        # only the kernel makes it alive or dead
        ([Evidence("alive", "/7.json", "record")], "unknown", "unknown", None),
        ([Evidence("gone", "/s.jsonl", "journal"), fact("idle")], "unknown", "unknown", None),
        ([Evidence("gone", "/s.jsonl", "record"), ALIVE], "running", "unknown", None),
    ],
)  # fmt: skip
def test_the_verdict_on_live_and_unknown_sessions(
    evidence: list[Evidence], status: str, activity: str, waiting_for: str | None
) -> None:
    verdict = judge(evidence)
    assert (verdict.status, verdict.activity, verdict.waiting_for) == (status, activity, waiting_for)
    assert verdict.outcome is None
    assert verdict.exit_code is None


@pytest.mark.parametrize(
    ("evidence", "outcome", "code"),
    [
        ([], "unknown", None),
        ([exit_fact(0)], "unknown", 0),
        ([exit_fact(None)], "unknown", None),
        ([exit_fact(3)], "failed", 3),
        ([exit_fact(-9)], "killed", -9),
        ([exit_fact(143)], "killed", 143),
        ([fact("idle", "completed")], "completed", None),
        ([fact("idle", "completed"), exit_fact(0)], "completed", 0),
        ([fact("idle", "completed"), exit_fact(1)], "failed", 1),
        ([fact("idle", "completed"), exit_fact(-15)], "killed", -15),
        ([fact("idle", "failed")], "failed", None),
        ([fact("idle", "failed"), exit_fact(0)], "failed", 0),
        ([fact("idle", "interrupted"), exit_fact(0)], "interrupted", 0),
        ([fact("idle", "interrupted"), exit_fact(130)], "interrupted", 130),
        ([fact("working")], "killed", None),
        ([fact("working"), exit_fact(0)], "interrupted", 0),
        ([fact("working"), exit_fact(2)], "failed", 2),
        ([fact("waiting", "question"), exit_fact(0)], "interrupted", 0),
        ([fact("waiting", "question")], "killed", None),
        # a stale live record says "idle" and no more; the transcript says how the turn ended
        ([fact("idle", authority="record"), fact("idle", "completed")], "completed", None),
        ([fact("idle", authority="record"), fact("idle", "failed")], "failed", None),
        ([fact("idle")], "unknown", None),
        ([fact("idle", "completed", trusted=False)], "unknown", None),
        ([fact("working", trusted=False), fact("idle", "completed")], "completed", None),
    ],
)
def test_the_outcome_of_an_ended_session(
    evidence: list[Evidence], outcome: str, code: int | None
) -> None:
    verdict = judge([GONE, *evidence])
    assert (verdict.status, verdict.outcome, verdict.exit_code) == ("stopped", outcome, code)
    assert verdict.activity == "unknown"


def test_an_untrusted_exit_code_is_not_used() -> None:
    assert judge([GONE, exit_fact(0)._replace(trusted=False)]).exit_code is None


def test_the_reason_of_unknown_is_that_of_its_source() -> None:
    assert judge([AMBIGUOUS]).reason == "pid 7 or pid 8"
    assert judge([HIDDEN._replace(note="")]).reason == "its owner is hidden"


@given(bodies)
def test_all_evidence_has_a_verdict(evidence: tuple[Evidence, ...]) -> None:
    verdict = judge(evidence)
    assert verdict.status in STATUSES
    assert verdict.reason
    assert (verdict.status == "stopped") == (verdict.outcome is not None)
    assert verdict.waiting_for is None or verdict.status == "waiting"
    assert verdict.exit_code is None or verdict.status == "stopped"
    expected = {"running": ("working", "unknown"), "waiting": ("waiting",), "idle": ("idle",)}
    assert verdict.activity in expected.get(verdict.status, ("unknown",))


@given(bodies, bodies)
def test_a_process_that_the_kernel_calls_alive_is_never_stopped(
    before: tuple[Evidence, ...], after: tuple[Evidence, ...]
) -> None:
    assert judge((*before, ALIVE, *after)).status in LIVING


@given(bodies)
def test_without_evidence_of_the_kernel_the_status_is_unknown(
    evidence: tuple[Evidence, ...],
) -> None:
    mute = [e for e in evidence if e.authority != "kernel"]
    assert judge(mute).status == "unknown"


@given(bodies)
def test_a_process_that_is_gone_never_lives(evidence: tuple[Evidence, ...]) -> None:
    without = [e for e in evidence if e.claim != "alive"]
    assert judge([GONE, *without]).status in ("stopped", "unknown")


@given(bodies, st.lists(evidences(trusted=False), max_size=4))
def test_untrusted_evidence_never_decides(
    evidence: tuple[Evidence, ...], doubtful: list[Evidence]
) -> None:
    with_doubt, without = judge((*doubtful, *evidence)), judge(evidence)
    assert with_doubt[:6] == without[:6]
    assert with_doubt.used == without.used
    assert all(piece.trusted for piece in with_doubt.used)


@given(bodies)
def test_an_exit_code_is_never_invented(evidence: tuple[Evidence, ...]) -> None:
    verdict = judge(evidence)
    exit_codes = {e.value for e in evidence if e.claim == "exited" and e.trusted}
    assert verdict.exit_code is None or verdict.exit_code in exit_codes
    if verdict.outcome == "completed":
        assert any(e.claim == "idle" and e.detail == "completed" and e.trusted for e in verdict.used)


@given(st.sampled_from(["working", "waiting"]), details, codes)
def test_an_open_turn_is_never_completed(claim: Claim, detail: str, code: int | None) -> None:
    assert judge([GONE, fact(claim, detail), exit_fact(code)]).outcome in (
        "killed",
        "interrupted",
        "failed",
    )
    assert judge([GONE, fact(claim, detail), exit_fact(0)]).outcome != "completed"


@given(bodies)
def test_used_and_overruled_share_the_evidence(evidence: tuple[Evidence, ...]) -> None:
    verdict = judge(evidence)
    used, overruled = set(verdict.used), set(verdict.overruled)
    assert used | overruled == set(evidence)
    assert not used & overruled


@given(bodies, st.randoms(use_true_random=False))
def test_the_order_of_evidence_decides_no_status(evidence: tuple[Evidence, ...], random: object) -> None:
    turned = list(evidence)
    random.shuffle(turned)  # type: ignore[attr-defined]
    assert judge(turned).status == judge(evidence).status


@given(st.lists(evidences(trusted=True), max_size=6))
def test_the_most_authoritative_activity_is_used(evidence: list[Evidence]) -> None:
    rank = ("kernel", "record", "journal", "derived")
    verdict = judge([ALIVE, *evidence])
    activities = [e for e in evidence if e.claim in ACTIVITY]
    if activities:
        best = min(rank.index(e.authority) for e in activities)
        assert rank.index(verdict.used[1].authority) == best
