"""`config.toml`: read every entry with its line, refuse unknown settings by name, and write a new file
that shows every setting in a comment."""

from __future__ import annotations

import re
import tomllib

from agentctl.config.keys import (
    ADAPTER_KEYS,
    KEYS,
    NOTIFY_EXAMPLES,
    NOTIFY_KEYS,
    WEBHOOK_KEYS,
    Key,
)
from agentctl.errors import Gone, UsageError
from agentctl.light_typing import Any, Iterator, Mapping, NamedTuple, Sequence
from agentctl.system import files

_HEAD = """\
# Settings of agentctl. A flag overrides an environment variable, which overrides this file.
# `agentctl config` shows every value and where it comes from.
"""

Path = tuple[str, ...]  # ("adapters", "pi", "model")
FREE = "*"  # in an allowed path: any name that the user chooses
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]")
_ENTRY = re.compile(r"\s*([\w\-.\"' ]+?)\s*=")


class Entry(NamedTuple):
    value: Any
    line: int | None


def read_entries(file: str, allowed: Sequence[Path]) -> dict[Path, Entry]:
    """Return the entries of the file. Raises UsageError if it is not TOML or has a setting that is not
    allowed, SourceError if it cannot be read."""
    try:
        text = files.read_file(file).data.decode()
    except Gone:
        return {}
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text at byte {error.start}") from error
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{file} is not TOML: {error}",
            "correct it; or agentctl config init --force writes over it",
        ) from error
    lines = _find_lines(text)
    entries = {}
    for path, value in _list_values(document, allowed):
        line = lines.get(path)
        where = f"{file}:{line}" if line else file
        if value == {} and any(other[-2] == FREE and _is_match(path, other[:-1]) for other in allowed):
            raise UsageError(
                f"{where}: [{'.'.join(path)}] is empty", "for an example: agentctl config init"
            )
        if not any(_is_match(path, other) for other in allowed):
            raise _unknown_error(where, path, allowed)
        entries[path] = Entry(value, line)
    return entries


def _is_match(path: Path, allowed: Path) -> bool:
    return len(path) == len(allowed) and all(b in (a, FREE) for a, b in zip(path, allowed, strict=True))


def _list_values(
    table: Mapping[str, Any], allowed: Sequence[Path], above: Path = ()
) -> Iterator[tuple[Path, Any]]:
    """Yield the values with their paths. A table counts as a value where a value belongs, and so does an
    empty table with an unknown name: a misspelt heading is an error even with nothing below it."""
    for name, value in table.items():
        path = (*above, name)
        below = [
            other for other in allowed if len(other) > len(path) and _is_match(path, other[: len(path)])
        ]
        is_free_name = any(other[len(path) - 1] == FREE for other in below)
        is_leaf = not value if is_free_name else any(_is_match(path, other) for other in allowed)
        if isinstance(value, dict) and not is_leaf and (below or value):
            yield from _list_values(value, allowed, path)
        else:
            yield path, value


def _find_lines(text: str) -> dict[Path, int]:
    """Return the line of each entry, as far as regular expressions can find it."""
    lines: dict[Path, int] = {}
    section: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if header:
            section = _split_path(header[1])
            lines.setdefault(section, number)
        elif entry:
            lines.setdefault((*section, *_split_path(entry[1])), number)
    return lines


def _split_path(dotted: str) -> Path:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _unknown_error(where: str, path: Path, allowed: Sequence[Path]) -> UsageError:
    from difflib import get_close_matches

    names = [".".join(_fill_name(other, path)) for other in allowed]
    same_ending = [name for name in names if name.endswith(f".{path[-1]}")]
    near = get_close_matches(".".join(path), names, 1, 0.5) or same_ending
    hint = f"did you mean {near[0]}?" if near else "list all settings: agentctl config"
    return UsageError(f"{where}: no setting {'.'.join(path)!r}", hint)


def _fill_name(allowed: Path, path: Path) -> Path:
    """Return the allowed path with the name that the user chose in place of FREE."""
    return tuple(
        (path[i] if i < len(path) - 1 else "NAME") if part == FREE else part
        for i, part in enumerate(allowed)
    )


def make_template(adapters: Sequence[str]) -> str:
    """Return the text of a new file. It sets nothing: each setting is a comment with an example."""
    parts, section = [_HEAD], ""
    for name, key in KEYS.items():
        where, _, word = name.partition(".")
        if where != section:
            section = where
            parts.append(f"\n[{section}]\n")
        parts.append(_comment_line(word, key))
    names = ", ".join(adapters)
    parts.append(f"\n# For one agent ({names}); overrides [defaults]:\n# [adapters.{adapters[0]}]\n")
    parts += [_comment_line(word, key) for word, key in ADAPTER_KEYS.items()]
    parts.append(
        "\n# Webhooks receive events over HTTP, as many as you like, under any name:\n# [webhooks.ci]\n"
    )
    parts += [_comment_line(word, key) for word, key in WEBHOOK_KEYS.items()]
    parts.append("\n# Notifications for you: each target is a desktop, an address or a command.\n")
    for name, words in NOTIFY_EXAMPLES.items():
        parts.append(f"# [notify.{name}]\n")
        parts += [_comment_line(word, NOTIFY_KEYS[word]) for word in words]
    return "".join(parts)


def _comment_line(word: str, key: Key[Any]) -> str:
    return f"# {word} = {key.example}  # {key.meaning}\n"
