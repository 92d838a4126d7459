"""`agentctl compare`: the slots of a group, side by side."""

from __future__ import annotations

import argparse
import json
import os
import sys

from agentctl import text
from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_common
from agentctl.errors import UsageError
from agentctl.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctl.compare.compare import Patch
    from agentctl.compare.model import Comparison

EXAMPLES = """\
  agentctl compare fix           any unambiguous prefix of a group
  agentctl compare fix --diff    also show what each slot has changed
  agentctl compare fix --json    for a script; completed slots come first"""
DESCRIPTION = """\
Compare the sessions of a group, one row each: outcome, time, tokens, cost, changes against the base
(committed or not), the result of the on-complete hook, and conflicts with other slots. A star marks the
best value among those that completed and passed. Reads only: writes no index and no object."""
# the colour of a line of a patch, by its first characters; longer ones first
LINE_COLOURS = (
    ("+++", "bold"),
    ("---", "bold"),
    ("diff ", "bold"),
    ("index ", "dim"),
    ("@@", "cyan"),
    ("+", "green"),
    ("-", "red"),
)


def parser() -> Parser:
    parser = Parser("compare", DESCRIPTION, EXAMPLES)
    parser.add_argument("group", metavar="GROUP", help="a group; an unambiguous prefix is enough")
    parser.add_argument("--diff", action="store_true", help="show what each slot has changed")
    parser.add_argument("--no-color", action="store_true", help="no colours, as with NO_COLOR")
    add_common(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    from agentctl.compare import compare

    if arguments.json and arguments.diff:
        raise UsageError(
            "--diff and --json exclude each other", "--json names the worktree and base: git diff"
        )
    if not arguments.diff:
        return _print(compare.compare(arguments.group, deadline=arguments.deadline), [], arguments)
    comparison, patches = compare.compare_with_patches(arguments.group, deadline=arguments.deadline)
    return _print(comparison, patches, arguments)


def _print(comparison: Comparison, patches: list[Patch], arguments: argparse.Namespace) -> int:
    from agentctl.compare.model import wire_comparison
    from agentctl.view.comparison import comparison_lines

    if arguments.json:
        print(json.dumps(wire_comparison(comparison), indent=1))
        return 0
    colour = text.has_colour() and not arguments.no_color
    print("\n".join(comparison_lines(comparison, text.terminal_columns(), colour=colour)))
    for patch in patches:
        _print_patch(patch, colour=colour)
    answer.show_problems(comparison.problems)
    return 0


def _print_patch(patch: Patch, *, colour: bool) -> None:
    name = text.clean_line(patch.slot)
    print(
        "\n"
        + text.paint(
            f"{'=' * 3} {name} {'=' * max(3, 70 - text.measure_width(name))}", "bold", on=colour
        )
    )
    if patch.text is None:
        print(text.clean_line(f"not known: {patch.unknown}"))
    elif not patch.text:
        print("unchanged")
    elif not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(patch.text))  # unchanged, for other programs
    else:
        for line in text.clean_lines(patch.text):
            print(text.paint(line, _colour(line), on=colour))


def _colour(line: str) -> str:
    return next((colour for start, colour in LINE_COLOURS if line.startswith(start)), "")
