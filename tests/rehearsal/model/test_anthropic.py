"""Anthropic Messages, both ways."""

from typing import Any

from agentctl.rehearsal.model.anthropic import AnthropicVoice, make_error, read_request
from agentctl.rehearsal.model.request import Tool
from tests.rehearsal.model.events import events

BASH = {"name": "Bash", "input_schema": {"properties": {"command": {}}}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_a_conversation_as_claude_code_sends_it() -> None:
    """It merges the context it adds and the user's words into one message of several blocks."""
    messages = [
        {
            "role": "user",
            "content": [text("<system-reminder>x</system-reminder>"), text("[[tool=ls]] go")],
        },
        {
            "role": "assistant",
            "content": [text("well"), {"type": "tool_use", "id": "t", "name": "Bash"}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "[[gate=trap]]"},
                text("<system-reminder>y</system-reminder>"),
            ],
        },
    ]
    body = {"model": "claude-x", "stream": True, "tools": [BASH], "messages": messages}
    request = read_request(body, {"x-claude-code-session-id": "s"})
    assert (request.text, request.results, request.conversation) == ("[[tool=ls]] go", 1, "s")
    assert request.streaming
    assert not request.helper
    assert request.tools["Bash"].schema == BASH["input_schema"]


def test_a_title_helper() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    body = {
        "messages": [{"role": "user", "content": "hello"}],
        "output_config": {"format": {"schema": schema}},
    }
    request = read_request(body, {})
    assert request.helper
    assert request.schema == schema
    assert request.text == "hello"


def test_the_events_of_an_answer_with_a_call() -> None:
    voice = AnthropicVoice("claude-x")
    frames = voice.begin() + voice.think("hm") + voice.say("a ") + voice.say("b")
    frames += voice.call(Tool("Bash"), {"command": "ls"}) + voice.finish("")
    answer = events(frames)
    assert [(event["type"], event.get("index")) for event in answer] == [
        ("message_start", None),
        ("ping", None),
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_delta", 2),
        ("content_block_stop", 2),
        ("message_delta", None),
        ("message_stop", None),
    ]
    assert answer[0]["message"]["model"] == "claude-x"
    assert answer[11]["delta"] == {"type": "input_json_delta", "partial_json": '{"command": "ls"}'}
    assert answer[13]["delta"]["stop_reason"] == "tool_use"


def test_the_same_answer_at_once() -> None:
    voice = AnthropicVoice("m")
    voice.think("hm")
    voice.say("a ")
    voice.say("b")
    voice.call(Tool("Bash"), {"command": "ls"})
    voice.finish("")
    whole = voice.whole_answer()
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
    assert whole["content"][1]["text"] == "a b"
    assert whole["content"][2]["input"] == {"command": "ls"}
    assert whole["stop_reason"] == "tool_use"


def test_reasons_to_stop() -> None:
    for reason, expected in (("", "end_turn"), ("max_tokens", "max_tokens")):
        voice = AnthropicVoice("m")
        voice.say("x")
        voice.finish(reason)
        assert voice.whole_answer()["stop_reason"] == expected


def test_errors() -> None:
    assert make_error(529, "x") == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "x"},
    }
    assert make_error(404, "x")["error"]["type"] == "not_found_error"
    assert make_error(502, "x")["error"]["type"] == "api_error"
    (event,) = events(AnthropicVoice("m").fault())
    assert event["error"]["type"] == "overloaded_error"
