"""When a fuse is due: by the boot clock, and after a boot by the time of day."""

import os
import time

import pytest

from agentctl.state import fuse as clocks
from agentctl.state.fuse import BURNING, FIRING, Action, Claim, Fuse, Moment
from agentctl.system import proc

ME = Claim(proc.read_process(os.getpid(), proc.boot_id()).identity, proc.namespace())
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
    assert moment.boot == proc.boot_id()


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


def test_an_address_is_shown_without_its_secrets_and_a_name_as_it_is() -> None:
    assert Action("webhook", "https://me:1@e.org/x?t=1").shown() == {
        "do": "webhook",
        "what": "https://e.org/x?…",
    }
    assert Action("webhook", "ci").shown() == {"do": "webhook", "what": "ci"}
    assert Action("webhook", "me:1@e.org").shown() == {"do": "webhook", "what": "(no web address)"}
