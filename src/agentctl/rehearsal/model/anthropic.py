"""Anthropic Messages: read a request, write an answer."""

from __future__ import annotations

import json
from typing import Any

from agentctl.light_typing import Iterator, Mapping
from agentctl.rehearsal.model.request import Item, Request, Tool, list_texts, make_request
from agentctl.rehearsal.model.voice import TOKENS_IN, TOKENS_OUT, Part, Voice, make_frame

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def read_request(body: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    tools = [
        Tool(str(tool.get("name")), tool.get("input_schema") or {}) for tool in body.get("tools") or []
    ]
    return make_request(
        _items(body.get("messages") or []), tools, body, headers, schema=form.get("schema")
    )


def make_error(status: int, message: str) -> dict[str, Any]:
    kind = ERROR_TYPES.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _items(messages: list[dict[str, Any]]) -> Iterator[Item]:
    """Yield one item for each block: Claude Code merges several user messages into one."""
    for message in messages:
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for block in blocks:
            kind = block.get("type")
            if message.get("role") == "user":
                if kind == "tool_result":
                    yield Item("result")
                elif kind == "text":
                    yield Item("user", "\n".join(list_texts([block])))
            elif kind == "text":
                yield Item("answer")
            elif kind == "tool_use":
                yield Item("call")


class AnthropicVoice(Voice):
    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._open = False  # the last block is a text that still grows

    def begin(self) -> str:
        return _event("message_start", message=self._message([], None, 1)) + _event("ping")

    def think(self, text: str) -> str:
        frames = self._close()
        part = self._add("think", "", text)
        return frames + self._block(
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": part.text},
            {"type": "signature_delta", "signature": "cmVoZWFyc2Fs"},
        )

    def say(self, piece: str) -> str:
        started = ""
        if not self._open:
            self._add("text", "")
            self._open = True
            started = self._start({"type": "text", "text": ""})
        self.parts[-1].text += piece
        return started + self._delta({"type": "text_delta", "text": piece})

    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        frames = self._close()
        part = self._add_call("toolu_", tool, arguments)
        return frames + self._block(
            {"type": "tool_use", "id": part.id, "name": tool.name, "input": {}},
            {"type": "input_json_delta", "partial_json": part.arguments},
        )

    def finish(self, stop: str) -> str:
        self.stop = stop or ("tool_use" if self.calls else "end_turn")
        delta = {"stop_reason": self.stop, "stop_sequence": None}
        usage = {"output_tokens": TOKENS_OUT}
        return self._close() + _event("message_delta", delta=delta, usage=usage) + _event("message_stop")

    def fault(self) -> str:
        return _event("error", error={"type": "overloaded_error", "message": "Overloaded"})

    def whole_answer(self) -> dict[str, Any]:
        return self._message([_block_of(part) for part in self.parts], self.stop or None, TOKENS_OUT)

    def _message(self, content: list[dict[str, Any]], stop: str | None, tokens: int) -> dict[str, Any]:
        usage = {
            "input_tokens": TOKENS_IN,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": tokens,
            "service_tier": "standard",
        }
        head = {"id": f"msg_{self.id}", "type": "message", "role": "assistant", "model": self.model}
        return head | {"content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}

    def _start(self, block: dict[str, Any]) -> str:
        return _event("content_block_start", index=len(self.parts) - 1, content_block=block)

    def _delta(self, delta: dict[str, Any]) -> str:
        return _event("content_block_delta", index=len(self.parts) - 1, delta=delta)

    def _block(self, block: dict[str, Any], *deltas: dict[str, Any]) -> str:
        body = "".join(self._delta(delta) for delta in deltas)
        return self._start(block) + body + _event("content_block_stop", index=len(self.parts) - 1)

    def _close(self) -> str:
        if not self._open:
            return ""
        self._open = False
        return _event("content_block_stop", index=len(self.parts) - 1)


def _event(kind: str, **fields: Any) -> str:
    return make_frame({"type": kind, **fields}, kind)


def _block_of(part: Part) -> dict[str, Any]:
    if part.tool:
        arguments = json.loads(part.arguments)
        return {"type": "tool_use", "id": part.id, "name": part.tool.name, "input": arguments}
    if part.kind == "think":
        return {"type": "thinking", "thinking": part.text, "signature": "cmVoZWFyc2Fs"}
    return {"type": "text", "text": part.text}
