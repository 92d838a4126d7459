"""Completion scripts, made from the verbs' own parsers."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from agentctl.cli.completion import SHELLS, script
from agentctl.cli.parser import Parser
from agentctl.errors import UsageError
from agentctl.sessions import query
from agentctl.truth.survey import Wanted

RECENT = 7 * 86400.0  # seconds

EXAMPLES = """\
  agentctl completion bash > ~/.local/share/bash-completion/completions/agentctl
  agentctl completion zsh > "${fpath[1]}/_agentctl"
  agentctl completion fish > ~/.config/fish/completions/agentctl.fish"""


def parser() -> Parser:
    made = Parser("completion", "Print a completion script for a shell.", EXAMPLES)
    made.add_argument("shell", metavar="SHELL", nargs="?", help=" or ".join(SHELLS))
    made.add_argument("--ids", action="store_true", help="print the ids of live sessions (for scripts)")
    made.add_argument("--ended", action="store_true", help="print the ids of this week's ended ones")
    made.add_argument("--groups", action="store_true", help="print the names of groups (for scripts)")
    return made


def run(arguments: argparse.Namespace) -> int:
    if arguments.ids:
        _print(s.seen.session_id for s in query.everything().sessions)
        return 0
    if arguments.ended:
        week = Wanted(time.time() - RECENT)
        sessions = query.everything(week).sessions
        _print(s.seen.session_id for s in sessions if s.verdict.status == "stopped")
        return 0
    if arguments.groups:
        from agentctl.compare.compare import groups

        _print(groups())
        return 0
    if arguments.shell is None:
        raise UsageError("which shell?", f"known: {', '.join(SHELLS)}")
    if arguments.shell not in SHELLS:
        raise UsageError(f"no completion for {arguments.shell!r}", f"known: {', '.join(SHELLS)}")
    print(script(arguments.shell), end="")
    return 0


def _print(names: Iterable[str | None]) -> None:
    print("".join(f"{name}\n" for name in names if name and harmless(name)), end="")


def harmless(name: str) -> bool:
    """A shell expands what it is offered: an id that is more than a plain word is not offered."""
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()
