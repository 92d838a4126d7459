"""`make accuracy`: every agent's plays in a room of its own, one room after another, then the page.

    python -m tests.real.accuracy.run [AGENT…] [--reuse] [--play TITLE]… [--tool NAME]… [--into DIR]

With a choice of agents, plays or tools nothing is published, unless --into says where; or --reuse, which
takes those of the other agents, and of their other plays, from the last run, kept in build/accuracy/.
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
KEPT = PROJECT / "build" / "accuracy"


def measure(pin: Pin, words: Sequence[str]) -> list[dict[str, Any]]:
    """All plays of one agent. What goes wrong in one is told by it, on standard error."""
    played = subprocess.run(
        sandbox.words(
            [sys.executable, "-m", "tests.real.accuracy.playing", pin.name, *words], [str(folder())]
        ),
        cwd=PROJECT,
        env={**os.environ, CHOSEN: pin.name},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    return [json.loads(line) for line in played.stdout.splitlines()]


def kept(pin: Pin) -> Path:
    return KEPT / f"{pin.name}.{pin.version}.json"


def measure_or_reuse(pins: Sequence[Pin], said: argparse.Namespace) -> dict[str, Any]:
    words = [w for name in said.tool or [] for w in ("--tool", name)]
    words += [w for title in said.play or [] for w in ("--play", title)]
    plays = {}
    for pin in pins:
        if said.reuse and pin.name not in said.agents and kept(pin).exists():
            plays[pin.name] = json.loads(kept(pin).read_text())
            continue
        new = measure(pin, words)
        if said.reuse and said.play and kept(pin).exists():
            again = {play["play"]: play for play in new}
            new = [again.get(play["play"], play) for play in json.loads(kept(pin).read_text())]
        plays[pin.name] = new
        if not said.tool and (said.reuse or not said.play):
            KEPT.mkdir(parents=True, exist_ok=True)
            kept(pin).write_text(json.dumps(new))
    return plays


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
    """The page, and its numbers without each single right answer."""
    into.mkdir(parents=True, exist_ok=True)
    (into / "accuracy.md").write_text(report.page(measured))
    numbers = {
        "version": 1,
        "run": measured["run"],
        "stream": {agent: _numbers(found) for agent, found in measured["stream"].items()},
        "tools": {
            tool["name"]: {
                agent: {**_plain(tally(told, tool["name"])), "not_right": wrongs(told, tool["name"])}
                for agent, told in measured["agents"].items()
                if agent in tool["agents"]
            }
            for tool in measured["tools"]
        },
    }
    (into / "accuracy.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")


def _numbers(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    one = count_stream(found)
    return {**one._asdict(), "per_100_changes": one.per_100_changes, "not_good": bad_findings(found)}


def _plain(counted: Any) -> dict[str, Any]:
    told: dict[str, Any] = counted._asdict()
    told["states"] = {state: one._asdict() for state, one in counted.states.items()}
    told["changes"] = {change: one._asdict() for change, one in counted.changes.items()}
    told["blind"] = [
        {"truth": state, "why": why, **one._asdict()} for (state, why), one in counted.blind.items()
    ]
    return told


def main(given: Sequence[str]) -> int:
    said = _asked(given)
    some = said.agents if not said.reuse else None
    wanted = [agents()[name] for name in some or agents()]
    obstacles = missing(wanted)
    for line in obstacles:
        print(f"accuracy: {line}", file=sys.stderr)
    if obstacles:
        return 2
    fetch.main([])
    plays = measure_or_reuse(wanted, said)
    tools = available(said.tool)
    measured: dict[str, Any] = {
        "run": about(wanted),
        "agents": plays,
        "stream": {agent: found for agent, told in plays.items() if (found := score(told)) is not None},
        "tools": [_tool(tool) for tool in tools],
        "absent": absent(),
    }
    chosen = not said.reuse and (said.agents or said.play or said.tool)
    into = said.into or (KEPT if chosen else DOCS)
    publish(measured, into)
    print((into / "accuracy.md").read_text())
    print(f"written: {os.path.relpath(into / 'accuracy.md')}, accuracy.json")
    met = report.met(
        [tally(told, report.OURS) for told in plays.values()],
        [count_stream(found) for found in measured["stream"].values()],
    )
    broken = any(play["broken"] for told in plays.values() for play in told)
    return 0 if all(met.values()) and not broken else 1


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "version": tool.version,
        "agents": sorted(name for name, pin in agents().items() if pin.adapter in tool.agents),
        "note": (sys.modules[type(tool).__module__].__doc__ or "").strip(),
    }


def _asked(given: Sequence[str]) -> argparse.Namespace:
    asked = argparse.ArgumentParser(prog="python -m tests.real.accuracy.run", description=__doc__)
    asked.add_argument(
        "agents", nargs="*", metavar="AGENT", help=f"{', '.join(agents())}; all by default"
    )
    asked.add_argument("--play", action="append", metavar="TITLE", help="only this scenario")
    asked.add_argument("--tool", action="append", metavar="NAME", help="only this tool")
    asked.add_argument("--reuse", action="store_true", help="the other agents' numbers of last time")
    asked.add_argument("--into", type=Path, metavar="DIR", help="where to write the page")
    said = asked.parse_args(given)
    unknown = [name for name in said.agents if name not in agents()]
    if unknown:
        asked.error(f"no agent is called {unknown[0]}; there are {', '.join(agents())}")
    known = {title for name in said.agents or agents() for title in repertoire(name).plays}
    for what, named, there in (("scenario", said.play, known), ("tool", said.tool, _tools())):
        strange = [name for name in named or [] if name not in there]
        if strange:
            asked.error(f"no {what} is called {strange[0]!r}; there are: {', '.join(sorted(there))}")
    return said


def _tools() -> set[str]:
    return {report.OURS, *fetch.pins()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
