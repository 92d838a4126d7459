"""Read server-sent events back, as a client would."""

import json
from typing import Any


def events(frames: str) -> list[dict[str, Any]]:
    """Every event's data; checks that the name beside it, where there is one, is its type."""
    values: list[dict[str, Any]] = []
    for block in frames.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        if not lines or lines["data"] == "[DONE]":
            continue
        data = json.loads(lines["data"])
        assert lines.get("event", data.get("type")) == data.get("type")
        values.append(data)
    return values
