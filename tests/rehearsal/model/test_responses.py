"""OpenAI Responses, both ways."""

from typing import Any

from agentctl.rehearsal.model.request import Tool
from agentctl.rehearsal.model.responses import ResponsesVoice, make_error, read_request
from tests.rehearsal.model.events import events


def message(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


EXEC = {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}}
AGENTS = {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn_agent"}]}
PATCH = {"type": "custom", "name": "apply_patch"}


def test_a_conversation_as_codex_sends_it() -> None:
    items = [
        message("developer", "[[gate=trap]]"),
        message("user", "<environment_context>x</environment_context>"),
        message("user", "[[tool=ls]] go"),
        message("assistant", "well"),
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "[[gate=trap]]"},
        {"type": "custom_tool_call", "call_id": "d", "name": "apply_patch", "input": ""},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "x"},
    ]
    body = {"model": "gpt", "stream": True, "tools": [EXEC, AGENTS, PATCH], "input": items}
    request = read_request(body, {"session-id": "s"})
    assert (request.text, request.results, request.conversation) == ("[[tool=ls]] go", 2, "s")
    assert request.tools["spawn_agent"].namespace == "agents"
    assert request.tools["apply_patch"].freeform
    assert not request.tools["exec_command"].freeform


def test_a_title_helper() -> None:
    schema = {"type": "object", "properties": {}}
    body = {"input": "make a title", "text": {"format": {"type": "json_schema", "schema": schema}}}
    request = read_request(body, {})
    assert request.helper
    assert (request.text, request.schema) == ("make a title", schema)


def test_the_events_of_an_answer_with_a_call() -> None:
    voice = ResponsesVoice("gpt")
    frames = voice.begin() + voice.think("hm") + voice.say("a ") + voice.say("b")
    frames += voice.call(Tool("exec_command"), {"cmd": "ls"}) + voice.finish("")
    answer = events(frames)
    assert [event["sequence_number"] for event in answer] == list(range(len(answer)))
    added = [event["item"]["type"] for event in answer if event["type"] == "response.output_item.added"]
    items = [event["item"] for event in answer if event["type"] == "response.output_item.done"]
    assert added == [item["type"] for item in items] == ["reasoning", "message", "function_call"]
    assert items[1]["content"][0]["text"] == "a b"
    assert items[2]["arguments"] == '{"cmd": "ls"}'
    words = [event["delta"] for event in answer if event["type"] == "response.output_text.delta"]
    assert words == ["a ", "b"]
    last = answer[-1]
    assert last["type"] == "response.completed"
    assert last["response"]["output"] == items
    assert last["response"]["usage"]["total_tokens"] > 0


def test_a_tool_of_a_group_and_one_that_takes_a_text() -> None:
    voice = ResponsesVoice("gpt")
    voice.call(Tool("spawn_agent", namespace="agents"), {"message": "x"})
    voice.call(Tool("apply_patch", freeform=True), {"input": "*** Begin"})
    grouped, freeform = voice.whole_answer()["output"]
    assert (grouped["type"], grouped["namespace"]) == ("function_call", "agents")
    assert (freeform["type"], freeform["input"]) == ("custom_tool_call", "*** Begin")


def test_an_answer_that_is_cut_short() -> None:
    voice = ResponsesVoice("gpt")
    voice.say("x")
    last = events(voice.finish("max_tokens"))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["status"] == "incomplete"


def test_errors() -> None:
    assert make_error(500, "x")["error"]["type"] == "server_error"
    assert make_error(404, "x")["error"]["type"] == "invalid_request_error"
    (event,) = events(ResponsesVoice("m").fault())
    assert event["type"] == "response.failed"
    assert event["response"]["error"]["code"] == "server_error"
