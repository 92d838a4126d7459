"""Processes of our own are known by their words, before and after they have named themselves."""

import subprocess

import pytest

from agentctl.process import ours


def test_each_is_told_by_its_words() -> None:
    assert ours.called(ours.shim(3, 4, 5)) == "shim"
    assert ours.called(ours.other(ours.FINISH, "/state", "id")) == "finish"
    assert ours.called(ours.other(ours.EXPIRE, "/state", "id")) == "expire"
    assert ours.called(ours.daemon("--ready", "3")) == "daemon"


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
    assert ours.called(argv) == ""


def test_they_run() -> None:
    done = subprocess.run(ours.shim(), env={}, capture_output=True, text=True, check=False)
    assert "main() missing 4 required positional arguments" in done.stderr
    done = subprocess.run(ours.other(ours.FINISH), env={}, capture_output=True, text=True, check=False)
    assert "not enough values to unpack" in done.stderr
