"""A YAML file in which every word has a line. Nothing is made of it by the library but a tree of
nodes: no object, no date, no `no` that is false, no version 5.10 that is 5.1. Here, what is not a list
or a mapping is text, and who reads it says what it must be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from agentctl.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from yaml import Node

T = TypeVar("T")
SIZE = 1 << 20  # bytes: of a list of what to launch; more is a mistake


class Entry:
    """A node and where it is."""

    def __init__(self, file: str, node: Node) -> None:
        self._file = file
        self._node = node
        self.line: int = node.start_mark.line + 1

    def wrong(self, what: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._file}:{self.line}: {what}", hint)

    @property
    def nothing(self) -> bool:
        """A key without a value, or `null`."""
        return self._node.tag == "tag:yaml.org,2002:null"

    def text(self, what: str) -> str:
        from yaml import ScalarNode

        if not isinstance(self._node, ScalarNode) or self.nothing:
            raise self.wrong(f"{what} must be text, not {self._kind()}")
        if "\0" in self._node.value:
            raise self.wrong(f"{what} contains a NUL character")
        return str(self._node.value)

    def items(self, what: str) -> list[Entry]:
        from yaml import SequenceNode

        if not isinstance(self._node, SequenceNode):
            raise self.wrong(f"{what} must be a list, not {self._kind()}")
        return [Entry(self._file, node) for node in self._node.value]

    def count(self) -> int:
        """How many are in a list; of anything else 1."""
        from yaml import SequenceNode

        return len(self._node.value) if isinstance(self._node, SequenceNode) else 1

    def texts(self, what: str) -> tuple[str, ...]:
        return tuple(item.text(f"each of {what}") for item in self.items(what))

    def pairs(self, what: str) -> dict[str, Entry]:
        """Of a mapping, in its order; a key that comes twice is refused."""
        from yaml import MappingNode

        if not isinstance(self._node, MappingNode):
            raise self.wrong(f"{what} must be a mapping, not {self._kind()}")
        found: dict[str, Entry] = {}
        for key_node, value_node in self._node.value:
            key = Entry(self._file, key_node)
            name = key.text("a key")
            if name in found:
                raise key.wrong(f"{name!r} comes twice", f"first on line {found[name].line}")
            found[name] = Entry(self._file, value_node)
            found[name].line = key.line
        return found

    def known_pairs(self, what: str, known: Sequence[str]) -> dict[str, Entry]:
        """The same, where only these keys make sense. A key without a value is as good as absent."""
        found = self.pairs(what)
        for name, entry in found.items():
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise entry.wrong(f"unknown key {name!r}", hint)
        return {name: entry for name, entry in found.items() if not entry.nothing}

    def texts_by_name(self, what: str) -> tuple[tuple[str, str], ...]:
        return tuple((name, entry.text(f"{what} {name}")) for name, entry in self.pairs(what).items())

    def checked(self, read: Callable[[str], T], what: str) -> T:
        """A text that another part of the program understands, or refuses with its own words."""
        try:
            return read(self.text(what))
        except UsageError as error:
            raise self.wrong(f"{what}: {error}", error.hint) from error

    def _kind(self) -> str:
        from yaml import MappingNode, SequenceNode

        if isinstance(self._node, MappingNode):
            return "a mapping"
        if isinstance(self._node, SequenceNode):
            return "a list"
        return "nothing" if self.nothing else "text"


def parse(file: str, text: str) -> Entry:
    """Raises UsageError for what is not YAML, MissingExtra where nobody can tell."""
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
        where = f"{file}:{mark.line + 1}" if mark is not None else file
        raise UsageError(f"{where}: {_plainly(error.problem or str(error))}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{file}: not YAML: {error}") from error
    if node is None:
        raise UsageError(f"{file}: empty")
    return Entry(file, node)


def _plainly(problem: str) -> str:
    return re.sub(r"\s+", " ", problem)
