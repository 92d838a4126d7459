"""When a fuse is due: by the boot clock, and after a boot by the time of day."""

import os
import time

import pytest

from agentctl.truth import fuse as clocks
from agentctl.truth import procfs
from agentctl.truth.fuse import BURNING, FIRING, Claim, Fuse, Moment

ME = Claim(procfs.read_process(os.getpid(), procfs.boot_id()).identity, procfs.namespace())
DEAD = ME._replace(identity=ME.identity._replace(start=ME.identity.start - 1))
ELSEWHERE = DEAD._replace(namespace="pid:[1]")


def burning(**more: object) -> Fuse:
    made = Fuse("1a", "/work", None, None, None, None, (), 1000.0, "boot", 50.0, 1050.0, BURNING)
    return made._replace(**more)  # type: ignore[arg-type]


def test_within_a_boot_the_clock_on_the_wall_says_nothing() -> None:
    for wall in (0.0, 1049.0, 1e12):
        assert burning().left(Moment("boot", 20.0, wall)) == 30.0
        assert burning().left(Moment("boot", 60.0, wall)) == -10.0


def test_after_a_boot_it_is_due_by_the_time_of_day() -> None:
    for elapsed in (0.0, 49.0, 1e9):
        assert burning().left(Moment("another", elapsed, 1020.0)) == 30.0
        assert burning().left(Moment("another", elapsed, 1060.0)) == -10.0


def test_now_is_of_this_boot_and_includes_sleep() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    moment = clocks.now()
    assert before <= moment.elapsed <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert moment.boot == procfs.boot_id()


@pytest.mark.parametrize(
    ("claim", "may_live", "foreign"),
    [(ME, True, False), (DEAD, False, False), (ELSEWHERE, True, True)],
)
def test_who_fires_it_is_dead_only_if_that_is_proven(
    claim: Claim, may_live: bool, foreign: bool
) -> None:
    assert (claim.may_live, claim.foreign) == (may_live, foreign)
    assert burning(state=FIRING, claim=claim).abandoned == (not may_live)
    assert not burning(claim=claim).abandoned


def test_a_timeout_is_moot_when_its_agent_has_ended() -> None:
    assert burning(launch_id="l", agent=DEAD).moot
    assert burning(launch_id="l", agent=None).moot  # its launch is forgotten
    assert not burning(launch_id="l", agent=ME).moot
    assert not burning(agent=DEAD).moot


def test_what_it_is_on() -> None:
    assert burning().on == "/work"
    assert burning(directory=None, session_id="4f2a").on == "session 4f2a"
    assert burning(directory=None, launch_id="1b").on == "launch 1b"
