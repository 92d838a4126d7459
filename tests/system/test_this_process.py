"""Free descriptors and memory of this process, as the kernel counts them."""

import os
import resource
from collections.abc import Iterator

import psutil
import pytest

from agentctl.system import this_process


@pytest.fixture
def low_limit() -> Iterator[int]:
    """Set a limit with exactly as many free descriptors as a look needs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) - 1
    limit = used + this_process.LOOK
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_free_descriptors_are_counted(low_limit: int) -> None:
    assert (this_process.count_free_descriptors(), this_process.describe_shortage()) == (
        this_process.LOOK,
        None,
    )
    fd = os.open("/", os.O_RDONLY)
    assert this_process.count_free_descriptors() == this_process.LOOK - 1
    message = this_process.describe_shortage()
    os.close(fd)
    assert message == "31 file descriptors left, too few for a whole look; raise the limit (ulimit -n)"


def test_no_free_descriptor_counts_as_0(low_limit: int) -> None:
    fds = [os.open("/", os.O_RDONLY) for _ in range(this_process.LOOK)]
    count = this_process.count_free_descriptors()
    for fd in fds:
        os.close(fd)
    assert count == 0


def test_descriptors_are_counted_where_the_kernel_does_not(
    low_limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_6_2 = os.stat_result((0,) * 10)
    monkeypatch.setattr(os, "stat", lambda _: before_6_2)
    assert this_process.count_free_descriptors() == this_process.LOOK


def test_without_a_limit_there_are_plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert this_process.count_free_descriptors() == this_process.PLENTY
    assert this_process.describe_shortage() is None


def test_private_memory_agrees_with_psutil() -> None:
    size, theirs = this_process.read_private_bytes(), psutil.Process().memory_full_info().uss
    assert size is not None
    assert abs(size - theirs) < 8 << 20
