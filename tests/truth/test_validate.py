"""Each observation of an adapter is checked once."""

import pytest

from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Tokens, Turn
from agentctl.truth.validate import validate_observation

ALIVE = Evidence("alive", "proc:7@1", "kernel", at=5.0)


@pytest.fixture
def look() -> Look:
    return Look({}, {}, 0.0).scope_to("demo")


def test_a_valid_observation_is_not_changed(look: Look) -> None:
    facts = Facts("/w", "m", None, "p", 1.0, 2, Tokens(1), 0.5, "headless", "1", "x", Turn("idle"), 3)
    observation = Observation("demo", "s", (ALIVE,), facts, None, "/t")
    assert validate_observation(observation, look) == observation
    assert look.problems == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cwd", 7), ("cwd", b"/w"), ("model", ["m"]), ("title", {}), ("prompt", 1.5),
        ("started_at", "yesterday"), ("started_at", float("nan")), ("started_at", float("inf")),
        ("last_activity_at", 10**400), ("cost_usd", "7"), ("entry_point", 1), ("agent_version", 2.1),
        ("parent_id", 3), ("tokens", {"input": 3}), ("tokens", Tokens(output="3")),  # type: ignore[arg-type]
        ("tokens", Tokens(10**400)), ("tokens", Tokens(1, -(2**53))),
        ("turn", "idle"), ("garbled", "many"),
    ],
)  # fmt: skip
def test_a_fact_of_the_wrong_type_is_left_out_and_reported(
    look: Look, field: str, value: object
) -> None:
    facts = Facts(**{field: value})  # type: ignore[arg-type]
    assert (
        validate_observation(Observation("demo", "s", (ALIVE,), facts, None, "/t"), look).facts
        == Facts()
    )
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", "/t")]
    assert field in look.problems[0].message


@pytest.mark.parametrize("at", ["noon", float("nan"), float("-inf"), 10**400, []])
def test_evidence_with_an_impossible_time_has_none(look: Look, at: object) -> None:
    piece = ALIVE._replace(at=at)  # type: ignore[arg-type]
    assert validate_observation(Observation("a", "s", (piece,)), look).evidence == (
        ALIVE._replace(at=None),
    )


def test_texts_of_another_type_become_text(look: Look) -> None:
    piece = Evidence("idle", "/t", "journal", detail=["x"], note=3, value="9")  # type: ignore[arg-type]
    (valid,) = validate_observation(Observation("a", "s", (piece,)), look).evidence
    assert (valid.detail, valid.note, valid.value) == ("['x']", "3", None)


@pytest.mark.parametrize(
    "value",
    [
        None, "word", ("a", "s", ()), Observation("a", 7, ()),  # type: ignore[arg-type]
        Observation("a", "s", ("alive",)),  # type: ignore[arg-type]
        Observation("a", "s", (ALIVE._replace(authority="gossip"),)),  # type: ignore[arg-type]
        Observation("a", "s", (), {}),  # type: ignore[arg-type]
        Observation("a", "s", (), Facts(), 7),  # type: ignore[arg-type]
        Observation("a", "s", None),  # type: ignore[arg-type]
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_that_is_no_observation_is_refused(look: Look, value: object) -> None:
    with pytest.raises(TypeError):
        validate_observation(value, look)


def test_evidence_with_an_impossible_number_has_none(look: Look) -> None:
    piece = Evidence("exited", "/t", "record", value=10**400)
    (valid,) = validate_observation(Observation("a", "s", (piece,)), look).evidence
    assert valid.value is None
