"""`config.toml`: every entry with its line, a word that nobody knows refused by name; and a fresh one,
with all there is to set in comments."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentctl.config.keys import (
    ADAPTER_KEYS,
    KEYS,
    NOTIFY_EXAMPLES,
    NOTIFY_KEYS,
    WEBHOOK_KEYS,
)
from agentctl.config.values import Key
from agentctl.errors import Gone, UsageError
from agentctl.system import files

_HEAD = """\
# Settings of agentctl. A flag of the call is stronger than an environment variable, and that is
# stronger than this file. `agentctl config` shows what holds, and where it comes from.
"""

Path = tuple[
    str, ...
]  # ("adapters", "pi", "model"); among the known, FREE is a name that a person chose
FREE = "*"
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]")
_ENTRY = re.compile(r"\s*([\w\-.\"' ]+?)\s*=")


class Entry(NamedTuple):
    value: Any
    line: int | None


def entries(file: str, known: Sequence[Path]) -> dict[Path, Entry]:
    """Raises UsageError where it is not TOML or says what is not `known`, SourceError where it cannot
    be read."""
    try:
        text = files.whole(file).data.decode()
    except Gone:
        return {}
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text at byte {error.start}") from error
    try:
        told = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{file} is not TOML: {error}",
            "correct it; or agentctl config init --force writes over it",
        ) from error
    lines = _lines(text)
    found = {}
    for path, value in _leaves(told, known):
        line = lines.get(path)
        where = f"{file}:{line}" if line else file
        if value == {} and any(other[-2] == FREE and _fits(path, other[:-1]) for other in known):
            raise UsageError(
                f"{where}: [{'.'.join(path)}] says nothing", "agentctl config init shows how"
            )
        if not any(_fits(path, other) for other in known):
            raise _unknown(where, path, known)
        found[path] = Entry(value, line)
    return found


def _fits(path: Path, known: Path) -> bool:
    return len(path) == len(known) and all(b in (a, FREE) for a, b in zip(path, known, strict=True))


def _leaves(
    table: Mapping[str, Any], known: Sequence[Path], above: Path = ()
) -> Iterator[tuple[Path, Any]]:
    """Values with their paths. A table where there should be none counts as a value, and so does an
    empty one that nobody knows: a misspelt heading is told even while nothing stands below it."""
    for name, value in table.items():
        path = (*above, name)
        below = [other for other in known if len(other) > len(path) and _fits(path, other[: len(path)])]
        named = any(other[len(path) - 1] == FREE for other in below)
        leaf = not value if named else any(_fits(path, other) for other in known)
        if isinstance(value, dict) and not leaf and (below or value):
            yield from _leaves(value, known, path)
        else:
            yield path, value


def _lines(text: str) -> dict[Path, int]:
    """Where each entry stands, as far as that can be told without a parser of our own."""
    found: dict[Path, int] = {}
    section: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if header:
            section = _parts(header[1])
            found.setdefault(section, number)
        elif entry:
            found.setdefault((*section, *_parts(entry[1])), number)
    return found


def _parts(dotted: str) -> Path:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _unknown(where: str, path: Path, known: Sequence[Path]) -> UsageError:
    from difflib import get_close_matches

    names = [".".join(_named(other, path)) for other in known]
    same = [name for name in names if name.endswith(f".{path[-1]}")]
    near = get_close_matches(".".join(path), names, 1, 0.5) or same
    hint = f"did you mean {near[0]}?" if near else "agentctl config shows every one that there is"
    return UsageError(f"{where}: no setting {'.'.join(path)!r}", hint)


def _named(known: Path, path: Path) -> Path:
    """With the name that the person chose."""
    return tuple(
        (path[i] if i < len(path) - 1 else "NAME") if part == FREE else part
        for i, part in enumerate(known)
    )


def template(adapters: Sequence[str]) -> str:
    """Says nothing yet: every setting is a comment that shows how it is made."""
    parts, section = [_HEAD], ""
    for name, key in KEYS.items():
        where, _, word = name.partition(".")
        if where != section:
            section = where
            parts.append(f"\n[{section}]\n")
        parts.append(_commented(word, key))
    known = ", ".join(adapters)
    parts.append(f"\n# For one agent ({known}), stronger than [defaults]:\n# [adapters.{adapters[0]}]\n")
    parts += [_commented(word, key) for word, key in ADAPTER_KEYS.items()]
    parts.append("\n# Told of events over HTTP, as many as you like, under any name:\n# [webhooks.ci]\n")
    parts += [_commented(word, key) for word, key in WEBHOOK_KEYS.items()]
    parts.append("\n# Notifications for you: each target is a desktop, an address or a command.\n")
    for name, of in NOTIFY_EXAMPLES.items():
        parts.append(f"# [notify.{name}]\n")
        parts += [_commented(word, NOTIFY_KEYS[word]) for word in of]
    return "".join(parts)


def _commented(word: str, key: Key) -> str:
    return f"# {word} = {key.example}  # {key.meaning}\n"
