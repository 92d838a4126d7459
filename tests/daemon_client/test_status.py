"""The warning about what does not work: one line on standard error."""

import asyncio
import json
from pathlib import Path

import pytest

from agentctl.daemon.server import Peer
from agentctl.daemon_client import client, status
from agentctl.daemon_client.protocol import Request
from agentctl.errors import Unreachable
from tests.daemon.serving import Served, home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of

LIMIT = "no inotify instance left"


def make_part(name: str, state: str, problem: str | None = None) -> dict[str, str | None]:
    return {"name": name, "state": state, "problem": problem}


def test_parts_with_the_same_problem_are_reported_together() -> None:
    parts = [
        make_part("guard", "degraded", LIMIT),
        make_part("metrics", "failing", "port 9200 is taken"),
        make_part("observer", "running"),
        make_part("clock", "degraded", LIMIT),
        make_part("courier", "failed", "no memory"),
        make_part("web", "off"),
    ]
    guards = f"guard, clock degraded: {LIMIT}"
    assert status.parts_warning(parts) == (
        f"daemon: {guards}; metrics failing: port 9200 is taken; courier failed: no memory"
    )
    assert status.parts_warning(parts[:4], ("metrics",)) == f"daemon: {guards}"


def test_no_warning_if_all_parts_work() -> None:
    assert status.parts_warning([make_part("guard", "running"), make_part("metrics", "off")]) is None
    odd: list[object] = [None, "parts", [7], [{}]]
    assert [status.parts_warning(each) for each in odd] == [None] * len(odd)


def test_no_warning_without_a_daemon(tmp_path: Path) -> None:
    assert status.running_warning(str(tmp_path)) is None


async def hang(_: Request, __: Peer) -> None:
    await asyncio.sleep(3600)


def test_a_launch_says_that_the_daemon_does_not_answer(stage: DemoStage) -> None:
    launch = ("launch", "demo", "-p", "exit 0", "--cwd", str(stage.work))
    with Served(Path(home_of(stage)), hang):
        ran = agentctl_of(stage, *launch)
        quiet = agentctl_of(stage, *launch, AGENTCTL_NO_DAEMON="1")
    assert (ran.code, quiet.code, quiet.err) == (0, 0, "")
    assert ran.out.strip()
    (line,) = ran.err.splitlines()
    assert line.startswith("agentctl: the daemon did not answer within 1 s; ")
    assert line.endswith(": agentctl daemon restart")


def test_a_status_of_another_kind_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def __enter__(self) -> "Odd":
            return self

        def __exit__(self, *_: object) -> None: ...

        def call(self, _: str) -> object:
            return json.loads("[]")

    monkeypatch.setattr(client, "connect", lambda _: Odd())
    with pytest.raises(Unreachable, match="unknown shape"):
        status.read_status(str(tmp_path))
