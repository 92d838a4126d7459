"""Matrix files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.errors import Gone, Malformed, MissingExtra, UsageError
from agentctl.launch.matrix import SIZE, parse_yaml, read_matrix
from agentctl.launch.slots import Slot
from agentctl.launch.spec import LaunchSpec
from tests.running import SOURCES

WHOLE = """\
prompt: |
  Make the tests pass.
  All of them.
cwd: project
spec: spec.md
name: nightly
group: fix
on_create: echo hi
on_complete: make test
timeout: 2h
permission_mode: acceptEdits
base_branch: main
branch: try/{slot}
env: {CI: true}
meta:
  ticket: 0042
files: [a.txt, /b.txt]
matrix:
  - adapter: claude-code
    models: [opus, sonnet]
    name: claude
    args: [--max-turns, 5]
  - adapter: codex
    model: gpt-5.10
    branch: codex/{group}
    prompt: Make only one pass.
    permission_mode: full-auto
    env: {A: b}
  - adapter: pi
"""


def _write(tmp_path: Path, text: str) -> str:
    (tmp_path / "m.yaml").write_text(text)
    return str(tmp_path / "m.yaml")


def test_every_key_is_read(tmp_path: Path) -> None:
    plan = read_matrix(_write(tmp_path, WHOLE))
    claude = Slot("claude-code", None, "claude", args=("--max-turns", "5"))
    assert plan == LaunchSpec(
        (
            claude._replace(model="opus", name="claude-opus"),
            claude._replace(model="sonnet", name="claude-sonnet"),
            Slot(
                "codex",
                "gpt-5.10",
                branch="codex/{group}",
                prompt="Make only one pass.",
                permission_mode="full-auto",
                env=(("A", "b"),),
            ),
            Slot("pi"),
        ),
        prompt="Make the tests pass.\nAll of them.\n",
        cwd=f"{tmp_path}/project",
        spec=f"{tmp_path}/spec.md",
        name="nightly",
        group="fix",
        on_create="echo hi",
        on_complete="make test",
        timeout=7200.0,
        permission_mode="acceptEdits",
        base_branch="main",
        branch="try/{slot}",
        env=(("CI", "true"),),
        meta=(("ticket", "0042"),),
        files=(f"{tmp_path}/a.txt", "/b.txt"),
    )


def test_the_smallest_matrix(tmp_path: Path) -> None:
    assert read_matrix(_write(tmp_path, "matrix: [{adapter: pi}]")) == LaunchSpec((Slot("pi"),))


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "m.yaml").write_text("prompt_file: ../p.md\ncwd: ~/x\nmatrix: [{adapter: pi}]")
    monkeypatch.chdir(tmp_path)
    plan = read_matrix("sub/m.yaml")
    assert (plan.prompt_file, plan.cwd) == (f"{tmp_path}/p.md", os.path.expanduser("~/x"))


def test_a_slot_s_prompt_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("from a file")
    path = _write(tmp_path, "matrix:\n  - adapter: pi\n    prompt_file: p.md\n")
    assert read_matrix(path).slots[0].prompt == "from a file"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("prompt: x", 1, "no `matrix`"),
        ("prompt: x\nmatrx: []", 2, "unknown key 'matrx'"),
        ("matrix: []", 1, "matrix is empty"),
        ("matrix: pi", 1, "matrix must be a list, not text"),
        ("matrix:\n  - pi", 2, "an entry of matrix must be a mapping, not text"),
        ("matrix:\n  - model: x", 2, "an entry of matrix without `adapter`"),
        ("matrix:\n  - adapter: pi\n    modell: x", 3, "unknown key 'modell'"),
        ("matrix:\n  - adapter: pi\n    model: [x]", 3, "model must be text, not a list"),
        ("matrix:\n  - adapter: pi\n    models: x", 3, "models must be a list, not text"),
        ("matrix:\n  - adapter: pi\n    models: []", 3, "models is empty"),
        ("matrix:\n  - adapter: pi\n    models:\n    - {a: b}", 4, "each of models must be text"),
        ("matrix:\n  - adapter: pi\n    model: x\n    models: [y]", 4, "both model and models"),
        ("matrix:\n  - adapter: pi\n    adapter: pi", 3, "'adapter' is repeated"),
        ("matrix:\n  - adapter: pi\n    branch: x/{y}", 3, "branch: branch 'x/{y}': no field {y}"),
        ("matrix:\n  - adapter: pi\n    prompt_file: nowhere", 3, "prompt_file: "),
        ("prompt: x\nprompt_file: y\nmatrix: [{adapter: pi}]", 2, "both prompt and prompt_file"),
        ("timeout: soon\nmatrix: [{adapter: pi}]", 1, "timeout: "),
        ("env:\n  A=B: c\nmatrix: [{adapter: pi}]", 2, "not a name for a variable: 'A=B'"),
        ("env: [A]\nmatrix: [{adapter: pi}]", 1, "env must be a mapping, not a list"),
        ("files: a\nmatrix: [{adapter: pi}]", 1, "files must be a list, not text"),
        ("meta:\n  a:\n    b: c\nmatrix: [{adapter: pi}]", 2, "meta a must be text, not a mapping"),
    ],
)
def test_every_mistake_is_reported_with_its_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(UsageError) as error:
        read_matrix(path)
    assert str(error.value).startswith(f"{path}:{line}: {message}")


def test_files_that_are_no_matrix(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        read_matrix(str(tmp_path / "nowhere.yaml"))
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (SIZE + 1))
    with pytest.raises(Malformed, match="more than"):
        read_matrix(str(big))
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(UsageError, match=r"latin\.yaml:2: not UTF-8"):
        read_matrix(str(tmp_path / "latin.yaml"))


def test_a_small_file_that_names_many_slots_is_refused(tmp_path: Path) -> None:
    """An alias is two letters, and as many models as you like."""
    models = ", ".join(f"m{number}" for number in range(60))
    entries = "\n".join(["  - *e"] * 5000)
    text = f"prompt: x\nmatrix:\n  - &e {{adapter: demo, models: [{models}]}}\n{entries}\n"
    with pytest.raises(UsageError, match="more than 100 slots") as caught:
        read_matrix(_write(tmp_path, text))
    assert ":3: " in str(caught.value)  # the line of the entry that the aliases repeat


def test_a_hundred_slots_are_accepted(tmp_path: Path) -> None:
    models = ", ".join(f"m{number}" for number in range(100))
    text = f"prompt: x\nmatrix:\n  - {{adapter: demo, models: [{models}]}}\n"
    assert len(read_matrix(_write(tmp_path, text)).slots) == 100


# YAML with lines


def test_every_scalar_is_text() -> None:
    top = parse_yaml("f", "a: no\nb: 5.10\nc: 2026-11-15\nd: 0x10\ne: ~\nf:\n").pairs("top")
    assert [top[key].text(key) for key in "abcd"] == ["no", "5.10", "2026-11-15", "0x10"]
    assert (top["e"].is_null, top["f"].is_null, top["a"].is_null) == (True, True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "f:1: "),
        ("a: 1\n\tb: 2", "f:2: "),
        ("a: 1\na: 2", "f:2: 'a' is repeated"),
        ("- a", "f:1: top must be a mapping, not a list"),
        ("x", "f:1: top must be a mapping, not text"),
        ("a: b\n[1]: c", "f:2: a key must be text, not a list"),
        ("a: 1\n---\nb: 2", "f:2: "),
        ("a: *missing", "f:1: found undefined alias"),
        ('a: "\\x00"', "f:1: a contains a NUL"),
        ("a: \x01", "f: not YAML"),
        ("", "f: empty"),
        ("a: !!python/object/apply:os.system [true]", "f:1: a must be text, not a list"),
        ("a: &x [*x]", "f:1: a must be text, not a list"),
    ],
)
def test_every_mistake_has_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_yaml("f", text).pairs("top")["a"].text("a")
    assert str(error.value).startswith(message)


@pytest.mark.slow
def test_deep_nesting_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_yaml("f", "[" * 5000).pairs("top")


def test_the_nearest_known_key_is_suggested() -> None:
    top = parse_yaml("f", "prompt: x\n\npromt: y\n")
    with pytest.raises(UsageError, match=r"f:3: unknown key 'promt'") as error:
        top.known_pairs("top", ("prompt", "cwd"))
    assert error.value.hint == "did you mean 'prompt'?"


def test_a_missing_package_is_reported() -> None:
    """In an interpreter that has nothing but us."""
    program = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        "from agentctl.launch.matrix import parse_yaml\n"
        "from agentctl.errors import MissingExtra\n"
        "try: parse_yaml('f', 'a: 1')\n"
        "except MissingExtra as error: print(error.exit_code, error, error.hint)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("69 reading a matrix needs PyYAML pip install 'agentctl[matrix]'")
    assert MissingExtra.exit_code == 69


def test_count_is_the_length_of_a_list() -> None:
    entries = parse_yaml("f", "a: [x, y, [z]]\nb: text\nc: {d: e}").pairs("it")
    assert {name: entry.count() for name, entry in entries.items()} == {"a": 3, "b": 1, "c": 1}
