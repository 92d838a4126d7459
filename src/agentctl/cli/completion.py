"""Completion scripts for three shells out of one walk over the parsers."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from agentctl.adapters.registry import BUILT_IN
from agentctl.cli.catalogue import VERBS
from agentctl.cli.parser import find
from agentctl.truth.model import STATUSES

SHELLS = ("bash", "zsh", "fish")
# What an option's value, or a verb's argument, can be.
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
    "lock": ("list", "acquire", "release"),
    "fuse": ("list", "set", "extend", "cancel"),
    "worktree": ("list", "clean"),
    "config": ("init", "path"),
    "webhook": ("list", "retry", "test"),
    "notify": ("list", "test"),
    "daemon": ("status", "start", "stop", "restart", "logs", "install", "uninstall"),
}
# Metavars of options whose value is in the file system.
FILES, DIRECTORIES = ("FILE",), ("DIR", "REPO")
# Answered by us when the shell asks.
IDS = "$(agentctl completion --ids 2>/dev/null)"
ENDED = "$(agentctl completion --ended 2>/dev/null)"
GROUPS = "$(agentctl completion --groups 2>/dev/null)"


class Option(NamedTuple):
    flags: tuple[str, ...]
    takes_value: bool
    help: str
    metavar: str = ""


def options(verb: str) -> list[Option]:
    actions = find(verb).parser()._actions
    return [_option(action) for action in actions if action.option_strings]


def takes_id(verb: str) -> bool:
    return any(action.dest == "id" for action in find(verb).parser()._actions)


def ids(verb: str) -> str:
    """Of whom: only what has ended can be gone on with."""
    return ENDED if verb == "resume" else IDS


def takes_ids(verb: str) -> bool:
    """Several of them."""
    return any(action.dest == "id" and action.nargs == "*" for action in find(verb).parser()._actions)


def takes_group(verb: str) -> bool:
    actions = find(verb).parser()._actions
    return any(action.dest == "group" for action in actions if not action.option_strings)


def takes_directory(verb: str) -> bool:
    actions = find(verb).parser()._actions
    return any(str(action.metavar)[:3] == "DIR" for action in actions if not action.option_strings)


def script(shell: str) -> str:
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _option(action: argparse.Action) -> Option:
    text = (action.help or "").partition(";")[0].partition("(")[0].strip()
    return Option(tuple(action.option_strings), action.nargs != 0, text, str(action.metavar or ""))


def _flags(*metavars: str) -> str:
    """Of all verbs' options with a value: those of such a value, or all."""
    found = {
        flag: None
        for verb in VERBS
        for option in options(verb)
        if option.takes_value and (not metavars or option.metavar in metavars)
        for flag in option.flags
    }
    return "|".join(found)


def _words(verb: str) -> str:
    return " ".join(flag for option in options(verb) for flag in option.flags)


def _bash() -> str:
    cases = "".join(f"    {verb}) words={_quote(_words(verb))} ;;\n" for verb in VERBS)
    values = "".join(
        f'    {flag}) COMPREPLY=($(compgen -W {_quote(" ".join(known))} -- "$current")); return ;;\n'
        for flag, known in VALUES.items()
    )
    fixed = "".join(
        f"    {verb}) words={_quote(' '.join(known))} ;;\n" for verb, known in ARGUMENTS.items()
    )
    named = "".join(f'    {verb}) words="{ids(verb)}" ;;\n' for verb in VERBS if takes_id(verb))
    groups = "|".join(verb for verb in VERBS if takes_group(verb))
    places = "|".join(verb for verb in VERBS if takes_directory(verb))
    return f"""\
# agentctl completion for bash
_agentctl_paths() {{
  compopt -o filenames 2>/dev/null
  local IFS=$'\\n'
  COMPREPLY+=($(compgen "$1" -- "$current"))
}}
_agentctl() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local verb=${{COMP_WORDS[1]}} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {_quote(" ".join(VERBS))} -- "$current")); return
  fi
  case $previous in
{values}    --group) COMPREPLY=($(compgen -W "{GROUPS}" -- "$current")); return ;;
    {_flags(*DIRECTORIES)}) _agentctl_paths -d; return ;;
    {_flags(*FILES)}) _agentctl_paths -f; return ;;
    {_flags()}) return ;;
  esac
  case $verb in
{cases}  esac
  [[ $current == -* ]] || case $verb in
{fixed}{named}    {groups}) words="{GROUPS}" ;;
    unlock) words= ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $current == -* ]] || case $verb in
    {places}) _agentctl_paths -d ;;
  esac
}}
complete -F _agentctl agentctl
"""


