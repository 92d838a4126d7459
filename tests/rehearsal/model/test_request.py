"""Which text scripts the answer, and how many results came since, in conversations of real agents."""

import pytest

from agentctl.rehearsal.model.request import (
    Item,
    Tool,
    find_turn_text,
    is_agent_made,
    list_texts,
    make_request,
    unquote,
)

SAID, CALLED, RESULT = Item("answer"), Item("call"), Item("result")
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
    assert find_turn_text(items) == expected


@pytest.mark.parametrize(
    "text",
    [
        REMINDER,
        NEWS,
        "<environment_context>x</environment_context>",
        "# AGENTS.md instructions",
        "<turn_aborted>",
        "Continue from where you left off. Note: this session was automatically restarted",
    ],
)
def test_what_the_agent_wrote_itself_does_not_count(text: str) -> None:
    assert is_agent_made(text)
    assert find_turn_text([user(text), user("one"), user(text)]) == ("one", 0)
    assert find_turn_text([user("one"), CALLED, RESULT, user(text)]) == ("one", 1)


def test_news_after_the_answer_opens_a_turn_of_its_own() -> None:
    """A sub-agent that ends after the main turn: the script of that turn must not be played again."""
    text, results = find_turn_text([user("[[gate=a]] one"), CALLED, RESULT, SAID, user(NEWS)])
    assert (text, results) == (NEWS, 0)


def test_a_half_answer_that_is_sent_again_keeps_its_script() -> None:
    assert find_turn_text([user("one"), CALLED, RESULT, SAID]) == ("one", 1)


def test_an_interrupted_turn_is_over() -> None:
    interrupted = user("[Request interrupted by user for tool use]")
    assert find_turn_text([user("one"), CALLED, RESULT, interrupted, user("two")]) == ("two", 0)


def test_a_reminder_in_the_users_own_text_is_taken_out() -> None:
    assert find_turn_text([user(f"{REMINDER}\n[[gate=a]] go")]) == ("[[gate=a]] go", 0)


def test_quotes_of_opencode_run_are_taken_off() -> None:
    assert unquote('"[[call=x:{\\"a\\":1}]] y"') == '[[call=x:{"a":1}]] y'
    assert unquote('say "no"') == 'say "no"'
    assert unquote('"') == '"'


def test_texts_of_a_content() -> None:
    assert list_texts("one") == ["one"]
    assert list_texts([{"type": "text", "text": "one"}, {"type": "image"}, {"text": 5}, "x"]) == ["one"]
    assert list_texts(None) == []


def test_a_request_without_tools_is_a_helper_s() -> None:
    assert make_request([user("x")], [], {}, {}).helper
    request = make_request([user("x")], [Tool("bash")], {"model": "m", "stream": True}, {})
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
    assert make_request(items, [], body, headers).conversation == expected
