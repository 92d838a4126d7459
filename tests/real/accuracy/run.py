"""`make accuracy`: every agent's plays in a room of its own, one room after another, then the page.

    python -m tests.real.accuracy.run [AGENT…] [--reuse] [--play TITLE]… [--tool NAME]… [--into DIR]

With a choice of agents, plays or tools nothing is published, unless --into says where; or with --reuse,
which takes the other agents, and their other plays, from the last run, stored in build/accuracy/. The
page then names the plays that were played again: it is not the result of one run any more.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentctl.rehearsal import sandbox
from tests.real.accuracy import fetch, report
from tests.real.accuracy.playing import OURS
from tests.real.accuracy.stream import score
from tests.real.accuracy.tally import bad_findings, count_stream, tally, wrongs
from tests.real.accuracy.tools import Tool, available
from tests.real.accuracy.tools.registry import absent
from tests.real.pins import CHOSEN, PROJECT, Pin, agents, folder
from tests.real.run import missing
from tests.real.scenarios import repertoire

DOCS = PROJECT / "docs"
STORE = PROJECT / "build" / "accuracy"


def measure(pin: Pin, words: Sequence[str]) -> list[dict[str, Any]]:
    """All plays of one agent. A play that goes wrong prints why, on standard error."""
    process = subprocess.run(
        sandbox.command_line(
            [sys.executable, "-m", "tests.real.accuracy.playing", pin.name, *words], [str(folder())]
        ),
        cwd=PROJECT,
        env={**os.environ, CHOSEN: pin.name},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    return [json.loads(line) for line in process.stdout.splitlines()]


def result_path(pin: Pin) -> Path:
    return STORE / f"{pin.name}.{pin.version}.json"


def measure_or_reuse(pins: Sequence[Pin], options: argparse.Namespace) -> dict[str, Any]:
    words = [w for name in options.tool or [] for w in ("--tool", name)]
    words += [w for title in options.play or [] for w in ("--play", title)]
    plays = {}
    for pin in pins:
        if options.reuse and pin.name not in options.agents and result_path(pin).exists():
            plays[pin.name] = json.loads(result_path(pin).read_text())
            continue
        new = measure(pin, words)
        if options.reuse:
            new = [{**play, "again": True} for play in new]
        if options.reuse and options.play and result_path(pin).exists():
            new = replace_plays(json.loads(result_path(pin).read_text()), new)
        plays[pin.name] = new
        if not options.tool and (options.reuse or not options.play):
            STORE.mkdir(parents=True, exist_ok=True)
            result_path(pin).write_text(json.dumps(new))
    return plays


def replace_plays(
    stored: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the stored plays, with the new one in place of each of the same title."""
    by_title = {play["play"]: play for play in new}
    return [by_title.get(play["play"], play) for play in stored]


def about(pins: Sequence[Pin]) -> dict[str, Any]:
    return {
        "command": "agentctl list -a --json",
        "interval": OURS.interval * 1000,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "agents": ", ".join(f"{pin.name} {pin.version}" for pin in pins),
    }


def publish(measured: dict[str, Any], into: Path) -> None:
    """Write the page, and its numbers without every single right answer."""
    into.mkdir(parents=True, exist_ok=True)
    (into / "accuracy.md").write_text(report.page(measured))
    numbers = {
        "version": 1,
        "run": {**measured["run"], "again": report.list_repeats(measured["agents"])},
        "stream": {agent: _numbers(findings) for agent, findings in measured["stream"].items()},
        "tools": {
            tool["name"]: {
                agent: {
                    **_plain(tally(agent_plays, tool["name"])),
                    "not_right": wrongs(agent_plays, tool["name"]),
                }
                for agent, agent_plays in measured["agents"].items()
                if agent in tool["agents"]
            }
            for tool in measured["tools"]
        },
    }
    (into / "accuracy.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")


def _numbers(findings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    one = count_stream(findings)
    return {**one._asdict(), "per_100_changes": one.per_100_changes, "not_good": bad_findings(findings)}


def _plain(counted: Any) -> dict[str, Any]:
    values: dict[str, Any] = counted._asdict()
    values["states"] = {state: one._asdict() for state, one in counted.states.items()}
    values["changes"] = {change: one._asdict() for change, one in counted.changes.items()}
    values["blind"] = [
        {"truth": state, "why": why, **one._asdict()} for (state, why), one in counted.blind.items()
    ]
    return values


def main(argv: Sequence[str]) -> int:
    options = _parse_options(argv)
    some = options.agents if not options.reuse else None
    choice = [agents()[name] for name in some or agents()]
    obstacles = missing(choice)
    for line in obstacles:
        print(f"accuracy: {line}", file=sys.stderr)
    if obstacles:
        return 2
    fetch.main([])
    plays = measure_or_reuse(choice, options)
    tools = available(options.tool)
    measured: dict[str, Any] = {
        "run": about(choice),
        "agents": plays,
        "stream": {
            agent: findings
            for agent, agent_plays in plays.items()
            if (findings := score(agent_plays)) is not None
        },
        "tools": [_tool(tool) for tool in tools],
        "absent": absent(),
    }
    is_partial = not options.reuse and (options.agents or options.play or options.tool)
    into = options.into or (STORE if is_partial else DOCS)
    publish(measured, into)
    print((into / "accuracy.md").read_text())
    print(f"written: {os.path.relpath(into / 'accuracy.md')}, accuracy.json")
    met = report.met(
        [tally(agent_plays, report.OURS) for agent_plays in plays.values()],
        [count_stream(findings) for findings in measured["stream"].values()],
    )
    broken = any(play["broken"] for agent_plays in plays.values() for play in agent_plays)
    return 0 if all(met.values()) and not broken else 1


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "version": tool.version,
        "agents": sorted(name for name, pin in agents().items() if pin.adapter in tool.agents),
        "note": (sys.modules[type(tool).__module__].__doc__ or "").strip(),
    }


def _parse_options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.real.accuracy.run", description=__doc__)
    parser.add_argument(
        "agents", nargs="*", metavar="AGENT", help=f"{', '.join(agents())}; all by default"
    )
    parser.add_argument("--play", action="append", metavar="TITLE", help="only this scenario")
    parser.add_argument("--tool", action="append", metavar="NAME", help="only this tool")
    parser.add_argument("--reuse", action="store_true", help="the other agents' numbers of last time")
    parser.add_argument("--into", type=Path, metavar="DIR", help="where to write the page")
    options = parser.parse_args(argv)
    unknown = [name for name in options.agents if name not in agents()]
    if unknown:
        parser.error(f"no agent is called {unknown[0]}; there are {', '.join(agents())}")
    titles = {title for name in options.agents or agents() for title in repertoire(name).plays}
    for what, names, there in (
        ("scenario", options.play, titles),
        ("tool", options.tool, _tools()),
    ):
        strange = [name for name in names or [] if name not in there]
        if strange:
            parser.error(f"no {what} is called {strange[0]!r}; there are: {', '.join(sorted(there))}")
    return options


def _tools() -> set[str]:
    return {report.OURS, *fetch.pins()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
