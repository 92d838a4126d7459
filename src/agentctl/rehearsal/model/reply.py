"""The words of an answer that the script did not give."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentctl.rehearsal.model.request import Request, agent_made
from agentctl.rehearsal.model.script import plain

ECHO = 40  # characters of the prompt in a plain answer
TITLE = "A rehearsal"


def default(request: Request) -> str:
    """JSON where the request wants JSON; never a directive: answers come back as conversation."""
    if request.schema is not None:
        return json.dumps(instance(request.schema))
    if request.helper:
        return TITLE
    echo = "" if agent_made(request.text) else plain(request.text)[:ECHO]
    return f"ok: {echo}" if echo else "ok"


def instance(schema: Mapping[str, Any]) -> Any:
    """The least that fits a JSON schema."""
    if schema.get("enum"):
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    for union in ("anyOf", "oneOf", "allOf"):
        if schema.get(union):
            return instance(schema[union][0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        return {name: instance(part) for name, part in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [instance(schema.get("items") or {})] * int(schema.get("minItems") or 0)
    if kind in ("number", "integer"):
        return schema.get("minimum", 0)
    return {"boolean": False, "null": None}.get(str(kind), TITLE)
