"""YAML with lines."""

import subprocess
import sys

import pytest

from agentctl.errors import MissingExtra, UsageError
from agentctl.launch.yaml_file import parse
from tests.running import SOURCES


def test_all_that_is_no_list_and_no_mapping_is_text() -> None:
    top = parse("f", "a: no\nb: 5.10\nc: 2026-11-15\nd: 0x10\ne: ~\nf:\n").pairs("top")
    assert [top[key].text(key) for key in "abcd"] == ["no", "5.10", "2026-11-15", "0x10"]
    assert (top["e"].nothing, top["f"].nothing, top["a"].nothing) == (True, True, False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1", "f:1: "),
        ("a: 1\n\tb: 2", "f:2: "),
        ("a: 1\na: 2", "f:2: 'a' comes twice"),
        ("- a", "f:1: top must be a mapping, not a list"),
        ("x", "f:1: top must be a mapping, not text"),
        ("a: b\n[1]: c", "f:2: a key must be text, not a list"),
        ("a: 1\n---\nb: 2", "f:2: "),
        ("a: *nobody", "f:1: found undefined alias"),
        ('a: "\\x00"', "f:1: a contains a NUL"),
        ("a: \x01", "f: not YAML"),
        ("", "f: empty"),
        ("a: !!python/object/apply:os.system [true]", "f:1: a must be text, not a list"),
        ("a: &x [*x]", "f:1: a must be text, not a list"),
    ],
)
def test_every_mistake_has_its_line(text: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        parse("f", text).pairs("top")["a"].text("a")
    assert str(error.value).startswith(told)


def test_too_deep() -> None:
    with pytest.raises(UsageError):
        parse("f", "[" * 5000).pairs("top")


def test_the_nearest_known_key() -> None:
    top = parse("f", "prompt: x\n\npromt: y\n")
    with pytest.raises(UsageError, match=r"f:3: unknown key 'promt'") as error:
        top.known_pairs("top", ("prompt", "cwd"))
    assert error.value.hint == "did you mean 'prompt'?"


def test_without_the_package() -> None:
    """In an interpreter that has nothing but us."""
    program = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        "from agentctl.launch.yaml_file import parse\n"
        "from agentctl.errors import MissingExtra\n"
        "try: parse('f', 'a: 1')\n"
        "except MissingExtra as error: print(error.exit_code, error, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("69 reading a matrix needs PyYAML pip install 'agentctl[matrix]'")
    assert MissingExtra.exit_code == 69


def test_how_many_are_in_a_list() -> None:
    found = parse("f", "a: [x, y, [z]]\nb: text\nc: {d: e}").pairs("it")
    assert {name: entry.count() for name, entry in found.items()} == {"a": 3, "b": 1, "c": 1}
