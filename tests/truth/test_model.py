"""Facts as plain values, and back."""

import marshal
from typing import Any

import pytest

from agentctl.truth.model import Facts, Tokens, Turn, pack_facts, unpack_facts

FACTS = Facts(
    cwd="/w",
    prompt="a prompt \ud800 漢",
    started_at=1.5,
    tokens=Tokens(1, 2),
    turn=Turn("idle", "completed", 2.5, 17, "over"),
)


@pytest.mark.parametrize("facts", [FACTS, Facts()])
def test_packed_facts_unpack_to_the_same(facts: Facts) -> None:
    assert unpack_facts(pack_facts(facts)) == facts
    assert unpack_facts(marshal.loads(marshal.dumps(pack_facts(facts)))) == facts


def test_every_field_is_packed_in_its_place() -> None:
    numbered = Facts(*range(len(Facts._fields)))._replace(tokens=None, turn=None)
    assert unpack_facts(pack_facts(numbered)) == numbered


@pytest.mark.parametrize("value", [None, 7, "word", (), (1, 2), (1,) * 13, pack_facts(FACTS)[:-3]])
def test_other_values_are_not_unpacked(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        unpack_facts(value)


@pytest.mark.parametrize("name", ["tokens", "turn"])
@pytest.mark.parametrize("inner", [7, (), (1, 2, 3), (1,) * 6])
def test_a_part_of_another_length_is_not_unpacked(name: str, inner: Any) -> None:
    value = list(pack_facts(FACTS))
    value[Facts._fields.index(name)] = inner
    with pytest.raises((TypeError, ValueError)):
        unpack_facts(tuple(value))


def test_unpacked_facts_have_their_types() -> None:
    facts = unpack_facts(pack_facts(FACTS))
    assert (type(facts), type(facts.tokens), type(facts.turn)) == (Facts, Tokens, Turn)


def test_equal_texts_are_one_object_when_packed() -> None:
    one, two = (pack_facts(FACTS._replace(cwd=f"/{number}"[:1] + "a/b")) for number in range(2))
    assert one[0] is two[0]


def test_a_fact_of_no_plain_type_is_packed_unchanged() -> None:
    """The memory decides whether it can be stored."""
    assert pack_facts(FACTS._replace(cwd=["/w"]))[0] == ["/w"]  # type: ignore[arg-type]
