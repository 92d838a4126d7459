"""What an adapter hands over is checked once, behind its fence."""

import pytest

from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Tokens, Turn
from agentctl.truth.validate import sound

ALIVE = Evidence("alive", "proc:7@1", "kernel", at=5.0)


@pytest.fixture
def look() -> Look:
    return Look({}, {}, 0.0).scoped("somebody")


def test_what_is_sound_stays_as_it_is(look: Look) -> None:
    facts = Facts("/w", "m", None, "p", 1.0, 2, Tokens(1), 0.5, "headless", "1", "x", Turn("idle"), 3)
    given = Observation("somebody", "s", (ALIVE,), facts, None, "/t")
    assert sound(given, look) == given
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
def test_a_fact_of_the_wrong_type_is_left_out_and_told(look: Look, field: str, value: object) -> None:
    facts = Facts(**{field: value})  # type: ignore[arg-type]
    assert sound(Observation("somebody", "s", (ALIVE,), facts, None, "/t"), look).facts == Facts()
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", "/t")]
    assert field in look.problems[0].message


@pytest.mark.parametrize("at", ["noon", float("nan"), float("-inf"), 10**400, []])
def test_evidence_of_an_impossible_time_has_none(look: Look, at: object) -> None:
    piece = ALIVE._replace(at=at)  # type: ignore[arg-type]
    assert sound(Observation("a", "s", (piece,)), look).evidence == (ALIVE._replace(at=None),)


def test_words_that_are_none_become_text(look: Look) -> None:
    piece = Evidence("idle", "/t", "journal", detail=["x"], note=3, value="9")  # type: ignore[arg-type]
    (kept,) = sound(Observation("a", "s", (piece,)), look).evidence
    assert (kept.detail, kept.note, kept.value) == ("['x']", "3", None)


@pytest.mark.parametrize(
    "given",
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
def test_what_is_no_observation_is_refused(look: Look, given: object) -> None:
    with pytest.raises(TypeError):
        sound(given, look)


def test_evidence_of_an_impossible_number_has_none(look: Look) -> None:
    piece = Evidence("exited", "/t", "record", value=10**400)
    (kept,) = sound(Observation("a", "s", (piece,)), look).evidence
    assert kept.value is None
