"""`make agents`: what is there costs nothing, what fails says so and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.pins import ELSEWHERE, PROJECT, STAMP, agents, pins

NPM = Path(__file__).with_name("npm.py")


class Machine:
    """A machine whose npm is the stand-in."""

    def __init__(self, root: Path) -> None:
        self.npm, self.agents, self.home = root / "npm", root / "agents", root / "home"
        for place in (self.npm, self.home):
            place.mkdir()
        command = self.npm / "npm"
        command.write_text(f"#!{sys.executable}\n{NPM.read_text()}")
        command.chmod(0o755)
        self.path = f"{self.npm}:/usr/bin:/bin"

    def install(self, *names: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.real.install", *names],
            cwd=PROJECT,
            env={
                "PATH": self.path,
                "HOME": str(self.home),
                "PYTHONPATH": str(PROJECT),
                ELSEWHERE: str(self.agents),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def calls(self) -> list[str]:
        path = self.npm / "calls"
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def names(self) -> set[str]:
        """The names in the folder, without our lock."""
        return set(os.listdir(self.agents)) - {".lock"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_all_come_with_a_command_each(machine: Machine) -> None:
    process = machine.install()
    assert (process.returncode, process.stderr) == (0, "")
    assert machine.names() == {"bin", *pins()}
    assert set(os.listdir(machine.agents / "bin")) == {"claude", "codex", "opencode", "pi", "pi-old"}
    for name, pin in agents().items():
        assert os.access(machine.agents / name / "bin" / pin.command, os.X_OK)
    assert os.listdir(machine.home) == []


def test_a_native_agent_is_linked_and_a_script_is_run_by_exec(machine: Machine) -> None:
    """The kernel names a process after its file; a shell that stayed in between would be another."""
    machine.install("claude-code", "pi")
    assert (machine.agents / "bin" / "claude").is_symlink()
    assert (machine.agents / "claude-code" / "bin" / "claude").is_symlink()
    node = machine.agents / "node" / "bin" / "node"
    words = (machine.agents / "bin" / "pi").read_text().splitlines()[-1]
    assert words.startswith(f'exec "{node}" "{machine.agents / "pi"}')


def test_present_is_no_work_and_no_npm(machine: Machine) -> None:
    machine.install("codex")
    assert machine.calls() == [".new-codex install"]
    machine.path = "/nowhere"
    again = machine.install("codex")
    assert (again.returncode, again.stderr) == (0, "")


def test_another_pin_is_installed_in_place_of_the_old(machine: Machine) -> None:
    machine.install("codex")
    (machine.agents / "codex" / STAMP).write_text("@openai/codex@0.1.0\n")
    (machine.agents / "codex" / "old").write_text("")
    assert machine.install("codex").returncode == 0
    assert len(machine.calls()) == 2
    assert not (machine.agents / "codex" / "old").exists()


def test_an_agent_on_the_pinned_node_brings_it(machine: Machine) -> None:
    machine.install("pi-old")
    assert machine.calls() == [".new-node install", ".new-pi-old install"]


def test_without_npm_there_is_one_line(machine: Machine) -> None:
    machine.path = "/nowhere"
    process = machine.install()
    assert (process.returncode, process.stdout) == (2, "")
    assert (
        process.stderr == "npm is not there, and the agents come from it: install Node.js 20 or newer\n"
    )


def test_an_agent_that_cannot_be_fetched_is_named_and_the_others_come(machine: Machine) -> None:
    (machine.npm / "broken").write_text(pins()["opencode"].package)
    process = machine.install()
    assert process.returncode == 2
    assert "opencode 1.18.33 could not be installed: npm install ended with 1" in process.stderr
    assert "    npm error getaddrinfo: the registry cannot be reached" in process.stderr
    assert machine.names() - {".new-opencode"} == {"bin", *pins()} - {"opencode"}
    (machine.npm / "broken").unlink()
    assert machine.install().returncode == 0
    assert machine.names() == {"bin", *pins()}


def test_a_placeholder_is_no_agent(machine: Machine) -> None:
    """Where npm runs no install scripts, Claude Code and OpenCode are a text that says so."""
    (machine.npm / "lazy").write_text(pins()["claude-code"].package)
    process = machine.install("claude-code")
    assert process.returncode == 2
    assert "claude is a placeholder: npm has not run the install scripts" in process.stderr
    assert not (machine.agents / "claude-code").exists()


def test_an_unknown_name_lists_the_known_ones(machine: Machine) -> None:
    process = machine.install("gemini")
    assert process.returncode == 2
    assert "no agent is called gemini; there are node, claude-code, codex" in process.stderr
