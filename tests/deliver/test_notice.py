"""What a person is told."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.deliver import notice
from agentctl.truth.event import Event

DOCS = Path(__file__).parent.parent.parent / "docs"


def told(kind: str, **session: Any) -> Event:
    known = {"id": "4f2a", "cwd": "/home/me/shop", **session}
    return Event(kind, 1000.0, 1000.0, "codex", "4f2a", "team", {"session": known}, 7)


def test_one_that_waits() -> None:
    made = notice.of(told("session.waiting", waiting_for="permission", prompt="fix the login"))
    assert made.word == "waiting"
    assert made.title == "codex waits for you in shop"
    assert made.text == "codex in shop needs your permission.\nfix the login"


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        ("completed", "finished"),
        ("interrupted", "finished"),
        ("unknown", "finished"),
        ("failed", "failed"),
        ("killed", "failed"),
    ],
)
def test_one_that_ended(outcome: str, word: str) -> None:
    made = notice.of(told("session.stopped", outcome=outcome, title="the shed"))
    assert made.word == word
    assert made.title == f"codex has {word} in shop"
    assert made.text.count("the shed") == 1


def test_the_facts_for_a_command() -> None:
    session = {"outcome": "failed", "exit_code": -9, "model": "m\0", "launch": {"name": "n", "id": "1"}}
    facts = notice.of(told("session.stopped", **session)).facts
    assert set(facts) == set(notice.VARIABLES)
    assert facts["AGENTCTL_EXIT_CODE"] == "-9"
    assert facts["AGENTCTL_MODEL"] == "m"
    assert (facts["AGENTCTL_GROUP"], facts["AGENTCTL_NAME"], facts["AGENTCTL_SEQ"]) == ("team", "n", "7")
    assert facts["AGENTCTL_WAITING_FOR"] == ""
    assert "AGENTCTL_LAUNCH_ID" not in facts


def test_a_test_has_all_of_them_too() -> None:
    assert set(notice.test().facts) == set(notice.VARIABLES)


@given(text=st.text(), most=st.integers(2, 50))
def test_text_is_one_short_harmless_line(text: str, most: int) -> None:
    made = notice.line(text, most)
    assert len(made) <= most
    assert made.isprintable()
    assert made.split() == made.split(" ") or not made


@given(
    words=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("title", "prompt", "cwd", "waiting_for", "outcome"), st.text(st.characters())
        ),
    )
)
def test_any_words_of_an_agent_are_harmless(words: dict[str, str]) -> None:
    made = notice.of(told("session.waiting", **words))
    assert made.title.isprintable()
    assert all(line.isprintable() for line in made.text.split("\n"))
    assert len(made.text.split("\n")) <= 2
    for value in made.facts.values():
        assert b"\0" not in os.fsencode(value)


def test_a_path_is_kept_as_it_is() -> None:
    facts = notice.of(told("session.waiting", cwd="/tmp/\udcff", title="\ud800")).facts
    assert facts["AGENTCTL_CWD"] == "/tmp/\udcff"
    assert notice.of(told("session.waiting", cwd="/\ud800")).facts["AGENTCTL_CWD"] == "/\\ud800"


def test_an_event_of_which_nothing_is_known() -> None:
    made = notice.of(Event("session.stopped", 1.0))
    assert made.title == "an agent has finished"


def test_the_page_tells_every_variable() -> None:
    page = (DOCS / "notifications.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(AGENTCTL_\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert rows == notice.VARIABLES
