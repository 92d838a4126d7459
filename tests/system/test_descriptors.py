"""Descriptors that are left, as the kernel counts them."""

import os
import resource
from collections.abc import Iterator

import pytest

from agentctl.system import descriptors


@pytest.fixture
def few() -> Iterator[int]:
    """A limit with room for exactly as many as a look needs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) - 1
    limit = used + descriptors.LOOK
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_how_many_are_left(few: int) -> None:
    assert (descriptors.left(), descriptors.shortage()) == (descriptors.LOOK, None)
    taken = os.open("/", os.O_RDONLY)
    assert descriptors.left() == descriptors.LOOK - 1
    told = descriptors.shortage()
    os.close(taken)
    assert told == "31 file descriptors left, too few for a whole look; raise the limit (ulimit -n)"


def test_when_there_are_none(few: int) -> None:
    taken = [os.open("/", os.O_RDONLY) for _ in range(descriptors.LOOK)]
    left = descriptors.left()
    for each in taken:
        os.close(each)
    assert left == 0


def test_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert descriptors.left() == descriptors.PLENTY
    assert descriptors.shortage() is None
