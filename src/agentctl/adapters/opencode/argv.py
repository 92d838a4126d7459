"""What an `opencode` command line says, and which sessions it can be running.

Directory and time tell, and what kind of session it is: `opencode run` marks those it creates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from agentctl.adapters.opencode.db import Row
from agentctl.system.proc import Process
from agentctl.truth.look import Look

Kind = Literal["tui", "run", "server", "client", "none"]

SERVERS = frozenset({"serve", "web", "acp"})
# `pr` starts another opencode for the session.
SESSIONLESS = frozenset({
    "completion", "mcp", "debug", "providers", "auth", "agent", "upgrade", "uninstall", "models",
    "stats", "export", "import", "pr", "session", "plugin", "plug", "db",
})  # fmt: skip
LISTENING = ("--port", "--hostname", "--mdns")  # with these, a TUI serves others too
# Options before a subcommand or prompt that take the next word.
VALUED = frozenset({
    "--log-level", "--port", "--hostname", "--mdns-domain", "--cors", "-m", "--model", "-s", "--session",
    "--prompt", "--agent", "--replay-limit", "--command", "--format", "-f", "--file", "--title",
    "--attach", "-p", "--password", "-u", "--username", "--dir", "--variant",
})  # fmt: skip
# A start is known to 10 ms. A session appears a second after its process: more slack would only claim
# the sessions of the process before.
SLACK = 0.1


class Call(NamedTuple):
    process: Process
    started: float
    kind: Kind
    command: str  # the subcommand; "" for the TUI
    session: str | None  # that argv names as the one to go on with
    source: str | None  # that argv names as the one to fork
    continues: bool  # with the last one, whichever that is
    marks: bool  # marks the sessions it creates as headless
    either: bool  # creates marked and unmarked ones
    given: bool  # a prompt to begin with
    attended: bool = True  # somebody can answer what it asks: `run` refuses by itself

    def may_run(self, row: Row) -> bool:
        """Same directory, and created or written by something that could be this process."""
        if row.directory != self.process.cwd or row.updated < self.started - SLACK:
            return False
        if row.id == self.source:
            return False
        if row.created >= self.started - SLACK:
            goes_on = self.continues and self.kind == "run"  # a TUI can begin another one later
            return self.either or (row.headless == self.marks and not goes_on)
        return self.kind != "run" or self.continues

    def address(self) -> str:
        return self.process.identity.address


def read_call(process: Process, look: Look) -> Call:
    command, options = _words(process.argv)
    session = options.get("--session") or options.get("-s") or None
    fork = "--fork" in options
    run = command in ("run", "github")
    interactive = bool({"-i", "--interactive"} & options.keys())
    return Call(
        process,
        look.started_at(process),
        _kind(command, options),
        command,
        None if fork else session,
        session if fork else None,
        not fork and bool({"-c", "--continue"} & options.keys()),
        run,
        fork or command == "github" or (run and interactive),
        "--prompt" in options,
        not run or interactive,
    )


def kind_of(argv: Sequence[str]) -> Kind:
    return _kind(*_words(argv))


def _kind(command: str, options: Mapping[str, str]) -> Kind:
    if {"-h", "--help", "-v", "--version"} & options.keys() or command in SESSIONLESS:
        return "none"
    if command in SERVERS:
        return "server"
    if command == "attach" or (command == "run" and "--attach" in options):
        return "client"
    if command in ("run", "github"):
        return "run"  # even with --port it does not listen
    return "server" if any(option in options for option in LISTENING) else "tui"


def _words(argv: Sequence[str]) -> tuple[str, dict[str, str]]:
    """(subcommand, options): the first bare word is the subcommand, if it is one."""
    command, options, words = "", {}, list(argv[:0:-1])
    bare = 0
    while words:
        word = words.pop()
        if word == "--":
            break
        if not word.startswith("-"):
            command = word if not bare else command
            bare += 1
            continue
        name, given, value = word.partition("=")
        if not given and name in VALUED and words and not words[-1].startswith("-"):
            value = words.pop()
        options[name] = value
    known = command in SERVERS or command in SESSIONLESS or command in ("run", "github", "attach")
    return command if known else "", options  # else it is the TUI's [project]
