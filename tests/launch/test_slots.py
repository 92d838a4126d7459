"""Slots, from words to names and branches."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import UsageError
from agentctl.launch.slots import Slot, fill_template, make_plain, make_slots, name_slots


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
    assert [(slot.adapter, slot.model) for slot in make_slots(_pairs(words))] == expected


def test_a_model_of_two_agents_is_ambiguous() -> None:
    with pytest.raises(UsageError, match="--model m has no --adapter before it"):
        make_slots(_pairs("M=m A=a A=b"))


def _pairs(words: str) -> list[tuple[str, str]]:
    kinds = {"A": "adapter", "M": "model"}
    return [(kinds[word[0]], word[2:]) for word in words.split()]


def test_names_and_branches() -> None:
    slots = name_slots(
        [Slot("claude-code", "opus"), Slot("codex", "gpt/5"), Slot("pi", name="mine")], "fix it"
    )
    assert [slot.name for slot in slots] == ["opus", "gpt-5", "mine"]
    assert [slot.branch for slot in slots] == [
        "agentctl/fix-it/opus",
        "agentctl/fix-it/gpt-5",
        "agentctl/fix-it/mine",
    ]


def test_two_agents_with_one_model_are_named_after_both() -> None:
    slots = name_slots([Slot("codex", "m"), Slot("pi", "m"), Slot("pi")], "g")
    assert [slot.name for slot in slots] == ["codex-m", "pi-m", "pi"]


def test_equal_slots_are_numbered() -> None:
    slots = name_slots([Slot("a", "m"), Slot("a", "m"), Slot("x", name="a-m-1")], "g")
    assert [slot.name for slot in slots] == ["a-m-2", "a-m-3", "a-m-1"]


def test_templates() -> None:
    assert fill_template("try/{model}/{adapter}-{slot}", Slot("a", "m", "n"), "g") == "try/m/a-n"
    slots = name_slots([Slot("a", branch="own"), Slot("b"), Slot("c")], "g", "all/{group}")
    assert [slot.branch for slot in slots] == ["own", "all/g-1", "all/g-2"]
    with pytest.raises(UsageError, match=r"no field \{what\}"):
        fill_template("x/{what}", Slot(), "g")


@given(st.text(min_size=1))
def test_a_plain_word_is_a_part_of_a_branch(text: str) -> None:
    word = make_plain(text)
    assert word
    assert "/" not in word
    assert not word.startswith((".", "-"))
    assert not word.endswith((".", ".lock"))
    assert ".." not in word
    assert "@{" not in word


def test_git_accepts_a_plain_word() -> None:
    for text in ("@", "a..b", ".hidden", "x.lock", "-dash", "a b~^:?*[\\", "x.lock.lock", "\x7f", "ü"):
        name = f"refs/heads/agentctl/{make_plain(text)}"
        assert subprocess.run(["git", "check-ref-format", name], check=False).returncode == 0, name


# Not `st.builds(Slot, …)`: it makes up the other fields too, and a branch "{}" is refused.
@given(st.lists(st.tuples(st.sampled_from("abB"), st.sampled_from(["m", "M", "m-1", None]))))
def test_no_two_names_are_the_same_without_case(pairs: list[tuple[str, str | None]]) -> None:
    """Some file systems do not distinguish a from A."""
    slots = [Slot(adapter, model) for adapter, model in pairs]
    result = name_slots(slots, "g")
    for names in ([slot.name for slot in result], [slot.branch for slot in result]):
        folded = [(name or "").casefold() for name in names]
        assert len(set(folded)) == len(slots)


def test_slots_are_named_after_agents_if_one_has_no_model() -> None:
    slots = (Slot("claude-code"), Slot("codex"), Slot("pi", "fake/fake-1"))
    assert [slot.name for slot in name_slots(slots, "g")] == ["claude-code", "codex", "pi"]
