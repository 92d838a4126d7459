"""Waiting for an end, for as long as it could have come."""

import os
import threading
from pathlib import Path

import pytest

from agentctl.launch import fair
from agentctl.system.pidfd import Handle
from tests.fakes.stranger import Stranger


@pytest.mark.parametrize(
    ("passed", "queued", "left"),
    [
        (0.0, 0.0, 2.0),
        (2.0, 0.0, 0.0),
        (2.0, 1.5, 1.5),
        (5.0, 3.0, 0.0),
        (19.0, 19.0, 1.0),
        (20.0, 20.0, 0.0),
    ],
)
def test_the_time_in_the_queue_does_not_count_up_to_a_limit(
    passed: float, queued: float, left: float
) -> None:
    assert fair.remaining(2.0, passed, queued) == left


def test_the_kernel_counts_it_and_of_nobody_there_is_none() -> None:
    assert fair.queued(os.getpid()) >= 0.0
    assert fair.queued(2**31 - 1) == 0.0


def test_one_that_stays_and_one_that_ends(tmp_path: Path) -> None:
    with Stranger("one", {"PATH": "/usr/bin:/bin"}, tmp_path) as one, Handle(one.identity) as agent:
        pid = one.identity.pid
        assert not fair.ended(agent, pid, 0.0)
        assert not fair.ended(agent, pid, 0.01)
        end = threading.Timer(0.05, one.end)
        end.start()
        assert fair.ended(agent, pid, 60.0)
        end.join()
        assert fair.ended(agent, pid, 0.0)


def test_a_queue_makes_it_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has waited all the time, and ends when its turn has come."""
    waited = iter([0.0, 30.0])
    with Stranger("one", {"PATH": "/usr/bin:/bin"}, tmp_path) as one, Handle(one.identity) as agent:

        def queued(_: int) -> float:
            so_far = next(waited)
            if so_far:
                one.end()
            return so_far

        monkeypatch.setattr(fair, "queued", queued)
        assert fair.ended(agent, one.identity.pid, 5.0)
