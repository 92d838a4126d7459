"""The quick reading of words is that of the verb's parser, or none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.cli import runner
from agentctl.cli.catalogue import VERBS
from agentctl.cli.quick_words import QuickWords, read_quickly
from agentctl.errors import UsageError

QUICK = {name: verb.QUICK for name in VERBS if hasattr(verb := runner.load_verb(name), "QUICK")}
PARSERS = {name: runner.load_verb(name).parser() for name in QUICK}
WORDS = [
    "4f2a",
    "77c0",
    "pid:7",
    "",
    "-",
    "--",
    "-h9",
    "--json=1",
    "--al",
    "-aj",
    "-n",
    "3",
    "7d",
    "x y",
]


def words_of(name: str) -> st.SearchStrategy[list[str]]:
    own = [*QUICK[name].flags, *QUICK[name].values, *PARSERS[name].flags()]
    return st.lists(st.sampled_from([*own, *WORDS]), max_size=4)


def without_moments(options: dict[str, Any]) -> dict[str, Any]:
    """Round a moment that is counted from now."""
    return {
        name: round(value, -2) if name == "since" and value else value for name, value in options.items()
    }


@pytest.mark.parametrize("name", QUICK)
def test_what_is_read_quickly_is_what_the_parser_reads(name: str) -> None:
    @given(words_of(name))
    def check(words: list[str]) -> None:
        options = read_quickly(words, QUICK[name])
        if options is not None:
            parsed = PARSERS[name].parse_words(words)
            assert without_moments(vars(options)) == without_moments(vars(parsed))

    check()


@pytest.mark.parametrize(
    ("words", "usual"),
    [
        ("list", True),
        ("list --json", True),
        ("list -a", True),
        ("list -a --since 7d --json", True),
        ("list --since lunch", False),
        ("list --since", False),
        ("list x", False),
        ("list --status idle", False),
        ("status 4f2a", True),
        ("why 4f2a --json", True),
        ("why", False),
        ("why 4f2a 77c0", False),
        ("peek 4f2a", True),
        ("peek 4f2a -n 3", False),
        ("logs -f 4f2a", True),
        ("stop 4f2a 77c0 --dry-run", True),
        ("stop", False),
        ("stop --help", False),
    ],
)
def test_the_usual_words_are_read(words: str, usual: bool) -> None:
    name, *rest = words.split()
    assert (read_quickly(rest, QUICK[name]) is not None) == usual


def test_an_invalid_value_is_left_to_the_parser() -> None:
    def refuse(text: str) -> object:
        raise UsageError(f"not this: {text}")

    quick = QuickWords({"size": 1}, values={"--size": ("size", refuse)})
    assert read_quickly(["--size", "9"], quick) is None
