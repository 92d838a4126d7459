"""How much of everything a benchmark takes."""

from __future__ import annotations

from typing import NamedTuple

from tests.bench import watched, watching

MEGABYTE = 1 << 20


class Scale(NamedTuple):
    histories: tuple[int, ...] = (10, 100, 1000, 5000)
    live: int = 8
    crowds: tuple[int, ...] = (50, 200)
    transcript: int = MEGABYTE  # bytes of each in the crowd
    rounds: int = 21
    slow_rounds: int = 15  # of commands that read every session: the median of few wanders
    watching: watching.Scale = watching.Scale()
    flood: watched.Flood = (20, 50, 10)


QUICK = Scale(
    (10, 40), 4, (8,), 1 << 16, 5, 3, watching.Scale(6, 5, 50, 1000, 8, 6), (4, 50, 2)
)  # fmt: skip
SMOKE = Scale((5, 10), 4, (4,), 1 << 14, 1, 1, watching.Scale(1, 1, 5, 10, 4, 0), (2, 10, 1))
