"""Whether a process is Codex, and what it was called to do, from its arguments."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from agentctl.adapters.codex.rollout import is_id
from agentctl.system.proc import Process
from agentctl.system.program import SCRIPT_RUNTIMES, program_of

# The releases are named after what they run on: codex-x86_64-unknown-linux-musl.
RELEASES = ("codex-x86_64-", "codex-aarch64-")
# An editor's agent server, built on the same core: it keeps threads, locks and rollouts as Codex does.
ACP = "codex-acp"
# Same binary, other trades: the sandbox wrapper around each command, and its inner end in bwrap.
HELPERS = ("codex-linux-sandbox", "codex-code-mode-host")

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
INFORMING = ("-V", "--version", "-h", "--help")  # it says that and ends, whatever else it was told
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


def is_codex(process: Process) -> bool:
    """By its binary, unless it was called by the name of a helper. Raises SourceError."""
    argv = process.argv
    if argv and os.path.basename(argv[0]) in HELPERS:
        return False
    program = program_of(process)
    if program.runtime in SCRIPT_RUNTIMES:  # npm's launcher: the agent is its child
        return False
    name = program.name
    return name in ("codex", "codex.exe", ACP) or name.startswith(RELEASES)


def invocation_of(process: Process) -> Invocation:
    """Raises SourceError."""
    program = program_of(process)
    call = invocation((program.path, *program.arguments))
    # it takes options only, and runs the threads of its editor
    return call._replace(role="app-server") if program.name == ACP else call


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
    informs = any(name in INFORMING for name, _ in options)
    return Invocation("tool" if informs else _role(words), tuple(words), tuple(options))


def _role(words: list[str]) -> Role:
    command = words[0] if words else ""
    if command == "app-server":
        return "tool" if words[1:2] and words[1] in BESIDE_A_SERVER else "app-server"
    if command in EXEC:
        return "exec"
    return "tool" if command in TOOLS else "tui"
