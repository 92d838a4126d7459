"""Read an `opencode` command line, and decide which sessions its process may run.

Directory, time and the kind of session decide: `opencode run` marks the sessions that it creates.
"""

from __future__ import annotations

from itertools import takewhile

from agentctl.adapters.argv import split
from agentctl.adapters.opencode.db import Row
from agentctl.light_typing import Literal, Mapping, NamedTuple, Sequence
from agentctl.system.proc import Process
from agentctl.truth.look import Look

Kind = Literal["tui", "run", "server", "client", "none"]

SERVERS = frozenset({"serve", "web", "acp"})
# `pr` starts another opencode for the session.
SESSIONLESS = frozenset({
    "completion", "mcp", "debug", "providers", "auth", "agent", "upgrade", "uninstall", "models",
    "stats", "export", "import", "pr", "session", "plugin", "plug", "db",
})  # fmt: skip
LISTENING = ("--port", "--hostname", "--mdns")  # with these a TUI is a server, too
# Options before a subcommand or prompt that take the next word.
VALUED = frozenset({
    "--log-level", "--port", "--hostname", "--mdns-domain", "--cors", "-m", "--model", "-s", "--session",
    "--prompt", "--agent", "--replay-limit", "--command", "--format", "-f", "--file", "--title",
    "--attach", "-p", "--password", "-u", "--username", "--dir", "--variant",
})  # fmt: skip
# Seconds. A process's start is known to 10 ms, and its session appears a second later: more slack would
# only claim the sessions of an earlier process.
SLACK = 0.1


class Call(NamedTuple):
    process: Process
    started_at: float
    kind: Kind
    command: str  # the subcommand; "" for the TUI
    session: str | None  # that argv names to continue
    fork_of: str | None  # the session that argv names to fork
    continues_last: bool  # the last session of the directory
    marks_headless: bool  # the sessions that it creates
    creates_both: bool  # marked and unmarked sessions
    has_prompt: bool  # on the command line
    is_attended: bool = True  # the user can answer its questions; `run` refuses them by itself

    def may_run(self, row: Row) -> bool:
        """Return True if the session is in the same directory and this process may have written it."""
        if row.directory != self.process.cwd or row.updated < self.started_at - SLACK:
            return False
        if row.id == self.fork_of:
            return False
        if row.created >= self.started_at - SLACK:
            goes_on = self.continues_last and self.kind == "run"  # a TUI may begin another session later
            return self.creates_both or (row.is_headless == self.marks_headless and not goes_on)
        return self.kind != "run" or self.continues_last

    def address(self) -> str:
        return self.process.identity.address


def read_call(process: Process, look: Look) -> Call:
    command, options = _split_argv(process.argv)
    session = options.get("--session") or options.get("-s") or None
    is_fork = "--fork" in options
    is_run = command in ("run", "github")
    is_interactive = bool({"-i", "--interactive"} & options.keys())
    return Call(
        process=process,
        started_at=look.find_start_time(process),
        kind=_kind(command, options),
        command=command,
        session=None if is_fork else session,
        fork_of=session if is_fork else None,
        continues_last=not is_fork and bool({"-c", "--continue"} & options.keys()),
        marks_headless=is_run,
        creates_both=is_fork or command == "github" or (is_run and is_interactive),
        has_prompt="--prompt" in options,
        is_attended=not is_run or is_interactive,
    )


def read_kind(argv: Sequence[str]) -> Kind:
    return _kind(*_split_argv(argv))


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


def _split_argv(argv: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return subcommand and options. The first bare word is the subcommand, or the TUI's [project]."""
    words, options = split(list(takewhile("--".__ne__, argv[1:])), VALUED)
    command = words[0] if words else ""
    is_command = command in SERVERS | SESSIONLESS | {"run", "github", "attach"}
    return command if is_command else "", dict(options)
