"""Completion scripts, made from the verbs' own parsers."""

from __future__ import annotations

import argparse

from agentctl import asking
from agentctl.cli.complete import SHELLS, script
from agentctl.cli.verb import Parser
from agentctl.errors import UsageError

EXAMPLES = """\
  agentctl completion bash > ~/.local/share/bash-completion/completions/agentctl
  agentctl completion zsh > "${fpath[1]}/_agentctl"
  agentctl completion fish > ~/.config/fish/completions/agentctl.fish"""


def parser() -> Parser:
    made = Parser("completion", "Print a completion script for a shell.", EXAMPLES)
    made.add_argument("shell", metavar="SHELL", nargs="?", help=" or ".join(SHELLS))
    made.add_argument("--ids", action="store_true", help="print the ids of live sessions (for scripts)")
    made.add_argument("--groups", action="store_true", help="print the names of groups (for scripts)")
    return made


def run(arguments: argparse.Namespace) -> int:
    if arguments.ids:
        ids = [s.seen.session_id for s in asking.everything().sessions if s.seen.session_id]
        print("".join(f"{id_}\n" for id_ in ids if harmless(id_)), end="")
        return 0
    if arguments.groups:
        from agentctl.control.compare import groups

        print("".join(f"{name}\n" for name in groups() if harmless(name)), end="")
        return 0
    if arguments.shell is None:
        raise UsageError("which shell?", f"known: {', '.join(SHELLS)}")
    if arguments.shell not in SHELLS:
        raise UsageError(f"no completion for {arguments.shell!r}", f"known: {', '.join(SHELLS)}")
    print(script(arguments.shell), end="")
    return 0


def harmless(name: str) -> bool:
    """A shell expands what it is offered: an id that is more than a plain word is not offered."""
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()
