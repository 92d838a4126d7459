"""Wait for a condition, with a deadline and a name for what did not happen."""

import time
from collections.abc import Callable

DEADLINE = 20.0  # seconds: generous, because a loaded machine is no failure
BEAT = 0.01


def until(
    condition: Callable[[], bool], what: str, deadline: float = DEADLINE, *, beat: float = BEAT
) -> None:
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline:g} s: {what}")
        time.sleep(beat)
