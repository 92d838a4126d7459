"""Forget what is needed no more."""

from __future__ import annotations

import argparse
import json
import os

from agentctl import paths, text
from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_json
from agentctl.durations import seconds
from agentctl.launch.prune import Pruned, Swept
from agentctl.wire import state_shapes

EXAMPLES = """\
  agentctl prune --dry-run    what would go, and why; changes nothing
  agentctl prune              do it: what is a week old, what crashes left
  agentctl prune --ttl 0s     every launch that has ended"""
DONE = {
    "end": ("finished launch", "would finish launch"),
    "lock": ("removed the lock on", "would remove the lock on"),
    "launch": ("forgot launch", "would forget launch"),
    "folder": ("removed folder", "would remove folder"),
    "file": ("removed", "would remove"),
    "cache": ("forgot cache entries:", "would forget cache entries:"),
}


def parser() -> Parser:
    made = Parser(
        "prune",
        "Forget what agentctl has kept of launches that ended long ago, and what crashes have left "
        "behind. Touches nothing of a launch that lives, no agent's own files and no worktree.",
        EXAMPLES,
    )
    made.add_argument("--dry-run", action="store_true", help="tell what would go; change nothing")
    made.add_argument(
        "--ttl", type=seconds, metavar="TIME", help="how long a launch is kept after its end (7d)"
    )
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 where something that should go could not."""
    swept = _swept(arguments)
    if arguments.json:
        shape = state_shapes.pruned(swept.done, swept.problems, dry_run=arguments.dry_run)
        print(json.dumps(shape, indent=1))
    else:
        lines = [_line(each, dry_run=arguments.dry_run) for each in swept.done]
        print("\n".join(lines or ["nothing to prune"]))
        answer.show_problems(swept.problems)
    return 1 if swept.problems else 0


def _swept(arguments: argparse.Namespace) -> Swept:
    from agentctl.config import settings
    from agentctl.launch.prune import prune

    state = paths.state_directory(os.environ)
    if state is None:  # nothing is kept
        return Swept([], [])
    ttl = settings.load(os.environ).ttl.over(arguments.ttl).value
    return prune(state, ttl, dry_run=arguments.dry_run)


def _line(each: Pruned, *, dry_run: bool) -> str:
    return text.one_line(f"{DONE[each.kind][dry_run]} {each.what}: {each.why}")
