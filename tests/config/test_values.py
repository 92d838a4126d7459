"""Values of each kind: what is converted, and what is refused."""

from typing import Any

import pytest

from agentctl.config.keys import Key, Kind
from agentctl.config.values import check_value
from agentctl.errors import UsageError

HOME = {"HOME": "/home/me"}


def _key(kind: Kind, **more: Any) -> Key[Any]:
    return Key(kind, "V", "meaning", "example", **more)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
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
        ("size", "256M", 256 << 20),
        ("size", "2GB", 2 << 30),
        ("size", "2048k", 2 << 20),
        ("size", 1 << 20, 1 << 20),
        ("words", ["-a", "b c", ""], ("-a", "b c", "")),
        ("words", "-a 'b c'", ("-a", "b c")),
        ("words", [], ()),
        ("number", 7, 7),
        ("number", "9200", 9200),
        ("flag", True, True),
        ("flag", "0", False),
        ("flag", "Yes", True),
        ("url", "https://example.org", "https://example.org"),
        ("events", ["session.*", "fuse.fired"], ("session.*", "fuse.fired")),
        ("events", ["user.Deploy 7"], ("user.Deploy 7",)),
    ],
)
def test_a_value_is_converted(kind: Kind, raw: object, value: object) -> None:
    assert check_value(raw, _key(kind), HOME) == value


@pytest.mark.parametrize(
    ("kind", "raw", "why"),
    [
        ("text", "", "empty"),
        ("text", "  ", "empty"),
        ("text", 7, "in quotes"),
        ("text", ["a"], "in quotes"),
        ("text", "a\0b", "NUL"),
        ("path", "x", "begins with / or ~/"),
        ("path", "~you/x", "begins with / or ~/"),
        ("length", True, "in quotes"),
        ("length", -1, "not a duration"),
        ("length", "soon", "not a duration"),
        ("length", float("nan"), "not a duration"),
        ("size", "lots", "a size of at least 1M"),
        ("size", "1K", "a size of at least 1M"),
        ("size", True, "in quotes"),
        ("size", "9" * 30 + "G", "a size of at least 1M"),
        ("size", -5, "a size of at least 1M"),
        ("words", ["a", 1], "a list of texts"),
        ("words", "'a", "No closing quotation"),
        ("words", ["\0"], "a list of texts"),
        ("number", True, "must be a whole number, not True"),
        ("number", 1.5, "a whole number"),
        ("number", "-1", "a whole number"),
        ("number", 2**31 + 1, "from 0 to"),
        ("flag", 1, "true or false"),
        ("flag", "maybe", "true or false"),
        ("url", "ftp://example.org", "https:// or http://"),
        ("url", "https://", "has a host"),
        ("url", "https://example.org/a b", "no blanks"),
        ("url", 7, "in quotes"),
        ("events", [], "at least one event"),
        ("events", ["session.wait"], "did you mean session.waiting"),
        ("events", ["nothing.*"], "matches no event$"),
        ("text", "caf\udce9", "not UTF-8 text"),
        ("events", ["webhook.*"], "matches no event"),
        ("events", ["session.[w]*"], "matches no event"),
    ],
)
def test_a_wrong_value_is_refused(kind: Kind, raw: object, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        check_value(raw, _key(kind), HOME)
    assert caught.value.hint.startswith("example")


def test_only_the_choices_are_values() -> None:
    few = _key("words", choices=("waiting", "failed"))
    assert check_value(["failed"], few, HOME) == ("failed",)
    with pytest.raises(UsageError, match="'done' is not one of waiting, failed"):
        check_value(["done"], few, HOME)
    with pytest.raises(UsageError, match="'x' is not one of"):
        check_value("x", _key("text", choices=("a",)), HOME)


def test_a_number_within_bounds() -> None:
    port = _key("number", between=(0, 65535))
    assert check_value(65535, port, HOME) == 65535
    with pytest.raises(UsageError, match="from 0 to 65535, not 65536"):
        check_value(65536, port, HOME)


@pytest.mark.parametrize("raw", [12345, ["12345"], "12345\0"])
def test_a_secret_is_not_repeated(raw: object) -> None:
    with pytest.raises(UsageError) as caught:
        check_value(raw, _key("text", secret=True), HOME)
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["ftp://me:12345@example.org", "https://me:12345@", "http://me:12345@h:x/"]
)
def test_an_invalid_url_is_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_value(url, _key("url"), HOME)
    assert "12345" not in str(caught.value)


def test_a_path_and_a_secret_may_hold_any_bytes() -> None:
    assert check_value("/caf\udce9", _key("path"), HOME) == "/caf\udce9"
    assert check_value("caf\udce9", _key("text", secret=True), HOME) == "caf\udce9"
