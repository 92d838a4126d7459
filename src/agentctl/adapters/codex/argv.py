"""What a Codex process was called to do, from its arguments."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from agentctl.adapters.codex.rollout import is_id

Role = Literal["exec", "tui", "app-server", "tool"]

TUI = frozenset(("resume", "fork", "agents"))
EXEC = frozenset(("exec", "e", "review"))
# Commands that never load a thread.
TOOLS = frozenset(
    ("login", "logout", "mcp", "plugin", "remote-control", "completion", "update", "doctor",
     "sandbox", "debug", "apply", "a", "queue", "archive", "delete", "migrate-rollouts",
     "migrate-nfs-db", "unarchive", "cloud", "exec-server", "features", "help")
)  # fmt: skip
# `app-server daemon start` and the like manage or reach one, they are none.
BESIDE_A_SERVER = ("daemon", "proxy", "generate-ts", "generate-json-schema", "help")
# Options whose next argument is their value, so that it is not taken for a command.
VALUED = frozenset(
    ("-c", "--config", "--enable", "--disable", "--remote", "--remote-auth-token-env", "-i", "--image",
     "-m", "--model", "--local-provider", "-p", "--profile", "-s", "--sandbox", "-C", "--cd",
     "--add-dir", "-a", "--ask-for-approval", "--output-schema", "-o", "--output-last-message",
     "--color", "--listen")
)  # fmt: skip
# Any of these makes the TUI run its threads itself.
EMBEDDING = ("-c", "--config", "--no-daemon", "-p", "--profile", "--search")


class Invocation(NamedTuple):
    role: Role
    words: tuple[str, ...]  # what is neither an option nor an option's value
    options: tuple[tuple[str, str], ...]  # value "": a switch

    @property
    def embedded(self) -> bool:
        return any(name in EMBEDDING for name, _ in self.options)

    @property
    def remote(self) -> bool:
        return self.role == "tui" and any(name == "--remote" for name, _ in self.options)

    @property
    def serves(self) -> bool:
        """An app server that a TUI can be a client of; an editor's speaks over its stdio alone."""
        names = dict(self.options)
        return self.role == "app-server" and (
            "--managed-daemon" in names or names.get("--listen", "").startswith("unix://")
        )

    @property
    def resumes(self) -> str | None:
        """The thread named after `resume`. Not after `fork`: that is the parent."""
        words = self.words[1:] if self.role == "exec" else self.words
        if words[:1] != ("resume",):
            return None
        return words[1] if len(words) > 1 and is_id(words[1]) else None

    def directory(self, cwd: str | None) -> str | None:
        """Where its thread works: Codex does not go to `-C`, only its commands do."""
        given = next((value for name, value in self.options if name in ("-C", "--cd")), "")
        return os.path.normpath(os.path.join(cwd, given)) if cwd is not None and given else cwd


def invocation(argv: tuple[str, ...]) -> Invocation:
    words: list[str] = []
    options: list[tuple[str, str]] = []
    rest = iter(argv[1:])
    for argument in rest:
        if argument == "--":
            words.extend(rest)
        elif argument.startswith("--"):
            name, equals, value = argument.partition("=")
            options.append((name, value if equals or name not in VALUED else next(rest, "")))
        elif argument.startswith("-") and len(argument) > 1:
            name, value = argument[:2], argument[2:]
            options.append((name, value or (next(rest, "") if name in VALUED else "")))
        else:
            words.append(argument)
    return Invocation(_role(words), tuple(words), tuple(options))


def _role(words: list[str]) -> Role:
    command = words[0] if words else ""
    if command == "app-server":
        return "tool" if words[1:2] and words[1] in BESIDE_A_SERVER else "app-server"
    if command in EXEC:
        return "exec"
    return "tool" if command in TOOLS else "tui"
