"""Matrix files."""

import os
from pathlib import Path

import pytest

from agentctl.errors import Gone, Malformed, UsageError
from agentctl.launch import matrix
from agentctl.launch.matrix import Plan, Slot
from agentctl.launch.yaml_file import SIZE

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


def test_all_of_it(tmp_path: Path) -> None:
    plan = matrix.read(_write(tmp_path, WHOLE))
    claude = Slot("claude-code", None, "claude", args=("--max-turns", "5"))
    assert plan == Plan(
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


def test_the_least(tmp_path: Path) -> None:
    assert matrix.read(_write(tmp_path, "matrix: [{adapter: pi}]")) == Plan((Slot("pi"),))


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "m.yaml").write_text("prompt_file: ../p.md\ncwd: ~/x\nmatrix: [{adapter: pi}]")
    monkeypatch.chdir(tmp_path)
    plan = matrix.read("sub/m.yaml")
    assert (plan.prompt_file, plan.cwd) == (f"{tmp_path}/p.md", os.path.expanduser("~/x"))


def test_a_slot_s_prompt_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("from a file")
    path = _write(tmp_path, "matrix:\n  - adapter: pi\n    prompt_file: p.md\n")
    assert matrix.read(path).slots[0].prompt == "from a file"


@pytest.mark.parametrize(
    ("text", "line", "told"),
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
        ("matrix:\n  - adapter: pi\n    adapter: pi", 3, "'adapter' comes twice"),
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
def test_every_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int, told: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(UsageError) as error:
        matrix.read(path)
    assert str(error.value).startswith(f"{path}:{line}: {told}")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        matrix.read(str(tmp_path / "nowhere.yaml"))
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (SIZE + 1))
    with pytest.raises(Malformed, match="more than"):
        matrix.read(str(big))
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(UsageError, match=r"latin\.yaml:2: not UTF-8"):
        matrix.read(str(tmp_path / "latin.yaml"))


def test_a_small_file_that_names_many_slots_is_refused(tmp_path: Path) -> None:
    """An alias is two letters, and as many models as you like."""
    models = ", ".join(f"m{number}" for number in range(60))
    entries = "\n".join(["  - *e"] * 5000)
    text = f"prompt: x\nmatrix:\n  - &e {{adapter: demo, models: [{models}]}}\n{entries}\n"
    with pytest.raises(UsageError, match="more than 100 slots") as told:
        matrix.read(_write(tmp_path, text))
    assert ":3: " in str(told.value)  # where the entry stands that is named so often


def test_as_many_slots_as_that(tmp_path: Path) -> None:
    models = ", ".join(f"m{number}" for number in range(100))
    text = f"prompt: x\nmatrix:\n  - {{adapter: demo, models: [{models}]}}\n"
    assert len(matrix.read(_write(tmp_path, text)).slots) == 100
