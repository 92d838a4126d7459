"""The text of an answer for which the script has none."""

from __future__ import annotations

import json
from typing import Any

from agentctl.light_typing import Mapping
from agentctl.rehearsal.model.request import Request, is_agent_made
from agentctl.rehearsal.model.script import strip_directives

ECHO = 40  # characters of the prompt in a plain answer
TITLE = "A rehearsal"


def make_default(request: Request) -> str:
    """Return the default answer: JSON if the request asks for JSON. It has no directives, because agents
    send answers back as conversation."""
    if request.schema is not None:
        return json.dumps(make_instance(request.schema))
    if request.helper:
        return TITLE
    echo = "" if is_agent_made(request.text) else strip_directives(request.text)[:ECHO]
    return f"ok: {echo}" if echo else "ok"


def make_instance(schema: Mapping[str, Any]) -> Any:
    """Return the smallest value that fits a JSON schema."""
    if schema.get("enum"):
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    for union in ("anyOf", "oneOf", "allOf"):
        if schema.get(union):
            return make_instance(schema[union][0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        return {name: make_instance(part) for name, part in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [make_instance(schema.get("items") or {})] * int(schema.get("minItems") or 0)
    if kind in ("number", "integer"):
        return schema.get("minimum", 0)
    return {"boolean": False, "null": None}.get(str(kind), TITLE)
