"""Who is told of events over HTTP, what was delivered, and what was not."""

from __future__ import annotations

import argparse

from agentctl.cli.parser import Parser, add_json
from agentctl.errors import UsageError

EXAMPLES = """\
  agentctl webhook                 who is told, and what waits or was given up
  agentctl webhook list --all      and those that were made
  agentctl webhook test ci         send one now, and see what is answered
  agentctl webhook retry           all that wait, now
  agentctl webhook retry 4f2a91c0  this one, even if it was given up
  agentctl webhook retry --dead    all that were given up
  AGENTCTL_WEBHOOK_URL=https://example.org/agents agentctl webhook test"""
DEEDS = ("list", "retry", "test")


def parser() -> Parser:
    made = Parser(
        "webhook",
        "Who is told of events over HTTP, what was delivered, and what was not. Webhooks are made in "
        "the settings (agentctl config init) or by AGENTCTL_WEBHOOK_URL and AGENTCTL_WEBHOOK_SECRET; "
        "the daemon delivers, for up to a day.",
        EXAMPLES,
    )
    made.add_argument(
        "words", nargs="*", metavar="list|retry|test", help="list; retry [ID]; test [NAME] (list)"
    )
    made.add_argument("--all", action="store_true", help="list: also what was delivered")
    made.add_argument("--dead", action="store_true", help="retry: all that were given up")
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    deed, *rest = arguments.words or ["list"]
    if deed not in DEEDS:
        raise UsageError(f"webhook knows no {deed!r}", f"known: {', '.join(DEEDS)}")
    if len(rest) > (0 if deed == "list" else 1):
        raise UsageError(
            f"webhook {deed}: too many words: {' '.join(rest)}", "see: agentctl webhook --help"
        )
    for flag, of in (("all", "list"), ("dead", "retry")):
        if getattr(arguments, flag) and deed != of:
            raise UsageError(f"--{flag} is for webhook {of}")
    if arguments.dead and rest:
        raise UsageError("retry one, or --dead, not both")
    from agentctl.cli import webhooks

    if deed == "list":
        return webhooks.show(everything=arguments.all, as_json=arguments.json)
    one = rest[0] if rest else None
    if deed == "retry":
        return webhooks.retry(one, dead=arguments.dead, as_json=arguments.json)
    return webhooks.test(one, as_json=arguments.json)
