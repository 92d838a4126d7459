"""Facts as plain values, and back."""

import marshal
from typing import Any

import pytest

from agentctl.truth.model import Facts, Tokens, Turn
from agentctl.truth.plain import pack, unpack

FACTS = Facts(
    cwd="/w",
    prompt="a prompt \ud800 漢",
    started_at=1.5,
    tokens=Tokens(1, 2),
    turn=Turn("idle", "completed", 2.5, 17, "over"),
)


@pytest.mark.parametrize("facts", [FACTS, Facts()])
def test_there_and_back(facts: Facts) -> None:
    assert unpack(pack(facts)) == facts
    assert unpack(marshal.loads(marshal.dumps(pack(facts)))) == facts


def test_every_field_keeps_its_place() -> None:
    numbered = Facts(*range(len(Facts._fields)))._replace(tokens=None, turn=None)
    assert unpack(pack(numbered)) == numbered


@pytest.mark.parametrize("said", [None, 7, "word", (), (1, 2), (1,) * 13, pack(FACTS)[:-3]])
def test_what_is_not_of_pack(said: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        unpack(said)


@pytest.mark.parametrize("name", ["tokens", "turn"])
@pytest.mark.parametrize("inner", [7, (), (1, 2, 3), (1,) * 6])
def test_a_part_of_another_length_is_not_of_pack(name: str, inner: Any) -> None:
    said = list(pack(FACTS))
    said[Facts._fields.index(name)] = inner
    with pytest.raises((TypeError, ValueError)):
        unpack(tuple(said))


def test_what_comes_back_is_of_its_type() -> None:
    facts = unpack(pack(FACTS))
    assert (type(facts), type(facts.tokens), type(facts.turn)) == (Facts, Tokens, Turn)


def test_what_many_say_is_written_once() -> None:
    one, two = (pack(FACTS._replace(cwd=f"/{number}"[:1] + "a/b")) for number in range(2))
    assert one[0] is two[0]


def test_a_fact_of_no_plain_type_is_passed_on() -> None:
    """Whether it can be kept is for the memory to say."""
    assert pack(FACTS._replace(cwd=["/w"]))[0] == ["/w"]  # type: ignore[arg-type]
