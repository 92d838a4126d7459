"""Which text scripts the answer, and how many results came since, in conversations of real agents."""

import pytest

from agentctl.rehearsal.model.request import (
    Item,
    Tool,
    agent_made,
    last_text,
    texts,
    understood,
    unquoted,
)

SAID, CALLED, RESULT = Item("said"), Item("called"), Item("result")
REMINDER = "<system-reminder>\nbe brief\n</system-reminder>"
NEWS = "<system-reminder>\n<task-notification>done</task-notification>\n</system-reminder>"


def user(text: str) -> Item:
    return Item("user", text)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], ("", 0)),
        ([user("one")], ("one", 0)),
        ([user("one"), SAID, user("two")], ("two", 0)),
        ([user("one"), CALLED, RESULT], ("one", 1)),
        ([user("one"), CALLED, CALLED, RESULT, RESULT, SAID, CALLED, RESULT], ("one", 3)),
        ([user("one"), CALLED, RESULT, SAID, user("two"), CALLED, RESULT], ("two", 1)),
    ],
)
def test_the_last_text_and_the_results_since(items: list[Item], expected: tuple[str, int]) -> None:
    assert last_text(items) == expected


@pytest.mark.parametrize(
    "made",
    [
        REMINDER,
        NEWS,
        "<environment_context>x</environment_context>",
        "# AGENTS.md instructions",
        "<turn_aborted>",
        "Continue from where you left off. Note: this session was automatically restarted",
    ],
)
def test_what_the_agent_wrote_itself_does_not_count(made: str) -> None:
    assert agent_made(made)
    assert last_text([user(made), user("one"), user(made)]) == ("one", 0)
    assert last_text([user("one"), CALLED, RESULT, user(made)]) == ("one", 1)


def test_news_after_the_answer_opens_a_turn_of_its_own() -> None:
    """A sub-agent that ends after the main turn: the script of that turn must not be played again."""
    text, results = last_text([user("[[gate=a]] one"), CALLED, RESULT, SAID, user(NEWS)])
    assert (text, results) == (NEWS, 0)


def test_a_half_answer_that_is_sent_again_keeps_its_script() -> None:
    assert last_text([user("one"), CALLED, RESULT, SAID]) == ("one", 1)


def test_an_interrupted_turn_is_over() -> None:
    interrupted = user("[Request interrupted by user for tool use]")
    assert last_text([user("one"), CALLED, RESULT, interrupted, user("two")]) == ("two", 0)


def test_a_reminder_in_the_users_own_text_is_taken_out() -> None:
    assert last_text([user(f"{REMINDER}\n[[gate=a]] go")]) == ("[[gate=a]] go", 0)


def test_quotes_of_opencode_run_are_taken_off() -> None:
    assert unquoted('"[[call=x:{\\"a\\":1}]] y"') == '[[call=x:{"a":1}]] y'
    assert unquoted('say "no"') == 'say "no"'
    assert unquoted('"') == '"'


def test_texts_of_a_content() -> None:
    assert texts("one") == ["one"]
    assert texts([{"type": "text", "text": "one"}, {"type": "image"}, {"text": 5}, "x"]) == ["one"]
    assert texts(None) == []


def test_who_offers_no_tools_wants_help_for_itself() -> None:
    assert understood([user("x")], [], {}, {}).helper
    request = understood([user("x")], [Tool("bash")], {"model": "m", "stream": True}, {})
    assert not request.helper
    assert request.streaming
    assert request.model == "m"


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        ({}, {"x-claude-code-session-id": "s1"}, "s1"),
        ({"prompt_cache_key": "k"}, {"session-id": "s2"}, "s2"),
        ({"prompt_cache_key": "k"}, {}, "k"),
        ({}, {}, "first words"),
    ],
)
def test_the_name_of_a_conversation(
    body: dict[str, str], headers: dict[str, str], expected: str
) -> None:
    items = [user(REMINDER), user("first words"), SAID, user("second")]
    assert understood(items, [], body, headers).conversation == expected
