"""OpenAI chat completions: read a request, write an answer."""

from __future__ import annotations

import time
from typing import Any

from agentctl.light_typing import Iterator, Mapping
from agentctl.rehearsal.model.request import Item, Request, Tool, list_texts, make_request
from agentctl.rehearsal.model.voice import FAULT, TOKENS_IN, TOKENS_OUT, Part, Voice, make_frame

DONE = "data: [DONE]\n\n"
USAGE = {
    "prompt_tokens": TOKENS_IN,
    "completion_tokens": TOKENS_OUT,
    "total_tokens": TOKENS_IN + TOKENS_OUT,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
REASONS = {
    "max_tokens": "length",
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def read_request(body: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
    form = body.get("response_format") or {}
    functions = [tool.get("function") or tool for tool in body.get("tools") or []]
    tools = [Tool(str(function.get("name")), function.get("parameters") or {}) for function in functions]
    schema = (form.get("json_schema") or {}).get("schema")
    return make_request(_items(body.get("messages") or []), tools, body, headers, schema=schema)


def make_error(status: int, message: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": f"rehearsed_{status}"}}


def _items(messages: list[dict[str, Any]]) -> Iterator[Item]:
    for message in messages:
        match message.get("role"):
            case "user":
                yield from (Item("user", text) for text in list_texts(message.get("content")))
            case "tool":
                yield Item("result")
            case "assistant":
                if any(list_texts(message.get("content"))):
                    yield Item("answer")
                yield from (Item("call") for _ in message.get("tool_calls") or [])


class ChatVoice(Voice):
    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._created = int(time.time())

    def begin(self) -> str:
        return self._chunk({"role": "assistant", "content": ""})

    def think(self, text: str) -> str:
        self._add("think", "", text)
        return self._chunk({"reasoning_content": text})

    def say(self, piece: str) -> str:
        self._add("text", "", piece)
        return self._chunk({"content": piece})

    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        part = self._add_call("call_", tool, arguments)
        return self._chunk({"tool_calls": [{"index": len(self.calls) - 1, **_call(part)}]})

    def finish(self, stop: str) -> str:
        self.stop = REASONS.get(stop, stop) or ("tool_calls" if self.calls else "stop")
        usage = make_frame(self._head("chat.completion.chunk") | {"choices": [], "usage": USAGE})
        return self._chunk({}, self.stop) + usage + DONE

    def fault(self) -> str:
        return make_frame(make_error(500, FAULT))

    def whole_answer(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.thought:
            message["reasoning_content"] = self.thought
        if self.calls:
            message["tool_calls"] = [_call(part) for part in self.calls]
        choice = {"index": 0, "message": message, "finish_reason": self.stop or None}
        return self._head("chat.completion") | {"choices": [choice], "usage": USAGE}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.id}",
            "object": kind,
            "created": self._created,
            "model": self.model,
        }

    def _chunk(self, delta: dict[str, Any], stop: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": stop}
        return make_frame(self._head("chat.completion.chunk") | {"choices": [choice]})


def _call(part: Part) -> dict[str, Any]:
    name = part.tool.name if part.tool else ""
    return {"id": part.id, "type": "function", "function": {"name": name, "arguments": part.arguments}}
