"""Which idle sessions have drawn on their terminal: real processes at real terminals."""

import os
import time

from agentctl.system import proc
from agentctl.truth.judge import judge
from agentctl.truth.model import Claim, Evidence, Observation, Session
from agentctl.watch.screens import Screens
from tests.sitting import Sitting, sitting


def session(person: Sitting, adapter: str = "pi", claim: Claim = "idle") -> Session:
    process = proc.read_process(person.identity.pid, person.identity.boot)
    alive = Evidence("alive", person.identity.address, "kernel")
    evidence = (alive, Evidence(claim, "/s@1", "journal"))
    return Session(Observation(adapter, "s", evidence, owner=process), judge(evidence))


def draw(person: Sitting, moment: float) -> None:
    """As if something had been shown there then."""
    os.utime(person.terminal, (0, moment))


def test_one_that_draws_is_named_once_for_each_time() -> None:
    with sitting() as person:
        screens, found = Screens(), [session(person)]
        assert screens.changed(found) == {"pi"}, "never asked about before"
        assert screens.changed(found) == set()
        draw(person, time.time() + 100)
        assert screens.changed(found) == {"pi"}
        assert screens.changed(found) == set()


def test_only_those_are_asked_about_that_show_it_nowhere_else() -> None:
    with sitting() as person:
        screens = Screens()
        assert screens.changed([session(person, claim="working")]) == set()
        assert screens.changed([session(person, adapter="demo")]) == set()


def test_one_without_a_terminal_or_that_has_ended() -> None:
    with sitting() as person:
        ended = session(person)
    screens = Screens()
    assert screens.changed([ended]) == set()
    assert screens.changed([ended._replace(seen=ended.seen._replace(owner=None))]) == set()
