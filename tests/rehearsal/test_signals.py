"""A survey compared with what was expected: what is missing, changed or distrusted is reported."""

import pytest

from agentctl.adapters import registry
from agentctl.errors import Unsupported
from agentctl.rehearsal import recipe, signals
from agentctl.rehearsal.signals import Expectation, Expected, Signal, compare, parse_version
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Problem, Session

ALIVE = Evidence("alive", "proc:7@9", "kernel", note="bound by pid record: /x/7.json")
BUSY = Evidence("working", "/x/7.json", "record", note="status busy")
SAYS_BUSY = Signal("the record says busy", "working", "record", r"/\d+\.json$", "^status busy$")
RUNNING = Expectation("running", (SAYS_BUSY,))


def session(*evidence: Evidence, session_id: str | None = "one") -> Session:
    return Session(Observation("x", session_id, evidence), judge(evidence))


def test_as_it_should_be() -> None:
    comparison = compare(RUNNING, session(ALIVE, BUSY), [])
    assert comparison.is_as_expected
    assert [(result.state, result.evidence) for result in comparison.results] == [("as expected", BUSY)]


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
    comparison = compare(RUNNING, session(ALIVE, evidence, other), [])
    assert [result.state for result in comparison.results] == [state]
    assert not comparison.is_as_expected


def test_the_detail_counts_where_it_is_expected() -> None:
    asks = Signal("asks", "waiting", "record", detail="permission")
    question = Evidence("waiting", "/x/7.json", "record", detail="question")
    expectation = Expectation("waiting", (asks,), waiting_for="permission")
    comparison = compare(expectation, session(ALIVE, question), [])
    assert comparison.differs == ("waiting for question, not permission",)
    assert comparison.results[0].state == "otherwise"


def test_another_status_is_reported() -> None:
    comparison = compare(Expectation("idle", ()), session(ALIVE, BUSY), [])
    assert comparison.differs == ("status running, not idle",)


def test_another_outcome_is_reported() -> None:
    evidence = Evidence("gone", "/proc", "kernel")
    comparison = compare(Expectation("stopped", (), outcome="completed"), session(evidence), [])
    assert comparison.differs == ("outcome unknown, not completed",)


def test_no_row_and_no_id_are_reported() -> None:
    assert compare(RUNNING, None, []).differs == ("not listed, not running",)
    unnamed = session(ALIVE, BUSY, session_id=None)
    assert compare(RUNNING, unnamed, []).differs == ("no session id",)
    assert compare(RUNNING._replace(has_id=False), unnamed, []).is_as_expected


def test_unknown_is_as_expected_where_the_agent_shows_nothing() -> None:
    expectation = Expectation("idle", (), is_blind=True)
    assert compare(expectation, session(ALIVE), []).is_as_expected
    assert compare(expectation, session(ALIVE, BUSY), []).differs == ("status running, not idle",)
    assert not compare(expectation._replace(is_blind=False), session(ALIVE), []).is_as_expected


def test_problems_are_drift_but_for_leftovers_and_a_busy_machine() -> None:
    drift = Problem("x", "drift", "says 'toiling'")
    harmless = [Problem("x", "stale", "left behind"), Problem("x", "late", "no answer")]
    assert compare(RUNNING, session(ALIVE, BUSY), harmless).is_as_expected
    assert compare(RUNNING, session(ALIVE, BUSY), [drift]).problems == (drift,)


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.1.325 (Claude Code)", (2, 1, 325)), ("codex-cli 0.166.0", (0, 166, 0)), ("no idea", ())],
)
def test_versions_are_numbers(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("adapter", [agent.name for agent in registry.find_adapters()])
def test_what_can_be_rehearsed_has_expectations(adapter: str) -> None:
    try:
        recipe.recipe_for(adapter)
    except Unsupported:
        with pytest.raises(Unsupported, match="there is no table"):
            signals.find_expected(adapter, "1.0")
        return
    for version in ("", "0.0.1", "0.73.1", "99.0"):
        _is_whole(signals.find_expected(adapter, version))


def _is_whole(expected: Expected) -> None:
    assert {"start", "work", "tool", "idle", "end"} <= expected.terminal.keys()
    assert {"work", "end"} == expected.headless.keys()
    assert ("permission" in expected.terminal) == bool(expected.question)
    assert "{command}" in expected.call
    assert expected.versions
    for expectation in (*expected.terminal.values(), *expected.headless.values()):
        assert expectation.signals


def test_an_old_pi_is_known_to_be_late() -> None:
    old, new = (signals.find_expected("pi", version) for version in ("0.73.1", "1.5.0"))
    assert old.terminal["work"].is_blind
    assert not new.terminal["work"].is_blind
