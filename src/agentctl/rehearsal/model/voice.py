"""The base class of answers: what every protocol can write. Pure: it returns frames."""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from agentctl.light_typing import Mapping
from agentctl.rehearsal.model.request import Tool

THOUGHT = "Let me think about what was asked."
# Each agent takes these words for a temporary error of the server (Pi looks at the words alone).
FAULT = "internal server error (rehearsed)"
# Small, so that no agent finds its context full and starts to compact it.
TOKENS_IN = 1000
TOKENS_OUT = 10


@dataclass(slots=True)
class Part:
    """A piece of the answer."""

    kind: Literal["think", "text", "call"]
    id: str
    text: str = ""
    tool: Tool | None = None
    arguments: str = ""


class Voice(ABC):
    """One answer in one protocol. The methods return frames; `whole_answer()` is the same without
    streaming."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.id = uuid.uuid4().hex[:24]
        self.parts: list[Part] = []
        self.stop = ""

    @abstractmethod
    def begin(self) -> str:
        """Return the first event."""

    @abstractmethod
    def think(self, text: str) -> str: ...

    @abstractmethod
    def say(self, piece: str) -> str: ...

    @abstractmethod
    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> str: ...

    @abstractmethod
    def finish(self, stop: str) -> str:
        """Return the end. `stop` is a reason in Anthropic's words; empty for the usual one."""

    @abstractmethod
    def fault(self) -> str:
        """Return an error in the middle of the stream."""

    @abstractmethod
    def whole_answer(self) -> dict[str, Any]: ...

    @property
    def calls(self) -> list[Part]:
        return [part for part in self.parts if part.kind == "call"]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.kind == "text")

    @property
    def thought(self) -> str:
        return "".join(part.text for part in self.parts if part.kind == "think")

    def _add(self, kind: Literal["think", "text", "call"], prefix: str, text: str = "") -> Part:
        part = Part(kind, prefix + uuid.uuid4().hex[:24], text)
        self.parts.append(part)
        return part

    def _add_call(self, prefix: str, tool: Tool, arguments: Mapping[str, Any]) -> Part:
        part = self._add("call", prefix)
        part.tool, part.arguments = tool, json.dumps(dict(arguments))
        return part


def make_frame(data: Mapping[str, Any], event: str = "") -> str:
    """Return one server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data)}\n\n"
