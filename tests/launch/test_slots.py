"""Slots, from words to names and branches."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import UsageError
from agentctl.launch.slots import Slot, fill, plain, slots, slots_of_pairs


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", [(None, None)]),
        ("A=a", [("a", None)]),
        ("M=m", [(None, "m")]),
        ("A=a M=m", [("a", "m")]),
        ("M=m A=a", [("a", "m")]),
        ("A=a M=m M=n", [("a", "m"), ("a", "n")]),
        ("M=m M=n", [(None, "m"), (None, "n")]),
        ("A=a A=b", [("a", None), ("b", None)]),
        ("A=a M=m A=b M=n M=o A=c", [("a", "m"), ("b", "n"), ("b", "o"), ("c", None)]),
        ("A=a M=m A=a M=m", [("a", "m"), ("a", "m")]),
    ],
)
def test_pairs(words: str, expected: list[tuple[str | None, str | None]]) -> None:
    assert [(slot.adapter, slot.model) for slot in slots_of_pairs(_pairs(words))] == expected


def test_a_model_that_could_be_anybody_s() -> None:
    with pytest.raises(UsageError, match="which agent is --model m for"):
        slots_of_pairs(_pairs("M=m A=a A=b"))


def _pairs(words: str) -> list[tuple[str, str]]:
    kinds = {"A": "adapter", "M": "model"}
    return [(kinds[word[0]], word[2:]) for word in words.split()]


def test_names_and_branches() -> None:
    given_ = [Slot("claude-code", "opus"), Slot("codex", "gpt/5"), Slot("pi", name="mine")]
    made = slots(given_, "fix it")
    assert [slot.name for slot in made] == ["opus", "gpt-5", "mine"]
    assert [slot.branch for slot in made] == [
        "agentctl/fix-it/opus",
        "agentctl/fix-it/gpt-5",
        "agentctl/fix-it/mine",
    ]


def test_a_model_that_two_agents_have() -> None:
    made = slots([Slot("codex", "m"), Slot("pi", "m"), Slot("pi")], "g")
    assert [slot.name for slot in made] == ["codex-m", "pi-m", "pi"]


def test_the_same_twice() -> None:
    made = slots([Slot("a", "m"), Slot("a", "m"), Slot("x", name="a-m-1")], "g")
    assert [slot.name for slot in made] == ["a-m-2", "a-m-3", "a-m-1"]


def test_templates() -> None:
    assert fill("try/{model}/{adapter}-{slot}", Slot("a", "m", "n"), "g") == "try/m/a-n"
    made = slots([Slot("a", branch="own"), Slot("b"), Slot("c")], "g", "all/{group}")
    assert [slot.branch for slot in made] == ["own", "all/g-1", "all/g-2"]
    with pytest.raises(UsageError, match=r"no field \{what\}"):
        fill("x/{what}", Slot(), "g")


@given(st.text(min_size=1))
def test_a_plain_word_is_a_part_of_a_branch(text: str) -> None:
    word = plain(text)
    assert word
    assert "/" not in word
    assert not word.startswith((".", "-"))
    assert not word.endswith((".", ".lock"))
    assert ".." not in word
    assert "@{" not in word


def test_git_agrees() -> None:
    for text in ("@", "a..b", ".hidden", "x.lock", "-dash", "a b~^:?*[\\", "x.lock.lock", "\x7f", "ü"):
        name = f"refs/heads/agentctl/{plain(text)}"
        assert subprocess.run(["git", "check-ref-format", name], check=False).returncode == 0, name


@given(st.lists(st.builds(Slot, st.sampled_from("abB"), st.sampled_from(["m", "M", "m-1", None]))))
def test_no_two_are_called_the_same(given_: list[Slot]) -> None:
    """Not even by a file system that does not tell a from A."""
    made = slots(given_, "g")
    for names in ([slot.name for slot in made], [slot.branch for slot in made]):
        folded = [(name or "").casefold() for name in names]
        assert len(set(folded)) == len(given_)


def test_where_some_have_no_model_agents_tell_them_apart() -> None:
    given = (Slot("claude-code"), Slot("codex"), Slot("pi", "fake/fake-1"))
    assert [slot.name for slot in slots(given, "g")] == ["claude-code", "codex", "pi"]
