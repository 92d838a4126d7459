"""Our own processes are identified by their arguments, before and after they have named themselves."""

import subprocess

import pytest

from agentctl.process import ours


def test_each_program_is_identified_by_its_arguments() -> None:
    assert ours.identify_program(ours.shim_command(3, 4, 5)) == "shim"
    assert ours.identify_program(ours.module_command(ours.FINISH, "/state", "id")) == "finish"
    assert ours.identify_program(ours.module_command(ours.EXPIRE, "/state", "id")) == "expire"
    assert ours.identify_program(ours.daemon_command("--ready", "3")) == "daemon"


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
def test_other_programs_are_not_ours(argv: tuple[str, ...]) -> None:
    assert ours.identify_program(argv) == ""


def test_our_commands_run() -> None:
    ran = subprocess.run(ours.shim_command(), env={}, capture_output=True, text=True, check=False)
    assert "main() missing 4 required positional arguments" in ran.stderr
    ran = subprocess.run(
        ours.module_command(ours.FINISH), env={}, capture_output=True, text=True, check=False
    )
    assert "not enough values to unpack" in ran.stderr
