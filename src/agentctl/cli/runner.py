"""Run one verb: load it, turn an error into one line and an exit code."""

from __future__ import annotations

import gc
import os
import sys

from agentctl.cli.catalogue import ALIASES, VERBS
from agentctl.cli.quick_words import QuickWords, read_quickly
from agentctl.errors import AgentctlError, UsageError
from agentctl.light_typing import TYPE_CHECKING, Iterable, Mapping, NamedTuple, cast
from agentctl.text import clean_line, cut

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Protocol

    from agentctl.cli.parser import Parser

    class Verb(Protocol):
        def parser(self) -> Parser: ...
        def run(self, arguments: Namespace) -> int: ...


OUTPUT_COLUMNS = 400  # of a line of an agent's output: some write a stack trace into one line

# Other tools' names for our verbs.
OTHER_NAMES = {
    "ls": "list", "ps": "list", "top": "list", "show": "status", "info": "status", "tail": "logs",
    "log": "logs", "start": "launch", "run": "launch", "new": "launch", "spawn": "launch",
    "kill": "stop", "rm": "stop", "end": "stop", "continue": "resume", "attach": "logs",
    "diff": "compare", "group": "compare", "worktrees": "worktree", "clean": "prune", "gc": "prune",
    "settings": "config", "check": "doctor",
}  # fmt: skip


class Answer(NamedTuple):
    """What a verb writes, and its exit code."""

    out: Iterable[str] = ()  # in pieces, so that a long answer is not built whole
    err: str = ""
    code: int = 0


class Alias(NamedTuple):
    """A verb that stands for one command of another verb."""

    name: str
    verb: Verb
    command: str

    def parser(self) -> Parser:
        parser = self.verb.parser().commands[self.command]
        parser.prog = f"agentctl {self.name}"
        parser.set_defaults(command=self.command)
        return parser

    def run(self, arguments: Namespace) -> int:
        return self.verb.run(arguments)


def load_verb(name: str) -> Verb:
    """Import a verb. Raises UsageError if there is none of this name."""
    if name in ALIASES:
        verb, command = ALIASES[name]
        return Alias(name, load_verb(verb), command)
    if name not in VERBS:
        similar = _similar_verb(name)
        hint = f"did you mean {similar!r}?" if similar else "agentctl --help lists the verbs"
        raise UsageError(f"no verb {name!r}", hint)
    module = __import__(f"agentctl.cli.verbs.{name}", fromlist=["run"])
    return cast("Verb", module)


def _similar_verb(name: str) -> str | None:
    from difflib import get_close_matches

    near = get_close_matches(name, VERBS, 1)
    return OTHER_NAMES.get(name) or (near[0] if near else None)


def run_verb(name: str, words: list[str]) -> int:
    """Run a verb and return its exit code."""
    try:
        verb = load_verb(name)
        quick: QuickWords | None = getattr(verb, "QUICK", None)
        options = read_quickly(words, quick) if quick is not None else None
        if options is None:
            options = verb.parser().parse_words(words)
        if not gc.isenabled():
            gc.freeze()  # imported code is never garbage: later collections skip it
            gc.enable()
        return verb.run(options)
    except AgentctlError as error:
        return write_answer(error_answer(error, os.environ))
    except FileNotFoundError:
        if _has_current_directory():
            raise
        missing = UsageError("the current directory was deleted", "cd to one that exists")
        return write_answer(error_answer(missing, os.environ))


def _has_current_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def write_answer(answer: Answer) -> int:
    """Write an answer and return its exit code."""
    write = sys.stdout.write
    for piece in answer.out:
        write(piece)
    if answer.err:
        sys.stdout.flush()
        sys.stderr.write(answer.err)
    return answer.code


def error_answer(error: AgentctlError, environ: Mapping[str, str]) -> Answer:
    """Return an error as one line, a hint and an exit code. AGENTCTL_DEBUG=1 raises it."""
    if environ.get("AGENTCTL_DEBUG") == "1":
        raise error
    lines = [f"agentctl: {clean_line(str(error))}"]
    lines += [f"  | {cut(clean_line(line), OUTPUT_COLUMNS)}" for line in error.output]
    if error.hint:
        lines.append(f"  {clean_line(error.hint)}")
    return Answer(err="\n".join(lines) + "\n", code=error.exit_code)
