"""Lock a directory, see what is locked, release it."""

from __future__ import annotations

import argparse

from agentctl.cli import locking
from agentctl.cli.parser import Parser, add_json
from agentctl.durations import seconds
from agentctl.errors import UsageError

EXAMPLES = """\
  agentctl lock                          what is locked, by whom, until when
  agentctl lock . --reason "a rebase" --ttl 2h
                                         no launch here until then
  agentctl lock release ~/shop           free it again (also: unlock ~/shop)
  agentctl lock release ~/shop --force   even from under a launched agent
  agentctl lock ./list                   a directory named like a word above"""
DEEDS = ("list", "acquire", "release")


def parser() -> Parser:
    made = Parser(
        "lock",
        "Keep launches out of a directory. A launched agent holds its own directory for as long as it "
        "lives, and no longer; a person's lock is held until released.",
        EXAMPLES,
    )
    made.add_argument(
        "words", nargs="*", metavar="DIR", help="what to lock, or one of: list, acquire DIR, release DIR"
    )
    made.add_argument("--by", metavar="NAME", help="who holds it (your login name)")
    made.add_argument("--reason", metavar="TEXT", help="why, for those who are refused")
    made.add_argument("--ttl", type=seconds, metavar="TIME", help="how long (2h); else until released")
    made.add_argument("--force", action="store_true", help="release: even a launched agent's")
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    deed, directory = _meant(arguments.words)
    unfit = [f"--{name}" for name in _unfit(deed) if getattr(arguments, name) not in (None, False)]
    if unfit:
        raise UsageError(f"lock {deed} takes no {unfit[0]}", "see: agentctl lock --help")
    if deed == "list":
        return locking.show_held(as_json=arguments.json)
    if deed == "release":
        return locking.release(directory, force=arguments.force, as_json=arguments.json)
    return locking.acquire(
        directory, arguments.by, arguments.reason, arguments.ttl, as_json=arguments.json
    )


def _meant(given: list[str]) -> tuple[str, str]:
    """What to do, and where. Alone it shows: a lock that nobody meant would keep launches out. A deed
    without a directory means this one."""
    deed, rest = (given[0], given[1:]) if given and given[0] in DEEDS else ("acquire", given)
    if not given:
        deed = "list"
    if len(rest) > (0 if deed == "list" else 1):
        raise UsageError(f"one directory at a time: {' '.join(rest)}", "see: agentctl lock --help")
    return deed, rest[0] if rest else "."


def _unfit(deed: str) -> tuple[str, ...]:
    return {
        "list": ("by", "reason", "ttl", "force"),
        "release": ("by", "reason", "ttl"),
        "acquire": ("force",),
    }[deed]
