"""How much memory this process has to itself, beside what psutil says."""

import psutil

from agentctl.daemon.memory import private_bytes


def test_about_as_much_as_psutil_says() -> None:
    told, theirs = private_bytes(), psutil.Process().memory_full_info().uss
    assert told is not None
    assert abs(told - theirs) < 8 << 20
