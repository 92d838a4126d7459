"""The slots of a group, side by side."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from agentctl import text
from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_common
from agentctl.errors import UsageError

if TYPE_CHECKING:
    from agentctl.compare.compare import Patch
    from agentctl.compare.model import Comparison

EXAMPLES = """\
  agentctl compare fix           how each slot fares (any unambiguous prefix)
  agentctl compare fix --diff    and what each has changed
  agentctl compare fix --json    for a script; what is done comes first"""
DESCRIPTION = """\
The sessions of a group, one row each: outcome, time, tokens, cost, what was changed against the base
(committed or not), the result of the on-complete hook, and who would conflict with whom. The best of
those that are done and passed is marked with a star. Reads only: no index and no object is written."""
# of a line of a patch, by what it begins with; the longer ones first
PAINT = (
    ("+++", "bold"),
    ("---", "bold"),
    ("diff ", "bold"),
    ("index ", "dim"),
    ("@@", "cyan"),
    ("+", "green"),
    ("-", "red"),
)


def parser() -> argparse.ArgumentParser:
    made = Parser("compare", DESCRIPTION, EXAMPLES)
    made.add_argument("group", metavar="GROUP", help="a group, or the beginning of its name")
    made.add_argument("--diff", action="store_true", help="show what each slot has changed")
    made.add_argument("--no-color", action="store_true", help="as with NO_COLOR in the environment")
    add_common(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    from agentctl.compare import compare

    if arguments.json and arguments.diff:
        raise UsageError("--diff is for people", "--json names each slot's worktree and base: git diff")
    if not arguments.diff:
        return _show(compare.compare(arguments.group, deadline=arguments.deadline), [], arguments)
    found, patches = compare.compare_with_patches(arguments.group, deadline=arguments.deadline)
    return _show(found, patches, arguments)


def _show(found: Comparison, patches: list[Patch], arguments: argparse.Namespace) -> int:
    from agentctl.compare.model import envelope
    from agentctl.view import comparison

    if arguments.json:
        print(json.dumps(envelope(found), indent=1))
        return 0
    colour = text.coloured() and not arguments.no_color
    print("\n".join(comparison.lines(found, text.columns(), colour=colour)))
    for patch in patches:
        _show_patch(patch, colour=colour)
    answer.show_problems(found.problems)
    return 0


def _show_patch(patch: Patch, *, colour: bool) -> None:
    name = text.one_line(patch.slot)
    print(
        "\n" + text.paint(f"{'=' * 3} {name} {'=' * max(3, 70 - text.width(name))}", "bold", on=colour)
    )
    if patch.text is None:
        print(text.one_line(f"not known: {patch.unknown}"))
    elif not patch.text:
        print("unchanged")
    elif not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(patch.text))  # byte for byte, for other programs
    else:
        for line in text.many_lines(patch.text):
            print(text.paint(line, _colour(line), on=colour))


def _colour(line: str) -> str:
    return next((colour for start, colour in PAINT if line.startswith(start)), "")
