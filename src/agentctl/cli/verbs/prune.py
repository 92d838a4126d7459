"""Delete what is stored about launches that ended long ago."""

from __future__ import annotations

import argparse
import json
import os

from agentctl import paths, text
from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_json
from agentctl.durations import parse_duration
from agentctl.launch.prune import PrunedItem, PruneResult
from agentctl.wire import state as wire

EXAMPLES = """\
  agentctl prune --dry-run    show what would be deleted, and why
  agentctl prune              delete what is older than a week
  agentctl prune --ttl 0s     delete every launch that has ended"""
DONE = {
    "end": ("finished launch", "would finish launch"),
    "lock": ("removed the lock on", "would remove the lock on"),
    "launch": ("deleted launch", "would delete launch"),
    "folder": ("removed folder", "would remove folder"),
    "file": ("removed", "would remove"),
    "cache": ("deleted cache entries:", "would delete cache entries:"),
}


def parser() -> Parser:
    parser = Parser(
        "prune",
        "Delete what agentctl stores about launches that ended long ago, and what crashes left behind. "
        "Live launches, the agents' own files and worktrees are never touched.",
        EXAMPLES,
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    parser.add_argument(
        "--ttl",
        type=parse_duration,
        metavar="TIME",
        help="how long to keep a launch after its end (default 7d: setting launches.ttl)",
    )
    add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Return 1 if something could not be deleted."""
    swept = _prune(arguments)
    if arguments.json:
        shape = wire.dump_pruned(swept.items, swept.problems, dry_run=arguments.dry_run)
        print(json.dumps(shape, indent=1))
    else:
        lines = [_line(each, dry_run=arguments.dry_run) for each in swept.items]
        print("\n".join(lines or ["nothing to prune"]))
        answer.show_problems(swept.problems)
    return 1 if swept.problems else 0


def _prune(arguments: argparse.Namespace) -> PruneResult:
    from agentctl.config import settings
    from agentctl.launch.prune import prune

    state = paths.state_directory(os.environ)
    if state is None:  # nothing is stored
        return PruneResult([], [])
    ttl = settings.load(os.environ).launches.ttl.override(arguments.ttl).value
    return prune(state, ttl, dry_run=arguments.dry_run)


def _line(each: PrunedItem, *, dry_run: bool) -> str:
    return text.clean_line(f"{DONE[each.kind][dry_run]} {each.what}: {each.why}")
