"""One line for whatever does not work, on standard error."""

import asyncio
from pathlib import Path

import pytest

from agentctl.cli import daemon_parts
from agentctl.daemon.connection import Peer
from agentctl.daemon_client.protocol import Request
from tests.daemon.serving import Served, home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of

LIMIT = "no inotify instance left"


def part(name: str, state: str, problem: str | None = None) -> dict[str, str | None]:
    return {"name": name, "state": state, "problem": problem}


def test_parts_with_the_same_problem_are_told_together() -> None:
    parts = [
        part("guard", "degraded", LIMIT),
        part("metrics", "failing", "port 9200 is taken"),
        part("observer", "running"),
        part("clock", "degraded", LIMIT),
        part("courier", "failed", "no memory"),
        part("web", "off"),
    ]
    told = f"guard, clock degraded: {LIMIT}"
    assert daemon_parts.warning(parts) == (
        f"daemon: {told}; metrics failing: port 9200 is taken; courier failed: no memory"
    )
    assert daemon_parts.warning(parts[:4], ("metrics",)) == f"daemon: {told}"


def test_where_all_is_well_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert daemon_parts.warning([part("guard", "running"), part("metrics", "off")]) is None
    odd: list[object] = [None, "parts", [7], [{}]]
    for each in odd:
        daemon_parts.show(each)
    assert capsys.readouterr() == ("", "")


def test_without_a_daemon_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daemon_parts.warn_of_running(str(tmp_path))
    assert capsys.readouterr() == ("", "")


async def hangs(_: Request, __: Peer) -> None:
    await asyncio.sleep(3600)


def test_a_launch_says_that_the_daemon_does_not_answer(stage: DemoStage) -> None:
    launch = ("launch", "demo", "-p", "exit 0", "--cwd", str(stage.work))
    with Served(Path(home_of(stage)), hangs):
        ran = agentctl_of(stage, *launch)
        quiet = agentctl_of(stage, *launch, AGENTCTL_NO_DAEMON="1")
    assert (ran.code, quiet.code, quiet.err) == (0, 0, "")
    assert ran.out.strip()
    (line,) = ran.err.splitlines()
    assert line.startswith("agentctl: the daemon did not answer within 1 s; ")
    assert line.endswith(": agentctl daemon restart")