def _zsh() -> str:
    verbs = "\n".join(f"    {_quote(f'{verb}:{summary}')}" for verb, summary in VERBS.items())
    cases = []
    for verb in VERBS:
        specs = [_zsh_option(option) for option in options(verb)]
        if takes_id(verb):
            which = "*" if takes_ids(verb) else "1"
            specs.append(f"'{which}:session:({ids(verb)})'")
        elif takes_group(verb):
            specs.append(f"'1:group:({GROUPS})'")
        elif verb in ARGUMENTS:
            specs.append(f"'1:{verb}:{_zsh_words(verb)}'")
        if takes_directory(verb):
            specs.append("'*:directory:_files -/'")
        cases.append(f"    {verb}) _arguments {' '.join(specs)} ;;")
    joined = "\n".join(cases)
    return f"""\
#compdef agentctl
# agentctl completion for zsh
_agentctl() {{
  local -a verbs
  verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs; return
  fi
  local verb=$words[2]
  shift words; (( CURRENT-- ))
  case $verb in
{joined}
  esac
}}
if [ "$funcstack[1]" = _agentctl ]; then _agentctl "$@"; else compdef _agentctl agentctl; fi
"""


def _zsh_words(verb: str) -> str:
    known = f"({' '.join(ARGUMENTS[verb])})"
    if not takes_directory(verb):
        return known
    # with a blank before it, or _arguments hands it options that it does not know
    return f' _alternative "words:word:{known}" "places:directory:_files -/"'


def _zsh_option(option: Option) -> str:
    text = option.help.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " ")
    known = VALUES.get(option.flags[-1])
    value = (
        f":value:({' '.join(known)})"
        if known
        else f":group:({GROUPS})"
        if option.flags == ("--group",)
        else ":directory:_files -/"
        if option.metavar in DIRECTORIES
        else ":file:_files"
        if option.metavar in FILES
        else ":value: "
    )
    return " ".join(f"'{flag}[{text}]{value if option.takes_value else ''}'" for flag in option.flags)


def _fish() -> str:
    lines = ["# agentctl completion for fish", "complete -c agentctl -f"]
    for verb, summary in VERBS.items():
        lines.append(f"complete -c agentctl -n __fish_use_subcommand -a {verb} -d {_quote(summary)}")
        seen = f"-n '__fish_seen_subcommand_from {verb}'"
        lines += [_fish_option(seen, option) for option in options(verb)]
        if takes_id(verb):
            lines.append(f"complete -c agentctl {seen} -a '{ids(verb)[1:]}'")
        elif takes_group(verb):
            lines.append(f"complete -c agentctl {seen} -a '{GROUPS[1:]}'")
        elif verb in ARGUMENTS:
            lines.append(f"complete -c agentctl {seen} -a {_quote(' '.join(ARGUMENTS[verb]))}")
        if takes_directory(verb):
            lines.append(f"complete -c agentctl {seen} -a '(__fish_complete_directories)'")
    return "\n".join(lines) + "\n"


def _fish_option(seen: str, option: Option) -> str:
    flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags)
    known = VALUES.get(option.flags[-1])
    value = " -x" if option.takes_value else ""
    if known:
        value += f" -a {_quote(' '.join(known))}"
    elif option.flags == ("--group",):
        value += f" -a '{GROUPS[1:]}'"
    elif option.metavar in DIRECTORIES:
        value += " -a '(__fish_complete_directories)'"
    elif option.metavar in FILES:
        value = " -r -F"
    return f"complete -c agentctl {seen} {flags}{value} -d {_quote(option.help)}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
