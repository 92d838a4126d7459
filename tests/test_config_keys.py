"""What a value of each kind must look like."""

import tomllib

import pytest

from agentctl.config_keys import ADAPTER_KEYS, KEYS, Key, Kind, checked
from agentctl.errors import UsageError

HOME = {"HOME": "/home/me"}


def _key(kind: Kind) -> Key:
    return Key(kind, "V", "meaning", "example")


@pytest.mark.parametrize(
    ("kind", "given", "meant"),
    [
        ("text", "a b", "a b"),
        ("program", "claude", "claude"),
        ("program", "~/bin/claude", "/home/me/bin/claude"),
        ("path", "~/x", "/home/me/x"),
        ("path", "~", "/home/me"),
        ("path", "/x", "/x"),
        ("length", "3h", 10800.0),
        ("length", 90, 90.0),
        ("length", 1.5, 1.5),
        ("words", ["-a", "b c", ""], ("-a", "b c", "")),
        ("words", "-a 'b c'", ("-a", "b c")),
        ("words", [], ()),
    ],
)
def test_values(kind: Kind, given: object, meant: object) -> None:
    assert checked(given, _key(kind), HOME) == meant


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        ("text", "", "empty"),
        ("text", "  ", "empty"),
        ("text", 7, "in quotes"),
        ("text", ["a"], "in quotes"),
        ("text", "a\0b", "NUL"),
        ("path", "x", "begins with / or ~/"),
        ("path", "~you/x", "begins with / or ~/"),
        ("length", True, "in quotes"),
        ("length", -1, "not a length of time"),
        ("length", "soon", "not a length of time"),
        ("length", float("nan"), "not a length of time"),
        ("words", ["a", 1], "a list of texts"),
        ("words", "'a", "No closing quotation"),
        ("words", ["\0"], "a list of texts"),
    ],
)
def test_not_values(kind: Kind, given: object, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        checked(given, _key(kind), HOME)
    assert caught.value.hint.startswith("example")


@pytest.mark.parametrize("key", [*KEYS.values(), *ADAPTER_KEYS.values()], ids=lambda key: key.variable)
def test_every_example_is_one(key: Key) -> None:
    checked(tomllib.loads(f"x = {key.example}")["x"], key, HOME)
