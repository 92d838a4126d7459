"""Wait for a condition, with a deadline and a name for what did not happen."""

import time
from collections.abc import Callable

DEADLINE = 20.0  # seconds: generous, because a loaded machine is no failure
BEAT = 0.01
LONGEST_BEAT = 0.2


def until(
    condition: Callable[[], bool], what: str, deadline: float = DEADLINE, *, beat: float = BEAT
) -> None:
    """Rest after each look for as long as it took: some run the command line, and a core is shared."""
    end = time.monotonic() + deadline
    while True:
        began = time.monotonic()
        if condition():
            return
        looked = time.monotonic()
        if looked > end:
            raise TimeoutError(f"not within {deadline:g} s: {what}")
        time.sleep(max(beat, min(looked - began, LONGEST_BEAT)))
