"""What agentctl can see on this machine, and what it cannot. Changes nothing.

With `--live` it starts the installed agents themselves (cli/rehearsed.py), out of reach of all there is.
"""

from __future__ import annotations

import argparse
import json
import os

from agentctl import text
from agentctl.adapters import registry
from agentctl.cli.parser import Parser, add_common
from agentctl.doctor import checks
from agentctl.doctor.checks import Finding
from agentctl.durations import seconds
from agentctl.errors import UsageError
from agentctl.sessions import query
from agentctl.truth.look import Look
from agentctl.truth.model import Problem
from agentctl.truth.survey import Wanted

EXAMPLES = """\
  agentctl doctor           agents, their files, what is unreadable or unknown
  agentctl doctor --json    for a script; exit code 0 only if nothing is wrong
  agentctl doctor --live    every installed agent, offline in a temporary home:
                            is it still read right? exit code 0 only if nothing
                            drifted, 5 where that cannot be checked
  agentctl doctor --live codex pi            those two"""
LEVELS = {"ok": "green", "note": "yellow", "wrong": "red"}


def parser() -> Parser:
    made = Parser("doctor", "What agentctl can see here, and what it cannot.", EXAMPLES)
    made.add_argument(
        "--live",
        nargs="*",
        metavar="ADAPTER",
        help="start installed agents against a built-in model, and tell what is read off each; "
        "no key, no cost, no file of yours touched",
    )
    made.add_argument(
        "--patience",
        type=seconds,
        metavar="TIME",
        help="how long one step of --live may take (default 1m)",
    )
    add_common(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    if arguments.live is not None:
        from agentctl.cli import rehearsed

        patience = rehearsed.PATIENCE if arguments.patience is None else arguments.patience
        return rehearsed.run(arguments.live, patience, as_json=arguments.json)
    if arguments.patience is not None:
        raise UsageError("--patience is for --live", "example: agentctl doctor --live --patience 2m")
    found = [*checks.of_machine(), *checks.of_state(os.environ), *checks.of_settings(os.environ)]
    found += checks.of_daemon(os.environ)
    found += _agents(arguments.deadline)
    found += [*checks.of_rehearsals(), *checks.of_extras()]
    wrong = sum(finding.level == "wrong" for finding in found)
    if arguments.json:
        print(
            json.dumps(
                {"version": 1, "wrong": wrong, "findings": [f._asdict() for f in found]}, indent=1
            )
        )
    else:
        _print(found)
        print(f"\n{wrong} wrong" if wrong else "\nnothing is wrong")
    return 1 if wrong else 0


def _agents(deadline: float | None) -> list[Finding]:
    everything = query.everything(Wanted(), (), deadline)
    live = [s for s in everything.sessions if s.seen.owner is not None]
    problems = list(everything.problems)
    found: list[Finding] = []
    look = Look.take()
    for known in registry.registered():
        view = look.scoped(known.name)
        view.owned = tuple(s.seen.owner for s in live if s.seen.owner and s.seen.adapter == known.name)
        try:
            found += checks.of_agent(registry.load(known.name), view, live)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a third party's fault is a finding
            view.problem("broken", f"{type(error).__name__}: {error}", known.name)
        problems += [p for p in view.problems if p not in problems]
    return found + [checks.of_problem(problem) for problem in _distinct(problems)]


def _distinct(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))


def _print(found: list[Finding]) -> None:
    on, subject = text.coloured(), ""
    for finding in found:
        if finding.subject != subject:
            subject = finding.subject
            print(text.paint(text.one_line(subject), "bold", on=on))
        mark = text.paint(f"{finding.level:<6}", LEVELS[finding.level], on=on)
        print(f"  {mark}{text.one_line(finding.text)}")
