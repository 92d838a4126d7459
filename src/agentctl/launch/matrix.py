"""A matrix file: a prompt, and the agents and models to start with it.

    prompt: Make the tests pass.
    cwd: ~/project
    on_complete: make test
    matrix:
      - adapter: claude-code
        models: [opus, sonnet]
      - adapter: codex
        branch: try/{slot}

Paths in the file are relative to it. Every error names its line. The YAML library only builds a tree of
nodes: a scalar is text here, so `no` is not false and version 5.10 is not 5.1.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches

from agentctl.durations import parse_duration
from agentctl.errors import MissingExtra, SourceError, UsageError
from agentctl.launch.slots import MOST, Slot, fill_template
from agentctl.launch.spec import LaunchSpec
from agentctl.light_typing import TYPE_CHECKING, Callable, Mapping, Sequence, TypeVar
from agentctl.system import files

if TYPE_CHECKING:
    from yaml import Node

T = TypeVar("T")
SIZE = 1 << 20  # bytes of a file; a larger one is a mistake
TEXTS = ("prompt", "name", "group", "on_create", "on_complete", "permission_mode", "base_branch")
PATHS = ("prompt_file", "cwd", "spec")
KEYS = (*TEXTS, *PATHS, "branch", "timeout", "env", "meta", "files", "matrix")
ENTRY_TEXTS = ("adapter", "model", "name", "prompt", "permission_mode")
ENTRY_KEYS = (*ENTRY_TEXTS, "models", "prompt_file", "branch", "args", "env")


def read_matrix(path: str) -> LaunchSpec:
    """Return what the file sets. Raises UsageError with the line, SourceError, MissingExtra."""
    top = parse_yaml(path, _read_text(path))
    entries = top.known_pairs("a matrix file", KEYS)
    directory = os.path.dirname(os.path.abspath(path))
    if "matrix" not in entries:
        raise top.error("no `matrix`", "it is the list of agents to launch")
    _exclude(entries, "prompt", "prompt_file")
    texts: dict[str, str] = {key: entries[key].text(key) for key in TEXTS if key in entries}
    texts |= {key: _join(directory, entries[key].text(key)) for key in PATHS if key in entries}
    return LaunchSpec(
        slots=_read_slots(entries["matrix"], directory),
        branch=_read_branch(entries),
        timeout=entries["timeout"].convert(parse_duration, "timeout") if "timeout" in entries else None,
        env=_read_env(entries),
        meta=entries["meta"].texts_by_name("meta") if "meta" in entries else (),
        files=tuple(_join(directory, name) for name in entries["files"].texts("files"))
        if "files" in entries
        else (),
        **texts,  # type: ignore[arg-type]
    )


def _exclude(entries: Mapping[str, Entry], first: str, second: str) -> None:
    if first in entries and second in entries:
        raise entries[second].error(f"both {first} and {second}", "give one of them")


def _read_slots(matrix: Entry, directory: str) -> tuple[Slot, ...]:
    items = matrix.items("matrix")
    if not items:
        raise matrix.error("matrix is empty", "name at least one adapter")
    slots: list[Slot] = []
    for item in items:
        # Count before reading: with aliases, a small file can name millions.
        if len(slots) + _count_slots(item) > MOST:
            raise item.error(
                f"more than {MOST} slots", "each entry makes one slot per model; split the file"
            )
        slots += _read_entry(item, directory)
    return tuple(slots)


def _count_slots(item: Entry) -> int:
    models = item.pairs("an entry of matrix").get("models")
    return models.count() if models is not None else 1


def _read_entry(item: Entry, directory: str) -> list[Slot]:
    """Return one slot for each model of the entry."""
    entries = item.known_pairs("an entry of matrix", ENTRY_KEYS)
    if "adapter" not in entries:
        raise item.error("an entry of matrix without `adapter`", "example: {adapter: codex}")
    _exclude(entries, "model", "models")
    _exclude(entries, "prompt", "prompt_file")
    texts: dict[str, str] = {key: entries[key].text(key) for key in ENTRY_TEXTS if key in entries}
    if "prompt_file" in entries:
        texts["prompt"] = _read_prompt(entries["prompt_file"], directory)
    models = _read_models(entries)
    slot = Slot(
        **texts,
        branch=_read_branch(entries),
        args=entries["args"].texts("args") if "args" in entries else (),
        env=_read_env(entries),
    )
    if models is None:
        return [slot]
    name = slot.name
    return [
        slot._replace(model=model, name=f"{name}-{model}" if name and len(models) > 1 else name)
        for model in models
    ]


def _read_models(entries: Mapping[str, Entry]) -> tuple[str, ...] | None:
    if "models" not in entries:
        return None
    models = entries["models"].texts("models")
    if not models:
        raise entries["models"].error("models is empty", "leave it out for the agent's own default")
    return models


def _read_branch(entries: Mapping[str, Entry]) -> str | None:
    if "branch" not in entries:
        return None
    entries["branch"].convert(
        lambda text: fill_template(text, Slot(), "x"), "branch"
    )  # raises for an unknown field
    return entries["branch"].text("branch")


def _read_env(entries: Mapping[str, Entry]) -> tuple[tuple[str, str], ...]:
    if "env" not in entries:
        return ()
    for name, entry in entries["env"].pairs("env").items():
        if not name or "=" in name:
            raise entry.error(f"not a name for a variable: {name!r}")
    return entries["env"].texts_by_name("env")


def _read_prompt(entry: Entry, directory: str) -> str:
    try:
        return _read_text(_join(directory, entry.text("prompt_file")))
    except SourceError as error:
        raise entry.error(f"prompt_file: {error}") from error


def _join(directory: str, path: str) -> str:
    return os.path.normpath(os.path.join(directory, os.path.expanduser(path)))


def _read_text(path: str) -> str:
    """Return the file's text. Raises SourceError, UsageError."""
    raw = files.read_file(path, SIZE).data
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error


