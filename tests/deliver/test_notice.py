"""The text and the variables of a notice."""

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


def make_event(kind: str, **session: Any) -> Event:
    fields = {"id": "4f2a", "cwd": "/home/me/shop", **session}
    return Event(kind, 1000.0, 1000.0, "codex", "4f2a", "team", {"session": fields}, 7)


def test_the_notice_of_a_waiting_session() -> None:
    result = notice.make_notice(
        make_event("session.waiting", waiting_for="permission", prompt="fix the login")
    )
    assert result.word == "waiting"
    assert result.title == "codex waits for you in shop"
    assert result.text == "codex in shop needs your permission.\nfix the login"


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
def test_the_notice_of_a_stopped_session(outcome: str, word: str) -> None:
    result = notice.make_notice(make_event("session.stopped", outcome=outcome, title="the shed"))
    assert result.word == word
    assert result.title == f"codex has {word} in shop"
    assert result.text.count("the shed") == 1


def test_the_facts_for_a_command() -> None:
    session = {"outcome": "failed", "exit_code": -9, "model": "m\0", "launch": {"name": "n", "id": "1"}}
    facts = notice.make_notice(make_event("session.stopped", **session)).facts
    assert set(facts) == set(notice.VARIABLES)
    assert facts["AGENTCTL_EXIT_CODE"] == "-9"
    assert facts["AGENTCTL_MODEL"] == "m"
    assert (facts["AGENTCTL_GROUP"], facts["AGENTCTL_NAME"], facts["AGENTCTL_SEQ"]) == ("team", "n", "7")
    assert facts["AGENTCTL_WAITING_FOR"] == ""
    assert "AGENTCTL_LAUNCH_ID" not in facts


def test_a_test_notice_has_all_variables() -> None:
    assert set(notice.test_notice().facts) == set(notice.VARIABLES)


@given(text=st.text(), most=st.integers(2, 50))
def test_text_is_one_short_harmless_line(text: str, most: int) -> None:
    line = notice.plain_line(text, most)
    assert len(line) <= most
    assert line.isprintable()
    assert line.split() == line.split(" ") or not line


@given(
    words=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("title", "prompt", "cwd", "waiting_for", "outcome"), st.text(st.characters())
        ),
    )
)
def test_any_words_of_an_agent_are_harmless(words: dict[str, str]) -> None:
    result = notice.make_notice(make_event("session.waiting", **words))
    assert result.title.isprintable()
    assert all(line.isprintable() for line in result.text.split("\n"))
    assert len(result.text.split("\n")) <= 2
    for value in result.facts.values():
        assert b"\0" not in os.fsencode(value)


def test_the_directory_is_not_changed() -> None:
    facts = notice.make_notice(make_event("session.waiting", cwd="/tmp/\udcff", title="\ud800")).facts
    assert facts["AGENTCTL_CWD"] == "/tmp/\udcff"
    assert (
        notice.make_notice(make_event("session.waiting", cwd="/\ud800")).facts["AGENTCTL_CWD"]
        == "/\\ud800"
    )


def test_an_event_without_a_body_has_a_notice() -> None:
    result = notice.make_notice(Event("session.stopped", 1.0))
    assert result.title == "an agent has finished"


def test_the_page_lists_every_variable() -> None:
    page = (DOCS / "notifications.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(AGENTCTL_\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert rows == notice.VARIABLES
