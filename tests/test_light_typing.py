"""Our stand-ins for `typing`, and its named tuples, created faster."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import agentctl
from agentctl.light_typing import Generic, NamedTuple, TypeVar

SOURCE = Path(agentctl.__file__).parent


class Ours(NamedTuple):
    """A row."""

    name: str
    size: int = 1
    tags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name}:{self.size}"

    @classmethod
    def make_empty(cls) -> Ours:
        return cls("")

    @staticmethod
    def double(number: int) -> int:
        return 2 * number

    def __str__(self) -> str:
        return self.label


class Theirs(typing.NamedTuple):
    """A row."""

    name: str
    size: int = 1
    tags: tuple[str, ...] = ()


class Bare(NamedTuple):
    name: str


def test_it_is_a_named_tuple_like_that_of_typing() -> None:
    ours, theirs = Ours("a", tags=("x",)), Theirs("a", tags=("x",))
    assert tuple(ours) == tuple(theirs) == ("a", 1, ("x",))
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__module__"):
        assert getattr(Ours, name) == getattr(Theirs, name), name
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert ours._replace(size=2)._asdict() == {"name": "a", "size": 2, "tags": ("x",)}
    assert Ours._make(["b", 1, ()]) == Ours("b")
    assert Ours.__qualname__ == "Ours"
    assert (Bare.__doc__ or "").startswith("Bare(name")


def test_a_stand_in_takes_what_a_module_gives_to_the_name_in_typing() -> None:
    program = """
import sys
from agentctl.light_typing import Any, Generic, Literal, NamedTuple, NoReturn, Protocol
from agentctl.light_typing import TypeVar, cast, overload
Kind, Word = TypeVar("Kind", bound="str"), Literal["a", "b"] | None
class Shape(Protocol): pass
class Box(Generic[Kind]): pass
overload(print)
print(Box[int].__name__, cast("Word", "a"), "typing" in sys.modules, "collections" in sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "Box a False False\n"


def test_it_has_the_methods_of_its_statement() -> None:
    row = Ours("a", 3)
    assert (row.label, str(row), Ours.make_empty(), Ours.double(4)) == ("a:3", "a:3", ("", 1, ()), 8)


def test_a_missing_or_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="name"):
        Ours()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="weight"):
        Ours("a", weight=1)  # type: ignore[call-arg]


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Ours("a"))) == Ours("a")
    assert type(pickle.loads(pickle.dumps(Ours("a")))) is Ours


def test_every_named_tuple_of_ours_is_created_fast() -> None:
    slow = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"from typing import[^\n(]*(\([^)]*)?\bNamedTuple\b", path.read_text("utf-8"))
    }
    assert slow == {"light_typing.py"}


Kind = TypeVar("Kind")


class Pair(NamedTuple, Generic[Kind]):
    one: Kind
    two: Kind | None = None


def test_a_named_tuple_may_be_generic() -> None:
    assert Pair[int](1) == Pair(one=1) == (1, None)
