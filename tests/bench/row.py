"""One line of the benchmark: what was measured, beside its floor and its limit."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    what: str
    ours: float  # ms of CPU, or MB
    floor: float | None
    limit: float | None  # of the ratio; without a floor, of ours; None: for information
    unit: str = "ms"

    @property
    def ratio(self) -> float | None:
        return self.ours / self.floor if self.floor else None

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        measured = self.ours if self.floor is None else self.ours / self.floor
        return "ok" if measured <= self.limit else "MISS"

    def cells(self) -> list[str]:
        floor = "" if self.floor is None else f"{self.floor:.1f} {self.unit}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        unit = "" if self.floor is not None else f" {self.unit}"
        limit = "" if self.limit is None else f"≤ {self.limit:g}{unit}"
        return [self.what, f"{self.ours:.1f} {self.unit}", floor, ratio, limit, self.verdict]
