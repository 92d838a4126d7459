"""The JSON of `doctor` and `doctor --live`. docs/reference/json.md is generated from these tables."""

from __future__ import annotations

from agentctl.light_typing import Any, NamedTuple, Sequence
from agentctl.wire.session import VERSION, Fields


class Finding(NamedTuple):
    subject: str
    level: str  # ok, note, wrong
    text: str


AGENT_FIELDS: Fields = (
    ("adapter", "string", "which agent"),
    ("binary", "string | null", "the program that was rehearsed; null: not found"),
    ("agent_version", "string | null", "what its --version printed; null: no version"),
    ("measured_on", "array", "versions that the expected signals were measured on"),
    ("state", "string", "as expected, drifted, failed (a step was not reached) or not checked"),
    ("reason", "string | null", "why it failed or was not checked"),
    ("steps", "array", "see below; in the order of the rehearsal"),
)  # fmt: skip
STEP_FIELDS: Fields = (
    ("act", "string", "terminal: in its own TUI; headless: started by agentctl launch"),
    ("step", "string", "start, work, permission, tool, idle or end"),
    ("state", "string", "as expected, drifted or not reached"),
    ("expected", "string", "the status that was true"),
    ("blind", "boolean", "no source says what the agent does here: running, activity unknown, is correct too"),
    ("told", "string | null", "the status that agentctl showed; null: the session was not listed"),
    ("reason", "string | null", "why that status, in one sentence"),
    ("differs", "array", "what agentctl showed wrong, in words"),
    ("signals", "array", "what, claim, authority; state: as expected, untrusted, otherwise or missing; found, address: the evidence in its place"),
    ("problems", "array", "sources that could not be parsed, as in `list`"),
    ("evidence", "array", "all evidence that agentctl had, as in `list`"),
    ("said", "array", "not reached: the last lines that the agent printed or displayed"),
    ("seconds", "number", "from when it was true until agentctl showed it as expected, or gave up"),
)  # fmt: skip


def dump_findings(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the JSON of `doctor`."""
    wrong = sum(finding.level == "wrong" for finding in findings)
    return {"version": VERSION, "wrong": wrong, "findings": [f._asdict() for f in findings]}


def dump_agent(adapter: str, state: str, reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return the JSON of a rehearsed agent. `fields`: others than these three."""
    defaults: dict[str, Any] = {"binary": None, "agent_version": None, "measured_on": [], "steps": []}
    values = {"adapter": adapter, **defaults, "state": state, "reason": reason, **fields}
    return {name: values[name] for name, _, _ in AGENT_FIELDS}


def dump_agents(agents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON of `doctor --live`."""
    drifted = sum(agent["state"] in ("drifted", "failed") for agent in agents)
    return {"version": VERSION, "drifted": drifted, "agents": list(agents)}
