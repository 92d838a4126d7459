"""OpenAI Responses: read a request, write an answer."""

from __future__ import annotations

import time
from typing import Any

from agentctl.light_typing import Iterator, Mapping
from agentctl.rehearsal.model.request import Item, Request, Tool, list_texts, make_request
from agentctl.rehearsal.model.voice import FAULT, TOKENS_IN, TOKENS_OUT, Part, Voice, make_frame

RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
CALLS = ("function_call", "custom_tool_call", "local_shell_call")
USAGE = {
    "input_tokens": TOKENS_IN,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": TOKENS_OUT,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": TOKENS_IN + TOKENS_OUT,
}


def read_request(body: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
    content = body.get("input")
    items = content if isinstance(content, list) else [{"role": "user", "content": content or ""}]
    form = (body.get("text") or {}).get("format") or {}
    schema = form.get("schema") if form.get("type") == "json_schema" else None
    return make_request(_items(items), _tools(body.get("tools") or []), body, headers, schema=schema)


def make_error(status: int, message: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": f"rehearsed_{status}"}}


def _items(items: list[dict[str, Any]]) -> Iterator[Item]:
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        if kind in RESULTS:
            yield Item("result")
        elif kind in CALLS:
            yield Item("call")
        elif kind == "message" and role == "assistant":
            yield Item("answer")
        elif kind == "message" and role == "user":
            yield from (Item("user", text) for text in list_texts(item.get("content")))


def _tools(offered: list[dict[str, Any]], namespace: str = "") -> Iterator[Tool]:
    for tool in offered:
        kind = tool.get("type")
        if kind == "namespace":
            yield from _tools(tool.get("tools") or [], str(tool.get("name")))
        else:
            name = str(tool.get("name") or kind)
            yield Tool(name, tool.get("parameters") or {}, namespace, freeform=kind == "custom")


class ResponsesVoice(Voice):
    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._events = 0
        self._open = False
        self._created = int(time.time())

    def begin(self) -> str:
        response = self._response("in_progress", [])
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def think(self, text: str) -> str:
        frames = self._close()
        part = self._add("think", "rs_", text)
        at = {"item_id": part.id, "output_index": self._index, "summary_index": 0}
        return (
            frames
            + self._item_added(_item(part) | {"summary": []})
            + self._event("response.reasoning_summary_part.added", **at, part=_summary(""))
            + self._event("response.reasoning_summary_text.delta", **at, delta=text)
            + self._event("response.reasoning_summary_text.done", **at, text=text)
            + self._event("response.reasoning_summary_part.done", **at, part=_summary(text))
            + self._item_done(part)
        )

    def say(self, piece: str) -> str:
        started = ""
        if not self._open:
            part = self._add("text", "msg_")
            self._open = True
            started = self._item_added(_item(part) | {"status": "in_progress", "content": []})
            started += self._event("response.content_part.added", **self._place, part=_output_text(""))
        self.parts[-1].text += piece
        return started + self._event("response.output_text.delta", **self._place, delta=piece)

    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        frames = self._close()
        part = self._add_call("call_", tool, arguments)
        if tool.freeform:
            part.arguments = str(arguments.get("input", ""))
            return frames + self._item_added(_item(part) | {"input": ""}) + self._item_done(part)
        at = {"item_id": _item(part)["id"], "output_index": self._index}
        return (
            frames
            + self._item_added(_item(part) | {"status": "in_progress", "arguments": ""})
            + self._event("response.function_call_arguments.delta", **at, delta=part.arguments)
            + self._event("response.function_call_arguments.done", **at, arguments=part.arguments)
            + self._item_done(part)
        )

    def finish(self, stop: str) -> str:
        self.stop = stop
        frames = self._close()
        kind = "response.incomplete" if stop == "max_tokens" else "response.completed"
        return frames + self._event(kind, response=self.whole_answer())

    def fault(self) -> str:
        error = {"code": "server_error", "message": FAULT}
        response = self._response("failed", []) | {"error": error}
        return self._event("response.failed", response=response)

    def whole_answer(self) -> dict[str, Any]:
        is_cut = self.stop == "max_tokens"
        response = self._response(
            "incomplete" if is_cut else "completed", [_item(p) for p in self.parts]
        )
        details = {"reason": "max_output_tokens"} if is_cut else None
        return response | {"incomplete_details": details, "usage": USAGE}

    @property
    def _index(self) -> int:
        return len(self.parts) - 1

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self.parts[-1].id, "output_index": self._index, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> str:
        self._events += 1
        return make_frame({"type": kind, "sequence_number": self._events - 1, **fields}, kind)

    def _item_added(self, item: dict[str, Any]) -> str:
        return self._event("response.output_item.added", output_index=self._index, item=item)

    def _item_done(self, part: Part) -> str:
        return self._event("response.output_item.done", output_index=self._index, item=_item(part))

    def _close(self) -> str:
        if not self._open:
            return ""
        self._open = False
        part = self.parts[-1]
        return (
            self._event("response.output_text.done", **self._place, text=part.text)
            + self._event("response.content_part.done", **self._place, part=_output_text(part.text))
            + self._item_done(part)
        )

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        head = {
            "id": f"resp_{self.id}",
            "object": "response",
            "created_at": self._created,
            "model": self.model,
        }
        return head | {"status": status, "output": output, "error": None, "incomplete_details": None}


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


def _item(part: Part) -> dict[str, Any]:
    if part.kind == "think":
        return {"type": "reasoning", "id": part.id, "summary": [_summary(part.text)]}
    if not part.tool:
        content = [_output_text(part.text)]
        return {
            "type": "message",
            "id": part.id,
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    call: dict[str, Any] = {"call_id": part.id, "name": part.tool.name, "status": "completed"}
    if part.tool.namespace:
        call["namespace"] = part.tool.namespace
    if part.tool.freeform:
        return {"type": "custom_tool_call", "id": f"ctc_{part.id}", **call, "input": part.arguments}
    return {"type": "function_call", "id": f"fc_{part.id}", **call, "arguments": part.arguments}
