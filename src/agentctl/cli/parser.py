"""Parse the words of a verb; the options that several verbs share."""

from __future__ import annotations

import argparse
import sys

from agentctl.durations import parse_duration
from agentctl.errors import UsageError
from agentctl.light_typing import Iterator, NoReturn
from agentctl.text import clean_line, terminal_columns

FREE_TEXT = ("TEXT", "CMD")  # metavars of options whose value may begin with a dash


class NoTheme:
    """A theme of argparse in which every colour is empty."""

    def __getattr__(self, name: str) -> str:
        return ""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Pass the width to argparse, which otherwise imports `shutil` for it: 3 ms, even if nothing is
    printed."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_columns(otherwise=80) - 2)

    def _set_color(self, *_: object, **__: object) -> None:
        """Python 3.14 imports `dataclasses` and `inspect` to choose colours: 6 ms, even if nothing is
        printed."""
        self._theme, self._decolor = NoTheme(), str

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Fold the description to the terminal. Examples keep their lines."""
        if text.startswith("examples:"):
            return super()._fill_text(text, width, indent)
        fold = argparse.HelpFormatter._fill_text
        return "\n\n".join(fold(self, part, width, indent) for part in text.split("\n\n"))


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and a hint, and which may have commands.

    `bare` is the command that runs if no word is given, `otherwise` the one that runs if the first word
    is not a command (`agentctl lock DIR`).
    """

    def __init__(
        self,
        verb: str,
        description: str,
        examples: str = "",
        *,
        takes_native: bool = False,
        bare: str = "",
        otherwise: str = "",
    ) -> None:
        self._takes_native = takes_native  # words after -- belong to another program: `.native`
        self.commands: dict[str, Parser] = {}
        self.summary = ""  # of a command, one line
        self.bare, self.otherwise = bare, otherwise
        super().__init__(
            prog=f"agentctl {verb}",
            description=description,
            epilog=f"examples:\n{examples}" if examples else None,
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        self._positionals.title = "arguments"

    def add_command(self, name: str, summary: str, examples: str = "", more: str = "") -> Parser:
        """Return the parser of a new command. `more` follows the summary in its help."""
        command = Parser(f"{self.verb} {name}", more or _sentence(summary), examples)
        command.summary = summary
        self.commands[name] = command
        return command

    @property
    def verb(self) -> str:
        return self.prog.removeprefix("agentctl ")

    def parse_words(self, words: list[str]) -> argparse.Namespace:
        if self.commands:
            return self._parse_command(words)
        if not self._takes_native:
            return self._parse(words)
        ours, native = self._split(words)
        options = self._parse(ours)
        options.native = native
        return options

    def _parse_command(self, words: list[str]) -> argparse.Namespace:
        """Options may precede the command: `agentctl lock --ttl 1h acquire .`"""
        name, rest = self._find_command(words)
        if name is None:
            if {"-h", "--help"} & set(rest):
                self.print_help()
                self.exit()
            name = self.bare
        if not name:
            self.error(f"missing command: one of {', '.join(self.commands)}")
        self._check_options(name, rest)
        options = self.commands[name].parse_words(rest)
        options.command = name
        return options

    def _find_command(self, words: list[str]) -> tuple[str | None, list[str]]:
        """Return the command, None if no word is there, and the words without it."""
        for index, word, kind in self._scan(words):
            if kind == "option":
                continue
            if kind == "word" and word in self.commands:
                return word, words[:index] + words[index + 1 :]
            if self.otherwise:
                return self.otherwise, words
            raise self._unknown_command(word)
        return None, words

    def _scan(self, words: list[str]) -> Iterator[tuple[int, str, str]]:
        """Yield each word with its index and kind: option, word, or literal (a word after --). The
        value of an option is skipped."""
        with_value = {flag for each in self.commands.values() for flag in each.flags(with_value=True)}
        rest = iter(enumerate(words))
        for index, word in rest:
            if word == "--":
                yield from ((number, literal, "literal") for number, literal in rest)
            elif not word.startswith("-") or word == "-":
                yield index, word, "word"
            else:
                yield index, word, "option"
                if word in with_value:
                    next(rest, None)

    def _check_options(self, name: str, words: list[str]) -> None:
        """Raise UsageError for an option that only other commands have."""
        own = set(self.commands[name].flags())
        others = {flag for each in self.commands.values() for flag in each.flags()} - own
        for _, word, kind in self._scan(words):
            flag = word.partition("=")[0]
            if kind == "option" and flag in others:
                command = self.commands[name]
                raise UsageError(f"{command.verb} takes no {flag}", f"see: {command.prog} --help")

    def _unknown_command(self, word: str) -> UsageError:
        from difflib import get_close_matches

        near = get_close_matches(word, self.commands, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"commands: {', '.join(self.commands)}"
        return UsageError(f"unknown command '{self.verb} {word}'", hint)

    def flags(self, *, with_value: bool = False) -> Iterator[str]:
        """Yield the names of all options, or of those that take a value."""
        for flag, action in self._option_string_actions.items():
            if not with_value or action.nargs != 0:
                yield flag

    def format_help(self) -> str:
        if not self.commands:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage("%(prog)s [COMMAND] [OPTION ...]", (), ())
        formatter.add_text(self.description)
        formatter.start_section("commands")
        for name, command in self.commands.items():
            note = " (the default)" * (name == self.bare)
            if name == self.otherwise:
                note = f" (the default for {command._get_positional_actions()[0].metavar})"
            formatter.add_argument(argparse.Action([], name, metavar=name, help=command.summary + note))
        formatter.end_section()
        formatter.add_text(f"{self.prog} COMMAND --help shows the options of a command.")
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _parse(self, words: list[str]) -> argparse.Namespace:
        """Allow options between words that are optional: plain argparse reads `unlock --force DIR` as an
        unlock without a directory."""
        loose = any(action.nargs in ("*", "?") for action in self._get_positional_actions())
        return self.parse_intermixed_args(words) if loose else self.parse_args(words)

    def _split(self, words: list[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return our words, and those after `--`, which belong to another program. The word after an
        option of free text is its value: argparse reads a prompt with a leading dash as an option."""
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
        """Convert a value. The error names its option: a verb has several that take a duration."""
        try:
            return super()._get_value(action, text)
        except UsageError as error:
            if not action.option_strings:
                raise
            raise UsageError(f"{'/'.join(action.option_strings)}: {error}", error.hint) from error

    def error(self, message: str) -> NoReturn:
        """Shorten the messages of argparse."""
        message = message.replace("the following arguments are required: ", "missing ")
        raise UsageError(message.removeprefix("argument "), f"see: {self.prog} --help")


class SessionsParser(Parser):
    """Parse `ID…` or `--group GROUP`; options may stand between the ids."""

    def __init__(self, verb: str, description: str, examples: str) -> None:
        super().__init__(verb, description, examples)
        self.add_argument(
            "id", metavar="ID", nargs="*", help="session ids (any unambiguous prefix), or pid:N"
        )
        self.add_argument(
            "--group", metavar="GROUP", help="all sessions of this group (any unambiguous prefix)"
        )

    def parse_words(self, words: list[str]) -> argparse.Namespace:
        options = super().parse_words(words)
        if bool(options.id) == bool(options.group):
            self.error("give either session ids or --group")
        return options


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def add_common(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument(
        "--deadline",
        type=parse_duration,
        metavar="TIME",
        help="if reading an agent's files takes longer, show its sessions without their activity "
        "(default 2s, or $AGENTCTL_DEADLINE)",
    )


def add_no_daemon(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-daemon",
        action="store_true",
        help="do not ask the daemon (also $AGENTCTL_NO_DAEMON=1); the answer is the same",
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id (any unambiguous prefix), or pid:N")
    add_common(parser)


def add_event_filters(parser: argparse.ArgumentParser) -> None:
    from agentctl.watch.filter import parse_type

    parser.add_argument(
        "--adapter", action="append", default=[], metavar="ADAPTER", help="only this agent"
    )
    parser.add_argument("--group", metavar="GROUP", help="only this group")
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        type=parse_type,
        metavar="TYPE",
        help="only events of this type or pattern: lock.released, 'session.*'",
    )


def parse_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) == 0:
        raise UsageError(f"not a whole number above 0: {text!r}", "example: 20")
    return int(text)


def warn(text: str) -> None:
    """Print a warning to standard error. The exit code stays the same."""
    print(f"agentctl: {clean_line(text)}", file=sys.stderr)


def warn_if(text: str | None) -> None:
    if text is not None:
        warn(text)
