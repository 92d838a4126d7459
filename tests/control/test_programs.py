"""Processes of our own are known by their words, before and after they have named themselves."""

import subprocess

import pytest

from agentctl.control import programs


def test_each_is_told_by_its_words() -> None:
    assert programs.called(programs.shim(3, 4, 5)) == "shim"
    assert programs.called(programs.other("finish", "/state", "id")) == "finish"
    assert programs.called(programs.other("expire", "/state", "id")) == "expire"
    assert programs.called(programs.daemon("--ready", "3")) == "daemon"


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("python3",),
        ("python3", "-I", "-c", "import sys"),
        ("python3", "-I", "-S", "shim.py"),
        ("python3", "-m", "agentctl", "list"),
    ],
)
def test_others_are_not(argv: tuple[str, ...]) -> None:
    assert programs.called(argv) == ""


def test_they_run() -> None:
    done = subprocess.run(programs.shim(), env={}, capture_output=True, text=True, check=False)
    assert "main() missing 3 required positional arguments" in done.stderr
    done = subprocess.run(programs.other("finish"), env={}, capture_output=True, text=True, check=False)
    assert "not enough values to unpack" in done.stderr
