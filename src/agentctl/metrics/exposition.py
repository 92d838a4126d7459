"""Metrics as the text that Prometheus reads (exposition format 0.0.4): families of samples, counters,
gauges and histograms. A writer only; nothing here knows what is counted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from sys import float_info
from typing import Any, Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST = float_info.max  # a whole number may be more, and is then no float
Type = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]


class Sample(NamedTuple):
    labels: Labels
    value: float
    suffix: str = ""  # of a histogram: _bucket, _sum, _count


class Family(NamedTuple):
    name: str  # whole, a counter's `_total` too
    type: Type
    help: str
    samples: Sequence[Sample] = ()


class Histogram:
    """How many were at most this much, for each of some bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)  # the last: more than any bound
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, labels: Labels | None = None) -> list[Sample]:
        """Each bucket holds what the smaller ones hold, as the format wants it."""
        mine, below = dict(labels or {}), 0
        found = []
        for bound, count in zip((*self._bounds, inf), self._counts, strict=True):
            below += count
            found.append(Sample({**mine, "le": number(bound)}, below, "_bucket"))
        return [*found, Sample(mine, self._sum, "_sum"), Sample(mine, below, "_count")]


def text(families: Iterable[Family]) -> str:
    """A family without samples is told all the same: that there is such a thing, and none of it."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines.append(f"# TYPE {family.name} {family.type}")
        lines += [
            f"{family.name}{s.suffix}{_labels(s.labels)} {number(s.value)}" for s in family.samples
        ]
    return "".join(f"{line}\n" for line in lines)


def shapes(families: Iterable[Family]) -> list[dict[str, Any]]:
    """The same as plain values."""
    return [
        {
            "name": family.name,
            "type": family.type,
            "help": family.help,
            "samples": [
                {"name": family.name + s.suffix, "labels": dict(s.labels), "value": _value(s.value)}
                for s in family.samples
            ],
        }
        for family in families
    ]


def families(told: Iterable[Mapping[str, Any]]) -> list[Family]:
    """Out of such values. Raises KeyError, TypeError or ValueError for what is none."""
    return [
        Family(
            str(given["name"]),
            given["type"],
            str(given["help"]),
            [
                Sample(s["labels"], float(s["value"]), s["name"].removeprefix(given["name"]))
                for s in given["samples"]
            ],
        )
        for given in told
    ]


def _value(value: float) -> float | str:
    """JSON has no word for what is no number."""
    return value if -MOST <= value <= MOST else number(value)


def comment(words: str) -> str:
    """A line for people. HELP and TYPE as its first word would be taken for more than that."""
    return f"# note: {_escaped(words)}\n"


def number(value: float) -> str:
    """As Go reads it, which has its own words for what is no number."""
    if not -MOST <= value <= MOST:
        return "+Inf" if value > 0 else "-Inf" if value < 0 else "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(words: str) -> str:
    return _plain(words).replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(value: str) -> str:
    return _escaped(value).replace('"', '\\"')


def _plain(words: str) -> str:
    """What no UTF-8 can hold is shown as its code."""
    return words.encode("utf-8", "backslashreplace").decode()
