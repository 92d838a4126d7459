"""`doctor --live`: rehearse installed agents one after the other, in the shape of `wire/doctor`."""

from __future__ import annotations

from contextlib import closing

from agentctl.adapters import registry
from agentctl.errors import AgentctlError, Unsupported
from agentctl.light_typing import Any, Callable, Iterator, Mapping, Sequence
from agentctl.rehearsal import run, sandbox
from agentctl.wire import doctor

# Seconds that a step may take: OpenCode's first screen took 24 on a busy machine.
STEP_TIMEOUT = 60.0
ACTS = {"terminal": "at its terminal", "headless": "launched"}
Show = Callable[[dict[str, Any]], None]


def rehearse_agents(
    names: Sequence[str], environ: Mapping[str, str], timeout: float, show: Show
) -> list[dict[str, Any]]:
    """Return one result per named agent; without names, one per installed agent.

    `show` gets each line when it arrives: the agent, its steps, its result. Raises UsageError for an
    unknown name.
    """
    obstacle = sandbox.find_obstacle(read_only=True)
    results = []
    for agent in registry.find_adapters(names):
        result = _rehearse(agent.name, environ, obstacle, timeout, show)
        if names or result["binary"] is not None:
            results.append(result)
    return results


def _rehearse(
    adapter: str, environ: Mapping[str, str], obstacle: str | None, timeout: float, show: Show
) -> dict[str, Any]:
    binary = None
    try:
        binary = run.find_agent_program(adapter, environ)
        if obstacle is not None:
            raise Unsupported("cannot make a sandbox", obstacle)
    except AgentctlError as error:
        reason = f"{error} ({error.hint})" if error.hint else str(error)
        return doctor.dump_agent(adapter, "not checked", reason, binary=binary)
    with closing(run.rehearse(adapter, binary, environ, timeout)) as lines:
        return _collect(adapter, binary, lines, show)


def _collect(adapter: str, binary: str, lines: Iterator[dict[str, Any]], show: Show) -> dict[str, Any]:
    """Show each line of a rehearsal and return its result."""
    fields: dict[str, Any] = {"adapter": adapter, "binary": binary}
    steps: list[dict[str, Any]] = []
    reason = None
    for line in lines:
        if "broken" in line:
            reason = " ".join(line["broken"])
            continue
        if "step" in line:
            steps.append(line)
        else:
            fields |= line
        show(line)
    missing = [step for step in steps if step["state"] == "not reached"]
    if reason is None and missing:
        reason = f"{missing[0]['step']} ({ACTS[missing[0]['act']]}) was not reached"
    has_drifted = any(step["state"] == "drifted" for step in steps)
    state = "failed" if reason is not None else "drifted" if has_drifted else "as expected"
    result = doctor.dump_agent(**{**fields, "state": state, "reason": reason, "steps": steps})
    show(result)
    return result