class Entry:
    """One node of a YAML file, and its line. `what` names the node in errors."""

    def __init__(self, file: str, node: Node) -> None:
        self._file = file
        self._node = node
        self.line: int = node.start_mark.line + 1

    def error(self, message: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._file}:{self.line}: {message}", hint)

    @property
    def is_null(self) -> bool:
        """True for a key without a value, and for `null`."""
        return self._node.tag == "tag:yaml.org,2002:null"

    def text(self, what: str) -> str:
        from yaml import ScalarNode

        if not isinstance(self._node, ScalarNode) or self.is_null:
            raise self.error(f"{what} must be text, not {self._kind()}")
        if "\0" in self._node.value:
            raise self.error(f"{what} contains a NUL character")
        return str(self._node.value)

    def items(self, what: str) -> list[Entry]:
        from yaml import SequenceNode

        if not isinstance(self._node, SequenceNode):
            raise self.error(f"{what} must be a list, not {self._kind()}")
        return [Entry(self._file, node) for node in self._node.value]

    def count(self) -> int:
        """Return the length of a list; 1 for any other node."""
        from yaml import SequenceNode

        return len(self._node.value) if isinstance(self._node, SequenceNode) else 1

    def texts(self, what: str) -> tuple[str, ...]:
        return tuple(item.text(f"each of {what}") for item in self.items(what))

    def pairs(self, what: str) -> dict[str, Entry]:
        """Return the entries of a mapping, in order. Raises UsageError for a repeated key."""
        from yaml import MappingNode

        if not isinstance(self._node, MappingNode):
            raise self.error(f"{what} must be a mapping, not {self._kind()}")
        entries: dict[str, Entry] = {}
        for key_node, value_node in self._node.value:
            key = Entry(self._file, key_node)
            name = key.text("a key")
            if name in entries:
                raise key.error(f"{name!r} is repeated", f"first on line {entries[name].line}")
            entries[name] = Entry(self._file, value_node)
            entries[name].line = key.line
        return entries

    def known_pairs(self, what: str, keys: Sequence[str]) -> dict[str, Entry]:
        """Return the entries of a mapping that have a value. Raises UsageError for another key."""
        entries = self.pairs(what)
        for name, entry in entries.items():
            if name not in keys:
                near = get_close_matches(name, keys, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(keys)}"
                raise entry.error(f"unknown key {name!r}", hint)
        return {name: entry for name, entry in entries.items() if not entry.is_null}

    def texts_by_name(self, what: str) -> tuple[tuple[str, str], ...]:
        return tuple((name, entry.text(f"{what} {name}")) for name, entry in self.pairs(what).items())

    def convert(self, read: Callable[[str], T], what: str) -> T:
        """Return what `read` makes of the text. Adds the line to its UsageError."""
        try:
            return read(self.text(what))
        except UsageError as error:
            raise self.error(f"{what}: {error}", error.hint) from error

    def _kind(self) -> str:
        from yaml import MappingNode, SequenceNode

        if isinstance(self._node, MappingNode):
            return "a mapping"
        if isinstance(self._node, SequenceNode):
            return "a list"
        return "nothing" if self.is_null else "text"


def parse_yaml(file: str, text: str) -> Entry:
    """Return the top node. Raises UsageError for invalid YAML, MissingExtra without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra(
            "reading a matrix needs PyYAML", "pip install 'agentctl[matrix]', or name pairs: --adapter A"
        ) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{file}:{mark.line + 1}" if mark is not None else file
        problem = re.sub(r"\s+", " ", error.problem or str(error))
        raise UsageError(f"{place}: {problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{file}: not YAML: {error}") from error
    if node is None:
        raise UsageError(f"{file}: empty")
    return Entry(file, node)
