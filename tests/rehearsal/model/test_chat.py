"""OpenAI chat completions, both ways."""

from agentctl.rehearsal.model.chat import ChatVoice, make_error, read_request
from agentctl.rehearsal.model.request import Tool
from tests.rehearsal.model.events import events

BASH = {"type": "function", "function": {"name": "bash", "parameters": {"properties": {"command": {}}}}}


def test_a_conversation_as_opencode_and_pi_send_it() -> None:
    messages = [
        {"role": "system", "content": "[[gate=trap]]"},
        {"role": "user", "content": '"[[tool=echo \\"a b\\"]] go"'},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}, {"id": "b"}]},
        {"role": "tool", "tool_call_id": "a", "content": "[[gate=trap]]"},
        {"role": "tool", "tool_call_id": "b", "content": "x"},
    ]
    body = {"model": "fake-1", "stream": True, "tools": [BASH], "messages": messages}
    request = read_request(body, {"x-session-affinity": "ses_1"})
    assert request.text == '[[tool=echo "a b"]] go'
    assert (request.results, request.conversation) == (2, "ses_1")
    assert request.tools["bash"].schema == {"properties": {"command": {}}}


def test_parts_and_a_second_turn() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
    ]
    assert read_request({"messages": messages}, {}).text == "two"


def test_a_schema() -> None:
    schema = {"type": "object"}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert read_request({"messages": [], "response_format": form}, {}).schema == schema


def test_the_chunks_of_an_answer_with_calls() -> None:
    voice = ChatVoice("fake-1")
    frames = voice.begin() + voice.think("hm") + voice.say("a")
    frames += voice.call(Tool("bash"), {"command": "ls"}) + voice.call(Tool("bash"), {"command": "pwd"})
    frames += voice.finish("")
    assert frames.endswith("data: [DONE]\n\n")
    *chunks, usage = events(frames)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert deltas[1] == {"reasoning_content": "hm"}
    assert deltas[2] == {"content": "a"}
    assert [delta["tool_calls"][0]["index"] for delta in deltas[3:5]] == [0, 1]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [*[None] * 5, "tool_calls"]
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] > 0


def test_the_same_answer_at_once() -> None:
    voice = ChatVoice("fake-1")
    voice.say("a ")
    voice.say("b")
    voice.call(Tool("bash"), {"command": "ls"})
    voice.finish("")
    (choice,) = voice.whole_answer()["choices"]
    assert choice["message"]["content"] == "a b"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"command": "ls"}'
    assert choice["finish_reason"] == "tool_calls"


def test_reasons_to_stop() -> None:
    for reason, expected in (("", "stop"), ("max_tokens", "length"), ("odd", "odd")):
        voice = ChatVoice("m")
        voice.finish(reason)
        assert voice.whole_answer()["choices"][0]["finish_reason"] == expected


def test_errors() -> None:
    assert make_error(429, "x")["error"]["code"] == "rehearsed_429"
    (event,) = events(ChatVoice("m").fault())
    assert "server error" in event["error"]["message"]
