from pathlib import Path

from tests.pythons.find import find


def program(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_shim_that_runs_nothing_is_ignored(tmp_path: Path) -> None:
    program(tmp_path / "shims" / "python3.99", "echo not installed >&2; exit 127")
    program(tmp_path / "other" / "python3.99", "echo 3.98")
    there = program(tmp_path / ".pyenv" / "versions" / "3.99.1" / "bin" / "python3.99", "echo 3.99")
    path = f"{tmp_path / 'shims'}:{tmp_path / 'other'}"
    assert find("3.99", {"PATH": path, "HOME": str(tmp_path)}) == there


def test_path_comes_first(tmp_path: Path) -> None:
    program(tmp_path / ".pyenv" / "versions" / "3.99.1" / "bin" / "python3.99", "echo 3.99")
    first = program(tmp_path / "bin" / "python3.99", "echo 3.99")
    assert find("3.99", {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}) == first


def test_a_missing_version_is_not_found(tmp_path: Path) -> None:
    assert find("3.99", {"PATH": str(tmp_path), "HOME": str(tmp_path)}) is None
