"""A survey against what was expected: what is missing, changed or distrusted shows in any case."""

import pytest

from agentctl.adapters import registry
from agentctl.errors import Unsupported
from agentctl.rehearsal import expect, recipe
from agentctl.rehearsal.expect import Expected, Signal, Telling, compare, numbers
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Problem, Session

ALIVE = Evidence("alive", "proc:7@9", "kernel", note="bound by pid record: /x/7.json")
BUSY = Evidence("working", "/x/7.json", "record", note="status busy")
SAYS_BUSY = Signal("the record says busy", "working", "record", r"/\d+\.json$", "^status busy$")
RUNNING = Telling("running", (SAYS_BUSY,))


def session(*evidence: Evidence, session_id: str | None = "one") -> Session:
    return Session(Observation("x", session_id, evidence), judge(evidence))


def test_as_it_should_be() -> None:
    compared = compare(RUNNING, session(ALIVE, BUSY), [])
    assert compared.as_expected
    assert [(h.state, h.evidence) for h in compared.heard] == [("as expected", BUSY)]


@pytest.mark.parametrize(
    ("evidence", "state"),
    [
        (BUSY._replace(trusted=False), "untrusted"),
        (BUSY._replace(claim="idle", note="status idle"), "otherwise"),
        (BUSY._replace(note="status shell"), "otherwise"),
        (BUSY._replace(authority="journal"), "missing"),
        (BUSY._replace(address="/x/state.db"), "missing"),
    ],
)
def test_a_signal_that_changed_is_drift_also_where_the_status_is_right(
    evidence: Evidence, state: str
) -> None:
    other = Evidence("working", "/t.jsonl", "journal")
    compared = compare(RUNNING, session(ALIVE, evidence, other), [])
    assert [heard.state for heard in compared.heard] == [state]
    assert not compared.as_expected


def test_the_detail_counts_where_it_is_expected() -> None:
    asks = Signal("asks", "waiting", "record", detail="permission")
    question = Evidence("waiting", "/x/7.json", "record", detail="question")
    telling = Telling("waiting", (asks,), waiting_for="permission")
    compared = compare(telling, session(ALIVE, question), [])
    assert compared.differs == ("waiting for question, not permission",)
    assert compared.heard[0].state == "otherwise"


def test_another_status_is_told() -> None:
    compared = compare(Telling("idle", ()), session(ALIVE, BUSY), [])
    assert compared.differs == ("status running, not idle",)


def test_an_outcome_is_told() -> None:
    gone = Evidence("gone", "/proc", "kernel")
    compared = compare(Telling("stopped", (), outcome="completed"), session(gone), [])
    assert compared.differs == ("outcome unknown, not completed",)


def test_no_row_and_no_id_are_told() -> None:
    assert compare(RUNNING, None, []).differs == ("not listed, not running",)
    unnamed = session(ALIVE, BUSY, session_id=None)
    assert compare(RUNNING, unnamed, []).differs == ("no session id",)
    assert compare(RUNNING._replace(named=False), unnamed, []).as_expected


def test_where_nothing_can_tell_that_is_the_right_answer() -> None:
    telling = Telling("idle", (), blind=True)
    assert compare(telling, session(ALIVE), []).as_expected
    assert compare(telling, session(ALIVE, BUSY), []).differs == ("status running, not idle",)
    assert not compare(telling._replace(blind=False), session(ALIVE), []).as_expected


def test_problems_are_drift_but_for_leftovers_and_a_busy_machine() -> None:
    drift = Problem("x", "drift", "says 'toiling'")
    harmless = [Problem("x", "stale", "left behind"), Problem("x", "late", "no answer")]
    assert compare(RUNNING, session(ALIVE, BUSY), harmless).as_expected
    assert compare(RUNNING, session(ALIVE, BUSY), [drift]).problems == (drift,)


@pytest.mark.parametrize(
    ("said", "found"),
    [("2.1.325 (Claude Code)", (2, 1, 325)), ("codex-cli 0.166.0", (0, 166, 0)), ("no idea", ())],
)
def test_versions_are_numbers(said: str, found: tuple[int, ...]) -> None:
    assert numbers(said) == found


@pytest.mark.parametrize("adapter", [known.name for known in registry.registered()])
def test_what_can_be_rehearsed_has_expectations(adapter: str) -> None:
    try:
        recipe.recipe_for(adapter)
    except Unsupported:
        with pytest.raises(Unsupported, match="nobody has measured"):
            expect.expected_of(adapter, "1.0")
        return
    for version in ("", "0.0.1", "0.73.1", "99.0"):
        _is_whole(expect.expected_of(adapter, version))


def _is_whole(expected: Expected) -> None:
    assert {"start", "work", "tool", "idle", "end"} <= expected.terminal.keys()
    assert {"work", "end"} == expected.headless.keys()
    assert ("permission" in expected.terminal) == bool(expected.wanted)
    assert "{command}" in expected.call
    assert expected.versions
    for telling in (*expected.terminal.values(), *expected.headless.values()):
        assert telling.signals


def test_an_old_pi_is_known_to_be_late() -> None:
    old, new = (expect.expected_of("pi", version) for version in ("0.73.1", "1.5.0"))
    assert old.terminal["work"].blind
    assert not new.terminal["work"].blind
