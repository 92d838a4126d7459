"""Shims of the previous release go on, and name its modules on a command line."""

import json
import subprocess
import sys

import pytest

from agentctl.process import ours
from tests.fakes.demo import DemoStage
from tests.running import SOURCES, agentctl_of, environ_of
from tests.waiting import until

MODULES = ["agentctl.control.finish", "agentctl.control.expire"]
LAUNCHES = """
import sys
from agentctl.process import ours
ours.FINISH, ours.EXPIRE = "agentctl.control.finish", "agentctl.control.expire"
from agentctl.__main__ import main
main()
"""


def launch(stage: DemoStage, *words: str) -> str:
    """Launch with a shim that calls the modules of agentctl 0.1."""
    ran = subprocess.run(
        [sys.executable, "-c", LAUNCHES, "launch", "demo", "--cwd", str(stage.work), *words],
        env=environ_of(stage),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ran.stdout.strip()


def outcome_of(stage: DemoStage, session_id: str) -> tuple[str, str | None, int | None]:
    ran = agentctl_of(stage, "status", session_id, "--json")
    row = json.loads(ran.out)["sessions"][0]
    return row["status"], row["outcome"], row["exit_code"]


def test_a_previous_shim_finishes_its_launch(stage: DemoStage) -> None:
    session_id = launch(stage, "-p", "work 1, exit 3")
    until(lambda: outcome_of(stage, session_id) == ("stopped", "failed", 3), "its end is recorded")
    history = ("history", session_id, "--json")
    until(lambda: "launch.ended" in agentctl_of(stage, *history).out, "its end is in the journal")


def test_the_timeout_of_a_previous_shim_ends_the_agent(stage: DemoStage) -> None:
    session_id = launch(stage, "-p", "work 600", "--timeout", "1s")
    until(lambda: outcome_of(stage, session_id)[0] == "stopped", "it is ended")
    row = json.loads(agentctl_of(stage, "status", session_id, "--json").out)["sessions"][0]
    assert row["launch"]["expired_at"] is not None


@pytest.mark.parametrize("module", MODULES)
def test_processes_of_a_previous_shim_are_known_as_ours(module: str) -> None:
    program = f"import sys; sys.path.insert(0, {SOURCES!r}); from {module} import main; main()"
    assert (
        ours.identify_program([sys.executable, "-I", "-c", program, "/state", "1a"])
        == module.rpartition(".")[2]
    )
