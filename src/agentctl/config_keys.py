"""Every setting there is, and what a value of each kind must look like. The reference page and the
file that `config init` writes are made of these tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from agentctl.errors import UsageError
from agentctl.lengths import seconds
from agentctl.truth.look import home

Kind = Literal["text", "program", "path", "length", "words"]
Environ = Mapping[str, str]


class Key(NamedTuple):
    """One setting that a person can make."""

    kind: Kind
    variable: str
    meaning: str
    example: str  # as it stands in the file
    default: Any = None


# The names are not those of the facts that a hook finds in its environment (AGENTCTL_ADAPTER,
# AGENTCTL_CWD …): what a hook launches must not take its launcher's facts for a person's wishes.
KEYS: Mapping[str, Key] = {
    "defaults.adapter": Key(
        "text", "AGENTCTL_DEFAULT_ADAPTER", "the agent to launch where none is named", '"claude-code"'
    ),
    "defaults.model": Key(
        "text",
        "AGENTCTL_DEFAULT_MODEL",
        "its model; for the default adapter only, if there is one",
        '"opus"',
    ),
    "defaults.permission_mode": Key(
        "text",
        "AGENTCTL_DEFAULT_PERMISSION_MODE",
        "what it may do unasked; for the default adapter only, if there is one",
        '"acceptEdits"',
    ),
    "defaults.cwd": Key(
        "path",
        "AGENTCTL_DEFAULT_CWD",
        "where to launch, instead of the current directory",
        '"~/project"',
    ),
    "defaults.name": Key("text", "AGENTCTL_DEFAULT_NAME", "a name for each launch", '"nightly"'),
    "defaults.group": Key("text", "AGENTCTL_DEFAULT_GROUP", "the group each launch joins", '"nightly"'),
    "defaults.timeout": Key(
        "length", "AGENTCTL_DEFAULT_TIMEOUT", "how long a launched agent may take", '"3h"'
    ),
    "defaults.on_create": Key(
        "text",
        "AGENTCTL_DEFAULT_ON_CREATE",
        "a command to run when an agent was launched",
        '"notify-send started"',
    ),
    "defaults.on_complete": Key(
        "text", "AGENTCTL_DEFAULT_ON_COMPLETE", "a command to run when it has ended", '"make test"'
    ),
    "launches.ttl": Key(
        "length",
        "AGENTCTL_LAUNCH_TTL",
        "how long what is known of a launch is kept after its agent's end",
        '"7d"',
        seconds("7d"),
    ),
    "launches.settle": Key(
        "length",
        "AGENTCTL_SETTLE",
        "how long launch stays to see a start that cannot work (no login, no such model), at most",
        '"5s"',
        seconds("5s"),
    ),
    "worktrees.directory": Key(
        "path",
        "AGENTCTL_WORKTREE_DIRECTORY",
        "where git worktrees for launches are made, instead of beside their repository",
        '"~/worktrees"',
    ),
}
# Below [adapters.NAME]; NAME in a variable is upper case, with _ for what is no letter or digit.
ADAPTER_KEYS: Mapping[str, Key] = {
    "binary": Key(
        "program", "AGENTCTL_ADAPTER_{}_BINARY", "its program, by name or path", '"~/bin/claude"'
    ),
    "model": Key("text", "AGENTCTL_ADAPTER_{}_MODEL", "its model", '"opus"'),
    "permission_mode": Key(
        "text", "AGENTCTL_ADAPTER_{}_PERMISSION_MODE", "what it may do unasked", '"acceptEdits"'
    ),
    "args": Key(
        "words", "AGENTCTL_ADAPTER_{}_ARGS", "more words for its command line", '["--verbose"]', ()
    ),
}


def checked(value: object, key: Key, environ: Environ) -> object:
    """The value as the program uses it. Raises UsageError."""
    try:
        return _CHECKS[key.kind](value, environ)
    except ValueError as error:
        raise UsageError(str(error), f"example: {key.example}") from error


def _text(value: object, _: Environ) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text is wanted, in quotes, not {value!r}")  # noqa: TRY004 - one seam above
    if not value.strip() or "\0" in value:
        raise ValueError("empty" if not value.strip() else "a NUL in it")
    return value


def _program(value: object, environ: Environ) -> str:
    text = _text(value, environ)
    if text == "~" or text.startswith("~/"):
        return (home(environ) or "~") + text[1:]
    return text


def _path(value: object, environ: Environ) -> str:
    path = _program(value, environ)
    if not path.startswith("/"):
        raise ValueError(f"a path that begins with / or ~/ is wanted, not {path!r}")
    return path


def _length(value: object, environ: Environ) -> float:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return seconds(str(value) if plain else _text(value, environ))


def _words(value: object, environ: Environ) -> tuple[str, ...]:
    """A list; or one text, which is all that fits a variable, split as a shell would."""
    if isinstance(value, str):
        import shlex

        return tuple(shlex.split(_text(value, environ)))
    if not isinstance(value, list) or not all(
        isinstance(word, str) and "\0" not in word for word in value
    ):
        raise ValueError(f"a list of texts is wanted, not {value!r}")
    return tuple(value)


_CHECKS = {"text": _text, "program": _program, "path": _path, "length": _length, "words": _words}
