"""Completion scripts for three shells, from the options of the verbs' parsers.

A place is a verb ("list") or a verb and one of its commands ("daemon start").
"""

from __future__ import annotations

import argparse

from agentctl.adapters.registry import BUILT_IN
from agentctl.cli.catalogue import VERBS
from agentctl.cli.parser import Parser
from agentctl.cli.runner import load_verb
from agentctl.light_functools import cache
from agentctl.light_typing import NamedTuple
from agentctl.truth.model import STATUSES

SHELLS = ("bash", "zsh", "fish")
# The values of an option, and of the first argument of a verb.
VALUES = {
    "--adapter": tuple(BUILT_IN),
    "--live": tuple(BUILT_IN),
    "--status": STATUSES,
    "--for": ("stopped", "idle", "waiting", "settled"),
}
ARGUMENTS = {
    "help": tuple(VERBS),
    "launch": tuple(BUILT_IN),
    "completion": SHELLS,
}
# Metavars of options whose value is a path.
FILES, DIRECTORIES = ("FILE",), ("DIR", "REPO")
# Commands that the shell runs when it needs ids or groups.
IDS = "$(agentctl completion --ids 2>/dev/null)"
ENDED = "$(agentctl completion --ended 2>/dev/null)"
GROUPS = "$(agentctl completion --groups 2>/dev/null)"


class Option(NamedTuple):
    flags: tuple[str, ...]
    takes_value: bool
    help: str
    metavar: str = ""


@cache
def parser_of(place: str) -> Parser:
    """Return the parser of a place. Of a verb with commands: the parser of the command that runs if none
    is named."""
    verb, _, command = place.partition(" ")
    parser = load_verb(verb).parser()
    if parser.commands:
        return parser.commands[command or parser.otherwise or parser.bare]
    return parser


@cache
def commands(verb: str) -> dict[str, str]:
    """Return the summary of each command."""
    return {name: command.summary for name, command in load_verb(verb).parser().commands.items()}


def places() -> list[str]:
    return [place for verb in VERBS for place in (verb, *(f"{verb} {name}" for name in commands(verb)))]


def options(place: str) -> list[Option]:
    return [_option(action) for action in parser_of(place)._actions if action.option_strings]


def _option(action: argparse.Action) -> Option:
    text = (action.help or "").partition(";")[0].partition("(")[0].strip()
    return Option(tuple(action.option_strings), action.nargs != 0, text, str(action.metavar or ""))


def argument_words(place: str) -> str:
    """Return the words that a place takes, or the command that lists them."""
    if place in VERBS and (commands(place) or place in ARGUMENTS):
        return " ".join(commands(place) or ARGUMENTS[place])
    if takes_id(place):
        return ENDED if place == "resume" else IDS
    return GROUPS if any(action.dest == "group" for action in _arguments(place)) else ""


def takes_id(place: str) -> bool:
    return any(action.dest == "id" for action in _arguments(place))


def takes_ids(place: str) -> bool:
    """Return True if several ids may follow."""
    return any(action.dest == "id" and action.nargs == "*" for action in _arguments(place))


def takes_directory(place: str) -> bool:
    return any(str(action.metavar)[:3] == "DIR" for action in _arguments(place))


def _arguments(place: str) -> list[argparse.Action]:
    return [action for action in parser_of(place)._actions if not action.option_strings]


def script(shell: str) -> str:
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _bash() -> str:
    values = "".join(
        f'    {flag}) COMPREPLY=($(compgen -W {_quote(" ".join(words))} -- "$current")); return ;;\n'
        for flag, words in VALUES.items()
    )
    return f"""\
# agentctl completion for bash
_agentctl_paths() {{
  compopt -o filenames 2>/dev/null
  local IFS=$'\\n'
  COMPREPLY+=($(compgen "$1" -- "$current"))
}}
_agentctl() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local place=${{COMP_WORDS[1]}} words commands word
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {_quote(" ".join(VERBS))} -- "$current")); return
  fi
  case $previous in
{values}    --group) COMPREPLY=($(compgen -W "{GROUPS}" -- "$current")); return ;;
    {_bash_flags(*DIRECTORIES)}) _agentctl_paths -d; return ;;
    {_bash_flags(*FILES)}) _agentctl_paths -f; return ;;
    {_bash_flags()}) return ;;
  esac
  case $place in
{_bash_cases("commands", {verb: " ".join(commands(verb)) for verb in VERBS if commands(verb)})}  esac
  for word in "${{COMP_WORDS[@]:2:COMP_CWORD-2}}"; do
    if [[ -n $word && " $commands " == *" $word "* ]]; then place="$place $word"; break; fi
  done
  case $place in
{_bash_cases("words", {place: " ".join(_flags(options(place))) for place in places()})}  esac
  [[ $current == -* ]] || case $place in
{_bash_cases("words", _bash_arguments())}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $current == -* ]] || case $place in
    {"|".join(_quote(place) for place in places() if takes_directory(place))}) _agentctl_paths -d ;;
  esac
}}
complete -F _agentctl agentctl
"""


def _flags(options: list[Option]) -> list[str]:
    return [flag for option in options for flag in option.flags]


