"""Show what agentctl can see on this machine, and what it cannot. Changes nothing.

With `--live` the installed agents are started in a sandbox (doctor/rehearsal.py).
"""

from __future__ import annotations

import argparse
import json
import os
import re

from agentctl import text
from agentctl.cli.parser import Parser, add_common
from agentctl.doctor import checks
from agentctl.durations import parse_duration
from agentctl.errors import UsageError
from agentctl.light_typing import Any, Iterator, Mapping, Sequence
from agentctl.wire import doctor as wire
from agentctl.wire.doctor import Finding

EXAMPLES = """\
  agentctl doctor                   check the machine, agentctl and the agents
  agentctl doctor --json            for a script
  agentctl doctor --live            run the installed agents offline
  agentctl doctor --live codex pi   only these two"""
COLOURS = {
    "ok": "green",
    "note": "yellow",
    "wrong": "red",
    "as expected": "green",
    "drifted": "red",
    "failed": "red",
    "not reached": "red",
    "not checked": "yellow",
}
# The sandbox's home: it no longer exists when the user reads the line.
SANDBOX_HOME = re.compile(r"/tmp/r[^/]+/home(?=/)")  # noqa: S108


def parser() -> Parser:
    parser = Parser(
        "doctor",
        "Check what agentctl can see on this machine, and what it cannot: the kernel, its own files, "
        "the agents and their files. Changes nothing. Exit code 1 if something is wrong.\n\n"
        "With --live, run the installed agents offline, each in a temporary home, and check what "
        "agentctl reads of them. Exit code 1 if something drifted, 5 if that cannot be checked.",
        EXAMPLES,
    )
    parser.add_argument(
        "--live",
        nargs="*",
        metavar="ADAPTER",
        help="run installed agents against a scripted model: no key, no cost, none of your files is "
        "touched",
    )
    parser.add_argument(
        "--patience",
        type=parse_duration,
        metavar="TIME",
        help="how long one step of --live may take (default 1m)",
    )
    add_common(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    if arguments.live is not None:
        return _rehearse(arguments)
    if arguments.patience is not None:
        raise UsageError("--patience needs --live", "example: agentctl doctor --live --patience 2m")
    findings = checks.run_checks(os.environ, arguments.deadline)
    report = wire.dump_findings(findings)
    if arguments.json:
        print(json.dumps(report, indent=1))
    else:
        _print_findings(findings)
        print(f"\n{report['wrong']} wrong" if report["wrong"] else "\nnothing is wrong")
    return 1 if report["wrong"] else 0


def _print_findings(findings: Sequence[Finding]) -> None:
    on, subject = text.has_colour(), ""
    for finding in findings:
        if finding.subject != subject:
            subject = finding.subject
            print(text.paint(text.clean_line(subject), "bold", on=on))
        mark = text.paint(f"{finding.level:<6}", COLOURS[finding.level], on=on)
        print(f"  {mark}{text.clean_line(finding.text)}")


# --live


def _rehearse(arguments: argparse.Namespace) -> int:
    """Exit code 0: nothing drifted; 1: something did; 5: something could not be checked."""
    from agentctl.doctor import rehearsal

    timeout = rehearsal.STEP_TIMEOUT if arguments.patience is None else arguments.patience
    show = (lambda _: None) if arguments.json else _Printer(rehearsal.ACTS).show
    agents = rehearsal.rehearse_agents(arguments.live, os.environ, timeout, show)
    if arguments.json:
        print(json.dumps(wire.dump_agents(agents), indent=1))
    else:
        for agent in agents:
            if agent["state"] == "not checked":
                _print_result(agent)
        print(f"\n{_summary(agents)}")
    states = {agent["state"] for agent in agents}
    if states & {"drifted", "failed"}:
        return 1
    return 5 if "not checked" in states or not agents else 0


class _Printer:
    """Prints the lines of a rehearsal as they arrive. An act is named on its first step only."""

    def __init__(self, acts: Mapping[str, str]) -> None:
        self._acts, self._act = acts, ""

    def show(self, line: Mapping[str, Any]) -> None:
        if "steps" in line:
            _print_result(line)
        elif "step" in line:
            _print_step(line, "" if line["act"] == self._act else self._acts[line["act"]])
            self._act = line["act"]
        else:
            self._act = ""
            _print_head(line)


def _print_head(agent: Mapping[str, Any]) -> None:
    version, measured = agent["agent_version"], agent["measured_on"]
    news = "" if version in measured else f", never measured: compared with {', '.join(measured)}"
    name = text.paint(str(agent["adapter"]), "bold", on=text.has_colour())
    rest = text.clean_line(f"{version or '(version unknown)'}{news}: {agent['binary']}")
    print(f"{name} {rest}", flush=True)


def _print_step(step: Mapping[str, Any], act: str) -> None:
    state = text.paint(step["state"], COLOURS[step["state"]], on=text.has_colour())
    is_blind = step["blind"] and step["told"] != step["expected"]
    more = f" (agentctl shows {step['told']}: no source says more)" if is_blind else ""
    print(f"  {act:<16}{step['step']:<12}{step['expected']:<9}{state}{more}", flush=True)
    for line in _details(step):
        print(f"      {text.clean_line(SANDBOX_HOME.sub('~', line))}", flush=True)


def _details(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is not as expected in a step."""
    yield from step["differs"]
    for signal in step["signals"]:
        if signal["state"] != "as expected":
            evidence = f": {signal['found']} ({signal['address']})" if signal["address"] else ""
            yield f"{signal['state']}: {signal['what']}{evidence}"
    for problem in step["problems"]:
        yield f"{problem['kind']}: {problem['message']} ({problem['source']})"
    if step["state"] == "not reached":
        output = "its last output:" if step["said"] else "it printed nothing"
        yield f"waited {step['seconds']:.1f} s; {output}"
    for line in step["said"]:
        yield f"| {text.cut(line.strip(), 150)}"


def _print_result(agent: Mapping[str, Any]) -> None:
    steps = agent["steps"]
    good = sum(step["state"] == "as expected" for step in steps)
    count = f": {good} of {len(steps)} steps as expected" if steps else ""
    reason = f": {agent['reason']}" if agent["reason"] else ""
    state = text.paint(agent["state"], COLOURS[agent["state"]], on=text.has_colour())
    print(f"{agent['adapter']} {state}{count}{text.clean_line(reason)}", flush=True)


def _summary(agents: Sequence[Mapping[str, Any]]) -> str:
    drifted = [a["adapter"] for a in agents if a["state"] in ("drifted", "failed")]
    unchecked = [a["adapter"] for a in agents if a["state"] == "not checked"]
    if not agents:
        return "no installed agent can be rehearsed"
    if drifted:
        return f"not as expected: {', '.join(drifted)}"
    if unchecked:
        return f"could not be checked: {', '.join(unchecked)}"
    return "nothing drifted"
