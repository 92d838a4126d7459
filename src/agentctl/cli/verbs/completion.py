"""Print completion scripts, and the ids and groups that they offer."""

from __future__ import annotations

import argparse
import time

from agentctl.cli.completion import SHELLS, script
from agentctl.cli.parser import Parser
from agentctl.errors import UsageError
from agentctl.light_typing import Iterable
from agentctl.sessions import query
from agentctl.truth.survey import HistoryQuery

RECENT = 7 * 86400.0  # seconds

EXAMPLES = """\
  agentctl completion bash > ~/.local/share/bash-completion/completions/agentctl
  agentctl completion zsh > "${fpath[1]}/_agentctl"
  agentctl completion fish > ~/.config/fish/completions/agentctl.fish"""


def parser() -> Parser:
    parser = Parser(
        "completion",
        "Print a completion script for a shell. The options print what the scripts offer.",
        EXAMPLES,
    )
    parser.add_argument("shell", metavar="SHELL", nargs="?", help=f"one of {', '.join(SHELLS)}")
    parser.add_argument("--ids", action="store_true", help="print the ids of live sessions")
    parser.add_argument(
        "--ended", action="store_true", help="print the ids of sessions that ended this week"
    )
    parser.add_argument("--groups", action="store_true", help="print the names of groups")
    return parser


def run(arguments: argparse.Namespace) -> int:
    if arguments.ids:
        _print(s.observation.session_id for s in query.survey_sessions().sessions)
        return 0
    if arguments.ended:
        week = HistoryQuery(time.time() - RECENT)
        sessions = query.survey_sessions(week).sessions
        _print(s.observation.session_id for s in sessions if s.verdict.status == "stopped")
        return 0
    if arguments.groups:
        from agentctl.compare.compare import list_groups

        _print(list_groups())
        return 0
    if arguments.shell is None:
        raise UsageError("missing SHELL", f"one of: {', '.join(SHELLS)}")
    if arguments.shell not in SHELLS:
        raise UsageError(f"no completion for {arguments.shell!r}", f"one of: {', '.join(SHELLS)}")
    print(script(arguments.shell), end="")
    return 0


def _print(names: Iterable[str | None]) -> None:
    print("".join(f"{name}\n" for name in names if name and is_plain(name)), end="")


def is_plain(name: str) -> bool:
    """Return True if no shell expands this name."""
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()
