"""Which idle sessions have drawn on their terminal: real processes at real terminals."""

import os
import time

from agentctl.system import proc
from agentctl.truth.judge import judge
from agentctl.truth.model import Claim, Evidence, Observation, Session
from agentctl.watch.screens import Screens
from tests.sitting import Sitting, sitting


def make_session(person: Sitting, adapter: str = "pi", claim: Claim = "idle") -> Session:
    process = proc.read_process(person.identity.pid, person.identity.boot)
    alive = Evidence("alive", person.identity.address, "kernel")
    evidence = (alive, Evidence(claim, "/s@1", "journal"))
    return Session(Observation(adapter, "s", evidence, owner=process), judge(evidence))


def draw(person: Sitting, moment: float) -> None:
    """Set the time of the terminal, as a write to it does."""
    os.utime(person.terminal, (0, moment))


def test_a_session_that_draws_is_reported_once_each_time() -> None:
    with sitting() as person:
        screens, sessions = Screens(), [make_session(person)]
        assert screens.find_changed(sessions) == {"pi"}, "it is new"
        assert screens.find_changed(sessions) == set()
        draw(person, time.time() + 100)
        assert screens.find_changed(sessions) == {"pi"}
        assert screens.find_changed(sessions) == set()


def test_only_idle_sessions_of_agents_without_another_sign_are_reported() -> None:
    with sitting() as person:
        screens = Screens()
        assert screens.find_changed([make_session(person, claim="working")]) == set()
        assert screens.find_changed([make_session(person, adapter="demo")]) == set()


def test_a_session_without_a_terminal_or_owner_is_not_reported() -> None:
    with sitting() as person:
        session = make_session(person)
    screens = Screens()
    assert screens.find_changed([session]) == set()
    ownerless = session._replace(observation=session.observation._replace(owner=None))
    assert screens.find_changed([ownerless]) == set()
