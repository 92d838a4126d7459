"""Whether a process is Codex, and what it was called to do, from its arguments."""

from __future__ import annotations

import os

from agentctl.adapters.argv import split
from agentctl.adapters.codex.rollout import is_id
from agentctl.light_typing import Literal, NamedTuple, Sequence
from agentctl.system.proc import Process
from agentctl.system.program import SCRIPT_RUNTIMES, read_program

# The releases are named after what they run on: codex-x86_64-unknown-linux-musl.
RELEASES = ("codex-x86_64-", "codex-aarch64-")
# An editor's agent server, built on the same core: it keeps threads, locks and rollouts as Codex does.
ACP = "codex-acp"
# The same binary as a helper: the sandbox wrapper around each command, and its inner end in bwrap.
HELPERS = ("codex-linux-sandbox", "codex-code-mode-host")

Role = Literal["exec", "tui", "app-server", "tool"]

EXEC = frozenset(("exec", "e", "review"))
# Commands that never load a thread.
TOOLS = frozenset(
    ("login", "logout", "mcp", "plugin", "remote-control", "completion", "update", "doctor",
     "sandbox", "debug", "apply", "a", "queue", "archive", "delete", "migrate-rollouts",
     "migrate-nfs-db", "unarchive", "cloud", "exec-server", "features", "help")
)  # fmt: skip
# `app-server daemon start` and similar commands manage or reach a server, and are none.
BESIDE_A_SERVER = ("daemon", "proxy", "generate-ts", "generate-json-schema", "help")
# Options that take the next argument as their value.
VALUED = frozenset(
    ("-c", "--config", "--enable", "--disable", "--remote", "--remote-auth-token-env", "-i", "--image",
     "-m", "--model", "--local-provider", "-p", "--profile", "-s", "--sandbox", "-C", "--cd",
     "--add-dir", "-a", "--ask-for-approval", "--output-schema", "-o", "--output-last-message",
     "--color", "--listen")
)  # fmt: skip
INFORMING = ("-V", "--version", "-h", "--help")  # Codex prints that and exits
# With any of these the TUI runs its threads itself.
EMBEDDING = ("-c", "--config", "--no-daemon", "-p", "--profile", "--search")


class Invocation(NamedTuple):
    role: Role
    words: tuple[str, ...]  # neither an option nor an option's value
    options: tuple[tuple[str, str], ...]  # value "": a switch

    @property
    def is_embedded(self) -> bool:
        return any(name in EMBEDDING for name, _ in self.options)

    @property
    def is_remote(self) -> bool:
        return self.role == "tui" and any(name == "--remote" for name, _ in self.options)

    @property
    def is_daemon(self) -> bool:
        """Whether a TUI can be a client of this app server. An editor's server speaks only over
        stdio."""
        names = dict(self.options)
        return self.role == "app-server" and (
            "--managed-daemon" in names or names.get("--listen", "").startswith("unix://")
        )

    @property
    def resumed_id(self) -> str | None:
        """The thread after `resume`. Not after `fork`: that is the parent."""
        words = self.words[1:] if self.role == "exec" else self.words
        if words[:1] != ("resume",):
            return None
        return words[1] if len(words) > 1 and is_id(words[1]) else None

    def directory(self, cwd: str | None) -> str | None:
        """Return where the thread works. Codex itself does not change to `-C`; its commands do."""
        below = next((value for name, value in self.options if name in ("-C", "--cd")), "")
        return os.path.normpath(os.path.join(cwd, below)) if cwd is not None and below else cwd


def is_codex(process: Process) -> bool:
    """Decide by the binary, unless it runs under the name of a helper. Raises SourceError."""
    argv = process.argv
    if argv and os.path.basename(argv[0]) in HELPERS:
        return False
    program = read_program(process)
    if program.runtime in SCRIPT_RUNTIMES:  # npm's launcher: the agent is its child
        return False
    name = program.name
    return name in ("codex", "codex.exe", ACP) or name.startswith(RELEASES)


def read_invocation(process: Process) -> Invocation:
    """Raises SourceError."""
    program = read_program(process)
    call = parse_invocation((program.path, *program.arguments))
    # The ACP server takes only options, and runs the threads of its editor.
    return call._replace(role="app-server") if program.name == ACP else call


def parse_invocation(argv: Sequence[str]) -> Invocation:
    arguments = split(argv[1:], VALUED, attached=True, dashes=True)
    role = "tool" if arguments.has(*INFORMING) else _role(arguments.words)
    return Invocation(role, *arguments)


def _role(words: Sequence[str]) -> Role:
    command = words[0] if words else ""
    if command == "app-server":
        return "tool" if words[1:2] and words[1] in BESIDE_A_SERVER else "app-server"
    if command in EXEC:
        return "exec"
    return "tool" if command in TOOLS else "tui"
