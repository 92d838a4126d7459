"""What `doctor --live` found, as plain dicts. docs/reference/json.md is generated from the tables here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentctl.wire.session import VERSION

AGENT_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("adapter", "string", "which agent"),
    ("binary", "string | null", "the program that was rehearsed; null: none was found"),
    ("agent_version", "string | null", "its own word; null: it said none"),
    ("measured_on", "array", "versions that the expected signals were measured on"),
    ("state", "string", "as expected, drifted, failed (a step was not reached) or not checked"),
    ("reason", "string | null", "why it failed or was not checked"),
    ("steps", "array", "see below; in the order they were taken"),
)  # fmt: skip
STEP_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("act", "string", "terminal: in its own TUI; headless: started by agentctl launch"),
    ("step", "string", "start, work, permission, tool, idle or end"),
    ("state", "string", "as expected, drifted or not reached"),
    ("expected", "string", "the status that was true"),
    ("blind", "boolean", "nothing outside tells what it does here: running, activity unknown, is right too"),
    ("told", "string | null", "the status that agentctl told; null: it was not listed"),
    ("reason", "string | null", "why that status, in one sentence"),
    ("differs", "array", "what else was told than is true, in words"),
    ("signals", "array", "what, claim, authority; state: as expected, untrusted, otherwise or missing; found, address: what stood in its place"),
    ("problems", "array", "sources that could not be understood, as in `list`"),
    ("evidence", "array", "every fact that agentctl had, as in `list`"),
    ("said", "array", "not reached: the last lines that the agent said or showed"),
    ("seconds", "number", "from when it was true until it was told as expected, or until we gave up"),
)  # fmt: skip


def agent(adapter: str, state: str, reason: str | None = None, **known: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {"binary": None, "agent_version": None, "measured_on": [], "steps": []}
    found = {"adapter": adapter, **blank, "state": state, "reason": reason, **known}
    return {name: found[name] for name, _, _ in AGENT_FIELDS}


def envelope(agents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    drifted = sum(found["state"] in ("drifted", "failed") for found in agents)
    return {"version": VERSION, "drifted": drifted, "agents": list(agents)}
