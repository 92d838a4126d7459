"""What an `opencode` command line says, and which sessions it can be running.

Nothing on disk links a process to a session. An id in argv does; else directory and time allow an
inference, and what kind of session it is narrows that down: `opencode run` marks those it creates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from agentctl.adapters.opencode.db import Row
from agentctl.truth.bind import Bound, Tie, bind
from agentctl.truth.look import Look
from agentctl.truth.procfs import Process

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
    return Call(
        process,
        look.started_at(process),
        _kind(command, options),
        command,
        None if fork else session,
        session if fork else None,
        not fork and bool({"-c", "--continue"} & options.keys()),
        run,
        fork or command == "github" or (run and bool({"-i", "--interactive"} & options.keys())),
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


def bind_all(
    look: Look, calls: Sequence[Call], clients: Sequence[Call], rows: Sequence[Row], database: str | None
) -> dict[str, Bound]:
    """The owner of every session that one of these processes runs or may run."""
    named = [Tie(c.session, c.process, "argument", c.address()) for c in calls if c.session is not None]
    named += _noted(look, calls)
    taken = {tie.session_id for tie in named}
    roots = [row for row in rows if row.parent_id is None and row.id not in taken]
    local, unclear = _local(calls, roots, f"{database}#")
    served, doubtful = _served(
        calls, clients, roots, {tie.session_id: tie for tie in local}, f"{database}#"
    )
    bound = bind([*named, *local, *served])
    for tie in (*unclear, *doubtful):
        others = bound[tie.session_id].candidates if tie.session_id in bound else ()
        bound[tie.session_id] = Bound(
            tie.session_id, None, (*others, tie.process), "inferred", tie.address
        )
    bound.update(_children(look, rows, bound))
    return bound


def _noted(look: Look, calls: Sequence[Call]) -> Iterator[Tie]:
    """What we know from having started it: sure, unlike anything that follows from its directory."""
    mine = {call.process.pid for call in calls if call.kind == "run" and call.session is None}
    return (tie for tie in look.noted() if tie.process.pid in mine)


def _local(calls: Sequence[Call], roots: Sequence[Row], base: str) -> tuple[list[Tie], list[Tie]]:
    """Ties of processes that work in one directory, and those that nothing more can be made of."""
    ties: list[Tie] = []
    unclear: list[Tie] = []
    for call in calls:
        if call.kind == "server" or (call.kind == "run" and call.session is not None):
            continue
        mine = [row.id for row in roots if call.may_run(row)]
        # The id a TUI was started with is only its first session: one more is told apart, two are not.
        sure = call.session is None or len(mine) == 1
        for session_id in mine:
            shared = call.session is not None
            tie = Tie(session_id, call.process, "inferred", base + session_id, shared)
            (ties if sure else unclear).append(tie)
    return ties, unclear


def _served(
    calls: Sequence[Call],
    clients: Sequence[Call],
    roots: Sequence[Row],
    claimed: Collection[str],
    base: str,
) -> tuple[list[Tie], list[Tie]]:
    """A server runs sessions of any directory: those written since it began that nobody in their own
    directory may run. One made by `opencode run` is a server's only through `run --attach`."""
    ties: list[Tie] = []
    doubtful: list[Tie] = []
    for call in (c for c in calls if c.kind == "server"):
        for row in roots:
            elsewhere = row.directory != call.process.cwd
            if row.updated < call.started - SLACK or (row.id in claimed and elsewhere):
                continue
            tie = Tie(row.id, call.process, "inferred", base + row.id, shared=True)
            if not row.headless or any(client.started <= row.updated for client in clients):
                ties.append(tie)
            elif row.unfinished and row.id not in claimed:
                doubtful.append(tie)
    return ties, doubtful


def _children(look: Look, rows: Iterable[Row], bound: Mapping[str, Bound]) -> dict[str, Bound]:
    """Sub-agents run in the process of the session that called them."""
    by_id = {row.id: row for row in rows}
    found = {}
    for row in by_id.values():
        above, seen = row, {row.id}
        while above.parent_id in by_id and above.parent_id not in seen and above.id not in bound:
            above = by_id[above.parent_id]
            seen.add(above.id)
        parent = bound.get(above.id)
        if parent is None or row.id in bound:
            continue
        if all(row.updated >= look.started_at(process) - SLACK for process in parent.candidates):
            found[row.id] = parent._replace(session_id=row.id)
    return found