def _bash_flags(*metavars: str) -> str:
    """Return all options that take a value, or those with these metavars."""
    every = (option for place in places() for option in options(place) if option.takes_value)
    matching = [option for option in every if not metavars or option.metavar in metavars]
    return "|".join(dict.fromkeys(_flags(matching)))


def _bash_arguments() -> dict[str, str]:
    """Return the words of each place that takes an argument. A directory needs no words."""
    words = {place: argument_words(place) for place in places()}
    return {place: value for place, value in words.items() if value or takes_directory(place)}


def _bash_cases(variable: str, words: dict[str, str]) -> str:
    return "".join(f'    {_quote(place)}) {variable}="{value}" ;;\n' for place, value in words.items())


def _zsh() -> str:
    verbs = "\n".join(f"    {_quote(f'{verb}:{summary}')}" for verb, summary in VERBS.items())
    inner = "".join(
        f"    {verb}) commands=({' '.join(commands(verb))}) ;;\n" for verb in VERBS if commands(verb)
    )
    cases = "\n".join(f"    {_quote(place)}) _arguments {_zsh_place(place)} ;;" for place in places())
    return f"""\
#compdef agentctl
# agentctl completion for zsh
_agentctl() {{
  local -a verbs commands
  verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs; return
  fi
  local place=$words[2]
  shift words; (( CURRENT-- ))
  case $place in
{inner}  esac
  if (( CURRENT > 2 && ${{commands[(Ie)$words[2]]}} )); then
    place="$place $words[2]"
    shift words; (( CURRENT-- ))
  fi
  case $place in
{cases}
  esac
}}
if [ "$funcstack[1]" = _agentctl ]; then _agentctl "$@"; else compdef _agentctl agentctl; fi
"""


def _zsh_place(place: str) -> str:
    specs = [_zsh_option(option) for option in options(place)]
    words = argument_words(place)
    if words:
        values = f"({words})"
        if takes_directory(place):
            # The leading blank stops _arguments from passing options that _alternative does not take.
            values = f' _alternative "words:word:{values}" "places:directory:_files -/"'
        label = "session" if takes_id(place) else place
        specs.append(f"'{'*' if takes_ids(place) else '1'}:{label}:{values}'")
    if takes_directory(place):
        specs.append("'*:directory:_files -/'")
    return " ".join(specs)


def _zsh_option(option: Option) -> str:
    text = option.help.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " ")
    words = _option_words(option)
    if words:
        value = f":value:({words})"
    elif option.metavar in DIRECTORIES:
        value = ":directory:_files -/"
    else:
        value = ":file:_files" if option.metavar in FILES else ":value: "
    return " ".join(f"'{flag}[{text}]{value if option.takes_value else ''}'" for flag in option.flags)


def _option_words(option: Option) -> str:
    """Return the values of an option, or the command that lists them."""
    return GROUPS if option.flags == ("--group",) else " ".join(VALUES.get(option.flags[-1], ()))


FISH_HEAD = """\
# agentctl completion for fish
complete -c agentctl -f
# The verb is the first word; with a command: the command follows somewhere.
function __agentctl_at
    set -l words (commandline -opc)
    test "$words[2]" = $argv[1]; or return 1
    set -q argv[2]; or return 0
    contains -- $argv[2] $words[3..-1]
end
# The verb is the first word, and none of these commands follows yet.
function __agentctl_before
    set -l words (commandline -opc)
    test "$words[2]" = $argv[1]; or return 1
    for command in $argv[2..-1]
        contains -- $command $words[3..-1]; and return 1
    end
    return 0
end
"""


def _fish() -> str:
    lines = []
    for verb, summary in VERBS.items():
        lines.append(f"complete -c agentctl -n __fish_use_subcommand -a {verb} -d {_quote(summary)}")
        before = f"-n '__agentctl_before {' '.join((verb, *commands(verb)))}'"
        for name, text in commands(verb).items():
            lines.append(f"complete -c agentctl {before} -a {name} -d {_quote(text)}")
        lines += _fish_place(before, verb)
        for name in commands(verb):
            lines += _fish_place(f"-n '__agentctl_at {verb} {name}'", f"{verb} {name}")
    return FISH_HEAD + "\n".join(lines) + "\n"


def _fish_place(condition: str, place: str) -> list[str]:
    lines = [_fish_option(condition, option) for option in options(place)]
    words = argument_words(place)
    if words and not (place in VERBS and commands(place)):  # commands are offered with their summaries
        lines.append(f"complete -c agentctl {condition} -a {_fish_words(words)}")
    if takes_directory(place):
        lines.append(f"complete -c agentctl {condition} -a '(__fish_complete_directories)'")
    return lines


def _fish_option(condition: str, option: Option) -> str:
    flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags)
    words = _option_words(option)
    value = " -x" if option.takes_value else ""
    if words:
        value += f" -a {_fish_words(words)}"
    elif option.metavar in DIRECTORIES:
        value += " -a '(__fish_complete_directories)'"
    elif option.metavar in FILES:
        value = " -r -F"
    return f"complete -c agentctl {condition} {flags}{value} -d {_quote(option.help)}"


def _fish_words(words: str) -> str:
    return _quote(words.removeprefix("$"))  # fish writes a command substitution without the dollar


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
