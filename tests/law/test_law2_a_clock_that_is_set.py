"""Law 2: a clock that is set, forward or back, makes no live agent stopped and no dead one live.

The test does not touch the machine's clock: agents and agentctl use one that it can set, which also
moves the stamps of files, as a real one does."""

from pathlib import Path

import pytest

from agentctl.testing import Puppet, Stage
from tests.law.asking import LIVE
from tests.running import agentctl_in, environ_of
from tests.soak.clock import Clock

HOUR = 3600.0
# Agents whose sessions are bound by times in their files: these may become unknown.
BY_TIME = ("pi",)


def start_on_clock(stage: Stage, clock: Clock, place: str) -> Puppet:
    puppet = stage.start(stage.root / place, environ=clock.environ)
    puppet.do("work")
    return puppet


def status_of(stage: Stage, clock: Clock, puppet: Puppet) -> str:
    """Ask an agentctl that runs on that clock, in an interpreter of its own."""
    environ = environ_of(stage, **clock.environ)
    rows = agentctl_in(environ, "list", "-a", "--json", before=["env"]).json()["sessions"]
    (row,) = (row for row in rows if row["id"] == puppet.session_id)
    return str(row["status"])


@pytest.mark.few(1)
@pytest.mark.parametrize("steps", [(HOUR, 0.0), (-HOUR, 0.0), (HOUR, -HOUR, 0.0)], ids=str)
def test_a_set_clock_changes_no_status_between_live_and_stopped(
    stage: Stage, tmp_path: Path, steps: tuple[float, ...]
) -> None:
    clock = Clock(tmp_path / "clock")
    alive, dead = start_on_clock(stage, clock, "here"), start_on_clock(stage, clock, "there")
    assert status_of(stage, clock, alive) in LIVE
    dead.kill()
    unsure = ("unknown",) if stage.adapter in BY_TIME else ()
    live_statuses, dead_statuses = (*LIVE, *unsure), ("stopped", *unsure)
    for offset in steps:
        clock.set(offset)
        assert status_of(stage, clock, alive) in live_statuses, offset
        assert status_of(stage, clock, dead) in dead_statuses, offset
        alive.do("rest")
        alive.do("work")
        assert status_of(stage, clock, alive) in live_statuses, offset
    alive.kill()
    assert status_of(stage, clock, alive) == "stopped"
