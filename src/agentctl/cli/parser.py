"""Run one verb: find it, parse its arguments, turn an error into one line and an exit code. The options
that several verbs share are here too."""

from __future__ import annotations

import argparse
import gc
import os
import time
from typing import NoReturn, Protocol, cast

from agentctl.cli.catalogue import VERBS
from agentctl.durations import seconds
from agentctl.errors import AgentctlError, UsageError
from agentctl.text import columns

FREE_TEXT = ("TEXT", "CMD")  # metavars of options that take whatever a person writes

# What other tools call our verbs: their users type it here.
ELSEWHERE = {
    "ls": "list", "ps": "list", "top": "list", "show": "status", "info": "status", "tail": "logs",
    "log": "logs", "start": "launch", "run": "launch", "new": "launch", "spawn": "launch",
    "kill": "stop", "rm": "stop", "end": "stop", "continue": "resume", "attach": "logs",
    "diff": "compare", "group": "compare", "worktrees": "worktree", "clean": "prune", "gc": "prune",
    "settings": "config", "check": "doctor",
}  # fmt: skip


class Verb(Protocol):
    def parser(self) -> Parser: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


class Plain:
    """argparse's colours, each of them none."""

    def __getattr__(self, name: str) -> str:
        return ""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Is told its width: argparse asks `shutil` for it, 3 ms to import, even when nothing is printed."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns(otherwise=80) - 2)

    def _set_color(self, *_: object, **__: object) -> None:
        """Python 3.14 imports `dataclasses` and `inspect` to choose colours, 6 ms, even when nothing
        is printed."""
        self._theme, self._decolor = Plain(), str

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """What a verb is for is folded to the terminal; examples are lines already."""
        if text.startswith("examples:"):
            return super()._fill_text(text, width, indent)
        fold = argparse.HelpFormatter._fill_text
        return "\n\n".join(fold(self, part, width, indent) for part in text.split("\n\n"))


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours: one line, and where to read on."""

    def __init__(
        self, verb: str, description: str, examples: str, *, takes_native: bool = False
    ) -> None:
        self._takes_native = takes_native  # words after -- are another program's: `.native`
        super().__init__(
            prog=f"agentctl {verb}",
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=Formatter,
            allow_abbrev=False,
        )

    def parse_words(self, words: list[str]) -> argparse.Namespace:
        if not self._takes_native:
            return self._parsed(words)
        ours, native = self._split(words)
        given = self._parsed(ours)
        given.native = native
        return given

    def _parsed(self, words: list[str]) -> argparse.Namespace:
        """Options may stand between the words, also where some of these may be left out: plain
        argparse takes `lock release --force DIR` for a lock release without a directory."""
        loose = any(action.nargs in ("*", "?") for action in self._get_positional_actions())
        return self.parse_intermixed_args(words) if loose else self.parse_args(words)

    def _split(self, words: list[str]) -> tuple[list[str], tuple[str, ...]]:
        """Our words, and another program's after `--`. What follows an option of free text is its text,
        whatever it looks like: argparse takes a prompt that begins with a dash for an option."""
        ours, rest = [], list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                break
            action = self._option_string_actions.get(word)
            if action is not None and action.metavar in FREE_TEXT and rest:
                word = f"{max(action.option_strings, key=len)}={rest.pop(0)}"
            ours.append(word)
        return ours, tuple(rest)

    def _get_value(self, action: argparse.Action, text: str) -> object:
        """Name the option whose value is wrong: a verb has several that take a number or a duration."""
        try:
            return super()._get_value(action, text)
        except UsageError as error:
            if not action.option_strings:
                raise
            raise UsageError(f"{'/'.join(action.option_strings)}: {error}", error.hint) from error

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see: {self.prog} --help")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the stable JSON shape")


def add_common(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument(
        "--deadline",
        type=seconds,
        metavar="TIME",
        help="how long one agent's files may take before its sessions are listed without activity "
        "(default 2s, or $AGENTCTL_DEADLINE)",
    )


def add_no_daemon(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-daemon",
        action="store_true",
        help="look ourselves, even if a daemon runs (also $AGENTCTL_NO_DAEMON=1): the same answer",
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, any unambiguous prefix, or pid:N")
    add_common(parser)


def parse_age(text: str) -> float:
    """Return the moment that was this long ago."""
    return time.time() - seconds(text)


def parse_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) == 0:
        raise UsageError(f"not a whole number above 0: {text!r}", "example: 20")
    return int(text)


def find(name: str) -> Verb:
    if name not in VERBS:
        meant = _meant(name)
        hint = f"did you mean {meant!r}?" if meant else "agentctl --help lists the verbs"
        raise UsageError(f"no verb {name!r}", hint)
    module = __import__(f"agentctl.cli.verbs.{name}", fromlist=["run"])
    return cast("Verb", module)


def _meant(name: str) -> str | None:
    """What other tools call it, or what it looks like."""
    from difflib import get_close_matches

    near = get_close_matches(name, VERBS, 1)
    return ELSEWHERE.get(name) or (near[0] if near else None)


def run(name: str, words: list[str]) -> int:
    try:
        verb = find(name)
        given = verb.parser().parse_words(words)
        if not gc.isenabled():
            gc.freeze()  # what was made so far is never looked at: there is nothing to collect in it
            gc.enable()
        return verb.run(given)
    except AgentctlError as error:
        return _failed(error)
    except FileNotFoundError:
        if not _stands_nowhere():
            raise
        return _failed(UsageError("the current directory was deleted", "cd to one that exists"))


def _stands_nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _failed(error: AgentctlError) -> int:
    from agentctl.cli.answer import failed, show  # what looks at the machine: here for its words only

    return show(failed(error, os.environ))
