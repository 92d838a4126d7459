"""Law 2: a clock that is set, forward or back, makes no live agent a stopped one and no dead one live.

The machine's own clock is left alone: agents and agentctl live by one that the test can set, which also
moves the stamps of files, as a real one does."""

from pathlib import Path

import pytest

from agentctl.testing import Puppet, Stage
from tests.law.asking import LIVE, agentctl_json
from tests.soak.clock import Clock

HOUR = 3600.0
# Bound by the times in its file: it may become unknown, and so may those that it might have written.
BY_TIME = ("pi",)


def begun(stage: Stage, clock: Clock, place: str) -> Puppet:
    puppet = stage.start(stage.root / place, environ=clock.environ)
    puppet.do("work")
    return puppet


def status_of(stage: Stage, clock: Clock, puppet: Puppet) -> str:
    rows = agentctl_json(stage, "list", "-a", **clock.environ)["sessions"]
    (row,) = (row for row in rows if row["id"] == puppet.session_id)
    return str(row["status"])


@pytest.mark.parametrize("steps", [(HOUR, 0.0), (-HOUR, 0.0), (HOUR, -HOUR, 0.0)], ids=str)
def test_the_living_live_and_the_dead_are_dead(
    stage: Stage, tmp_path: Path, steps: tuple[float, ...]
) -> None:
    clock = Clock(tmp_path / "clock")
    alive, dead = begun(stage, clock, "here"), begun(stage, clock, "there")
    assert status_of(stage, clock, alive) in LIVE
    dead.kill()
    unsure = ("unknown",) if stage.adapter in BY_TIME else ()
    right, ended = (*LIVE, *unsure), ("stopped", *unsure)
    for offset in steps:
        clock.set(offset)
        assert status_of(stage, clock, alive) in right, offset
        assert status_of(stage, clock, dead) in ended, offset
        alive.do("rest")
        alive.do("work")
        assert status_of(stage, clock, alive) in right, offset
    alive.kill()
    assert status_of(stage, clock, alive) == "stopped"
