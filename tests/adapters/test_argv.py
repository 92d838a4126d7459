import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.argv import split

VALUED = frozenset({"--model", "-m", "--session"})
WORD = st.sampled_from(["--model", "-m", "--session", "-p", "--", "-", "run", "--x=y", "-mfoo", ""])


def test_words_and_options() -> None:
    arguments = split(["run", "--model", "big", "--fast", "--session=s1", "text"], VALUED)
    assert arguments.words == ("run", "text")
    assert arguments.options == (("--model", "big"), ("--fast", ""), ("--session", "s1"))
    assert arguments.value("-s", "--session") == "s1"
    assert arguments.value("--fast") == ""
    assert arguments.value("--none") is None
    assert arguments.has("--none", "--fast")
    assert not arguments.has("--none")


def test_after_two_dashes_all_is_text() -> None:
    arguments = split(["-p", "--", "--model", "x"], VALUED)
    assert (arguments.words, arguments.options) == (("--model", "x"), (("-p", ""),))


def test_one_dash_is_a_word() -> None:
    assert split(["exec", "-"], VALUED).words == ("exec", "-")


@pytest.mark.parametrize(
    ("dashes", "options"), [(True, (("-m", "-p"),)), (False, (("-m", ""), ("-p", "")))]
)
def test_a_value_that_begins_with_a_dash(dashes: bool, options: object) -> None:
    assert split(["-m", "-p"], VALUED, dashes=dashes).options == options


@pytest.mark.parametrize(("attached", "options"), [(True, (("-m", "x=1"),)), (False, (("-mx", "1"),))])
def test_a_short_option_with_its_value_attached(attached: bool, options: object) -> None:
    assert split(["-mx=1"], VALUED, attached=attached).options == options


def test_a_last_option_without_its_value() -> None:
    assert split(["--model"], VALUED, dashes=True).options == (("--model", ""),)


@given(st.lists(WORD), st.booleans(), st.booleans())
def test_every_word_is_used_once(words: list[str], attached: bool, dashes: bool) -> None:
    arguments = split(words, VALUED, attached=attached, dashes=dashes)
    used = len(arguments.words) + len(arguments.options) + ("--" in words)
    assert used <= len(words) + ("--" in words)
    assert all(name.startswith("-") for name, _ in arguments.options)
