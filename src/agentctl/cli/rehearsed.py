"""`doctor --live`: has installed agents rehearsed one after the other, and shows what was found."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from agentctl import text
from agentctl.adapters import registry
from agentctl.errors import AgentctlError, Unsupported
from agentctl.rehearsal import sandbox, visit
from agentctl.wire import doctor

PATIENCE = (
    60.0  # seconds that a step may take to come: OpenCode's first screen took 24 on a busy machine
)
COLOURS = {
    "as expected": "green",
    "drifted": "red",
    "failed": "red",
    "not reached": "red",
    "not checked": "yellow",
}
ACTS = {"terminal": "at its terminal", "headless": "launched"}
HOME = re.compile(r"/tmp/r[^/]+/home(?=/)")  # noqa: S108 - the room's, gone when anybody reads it


def run(names: Sequence[str], patience: float, *, as_json: bool) -> int:
    """Exit code 0: nothing drifted; 1: something did; 5: something asked for could not be checked."""
    known = [found.name for found in registry.registered(names)]
    obstacle = sandbox.obstacle(read_only=True)
    agents = []
    for adapter in known:
        found = _rehearsed(adapter, obstacle, patience, quiet=as_json)
        if names or found["binary"] is not None:  # what is not installed was not asked for
            agents.append(found)
    if as_json:
        print(json.dumps(doctor.envelope(agents), indent=1))
    else:
        for found in agents:
            if found["state"] == "not checked":
                _print_state(found)
        print(f"\n{_summary(agents)}")
    states = {found["state"] for found in agents}
    if states & {"drifted", "failed"}:
        return 1
    return 5 if "not checked" in states or not agents else 0


def _rehearsed(adapter: str, obstacle: str | None, patience: float, *, quiet: bool) -> dict[str, Any]:
    binary = None
    try:
        binary = visit.program(adapter, os.environ)
        if obstacle is not None:
            raise Unsupported("no room for it here", obstacle)
    except AgentctlError as error:
        return doctor.agent(adapter, "not checked", _told(error), binary=binary)
    with closing(visit.visit(adapter, binary, os.environ, patience)) as lines:
        return _followed(adapter, binary, lines, quiet=quiet)


def _followed(
    adapter: str, binary: str, lines: Iterator[dict[str, Any]], *, quiet: bool
) -> dict[str, Any]:
    """Takes what the walk tells, and shows it as it comes."""
    known: dict[str, Any] = {"adapter": adapter, "binary": binary}
    steps: list[dict[str, Any]] = []
    reason = None
    for line in lines:
        if "broken" in line:
            reason = " ".join(line["broken"])
        elif "step" in line:
            steps.append(line)
            if not quiet:
                _print_step(line, first=line["act"] not in [step["act"] for step in steps[:-1]])
        else:
            known |= line
            if not quiet:
                _print_head(line)
    lost = [step for step in steps if step["state"] == "not reached"]
    if reason is None and lost:
        reason = f"{lost[0]['step']} ({ACTS[lost[0]['act']]}) was not reached"
    drifted = any(step["state"] == "drifted" for step in steps)
    state = "failed" if reason is not None else "drifted" if drifted else "as expected"
    found = doctor.agent(**{**known, "state": state, "reason": reason, "steps": steps})
    if not quiet:
        _print_state(found)
    return found


def _told(error: AgentctlError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


# for a person


def _print_head(agent: Mapping[str, Any]) -> None:
    version, measured = agent["agent_version"], agent["measured_on"]
    news = "" if version in measured else f", never measured: compared with {', '.join(measured)}"
    head = text.paint(str(agent["adapter"]), "bold", on=text.coloured())
    told = text.one_line(f"{version or 'of an unknown version'}{news}: {agent['binary']}")
    print(f"{head} {told}", flush=True)


def _print_step(step: Mapping[str, Any], *, first: bool) -> None:
    act = ACTS[step["act"]] if first else ""
    state = text.paint(step["state"], COLOURS[step["state"]], on=text.coloured())
    blind = step["blind"] and step["told"] != step["expected"]
    more = f" (told {step['told']}: nothing tells more)" if blind else ""
    print(f"  {act:<16}{step['step']:<12}{step['expected']:<9}{state}{more}", flush=True)
    for line in _troubles(step):
        print(f"      {text.one_line(HOME.sub('~', line))}", flush=True)


def _troubles(step: Mapping[str, Any]) -> Iterator[str]:
    """What a person needs to see of a step that is not as expected."""
    yield from step["differs"]
    for signal in step["signals"]:
        if signal["state"] != "as expected":
            found = f": {signal['found']} ({signal['address']})" if signal["address"] else ""
            yield f"{signal['state']}: {signal['what']}{found}"
    for problem in step["problems"]:
        yield f"{problem['kind']}: {problem['message']} ({problem['source']})"
    if step["state"] == "not reached":
        words = "its last words:" if step["said"] else "it said nothing"
        yield f"waited {step['seconds']:.1f} s; {words}"
    for line in step["said"]:
        yield f"| {text.cut(line.strip(), 150)}"


def _print_state(agent: Mapping[str, Any]) -> None:
    steps = agent["steps"]
    well = sum(step["state"] == "as expected" for step in steps)
    count = f": {well} of {len(steps)} steps as expected" if steps else ""
    why = f": {agent['reason']}" if agent["reason"] else ""
    state = text.paint(agent["state"], COLOURS[agent["state"]], on=text.coloured())
    print(f"{agent['adapter']} {state}{count}{text.one_line(why)}", flush=True)


def _summary(agents: Sequence[Mapping[str, Any]]) -> str:
    drifted = [a["adapter"] for a in agents if a["state"] in ("drifted", "failed")]
    unseen = [a["adapter"] for a in agents if a["state"] == "not checked"]
    if not agents:
        return "no agent that could be rehearsed is installed"
    if drifted:
        return f"not as expected: {', '.join(drifted)}"
    if unseen:
        return f"could not be checked: {', '.join(unseen)}"
    return "nothing drifted"
