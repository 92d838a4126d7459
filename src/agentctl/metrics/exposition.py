"""Write metrics in the text format of Prometheus (exposition format 0.0.4): families of samples, counters,
gauges and histograms. Knows nothing of what is counted."""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from sys import float_info

from agentctl.light_typing import Any, Iterable, Literal, Mapping, NamedTuple, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST = float_info.max  # an integer may be larger, and cannot become a float
Type = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]


class Sample(NamedTuple):
    labels: Labels
    value: float
    suffix: str = ""  # of a histogram: _bucket, _sum, _count


class Family(NamedTuple):
    name: str  # complete, with the `_total` of a counter
    type: Type
    help: str
    samples: Sequence[Sample] = ()


class Histogram:
    """Count how many values are at most as large as each of some bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)  # the last one: above every bound
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, labels: Labels | None = None) -> list[Sample]:
        """Return the samples. The format wants each bucket to include the smaller ones."""
        own, total = dict(labels or {}), 0
        buckets = []
        for bound, count in zip((*self._bounds, inf), self._counts, strict=True):
            total += count
            buckets.append(Sample({**own, "le": format_number(bound)}, total, "_bucket"))
        return [*buckets, Sample(own, self._sum, "_sum"), Sample(own, total, "_count")]


def render_text(families: Iterable[Family]) -> str:
    """Return the text. A family without samples has its HELP and TYPE lines all the same."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escape(family.help)}")
        lines.append(f"# TYPE {family.name} {family.type}")
        lines += [
            f"{family.name}{s.suffix}{_labels(s.labels)} {format_number(s.value)}"
            for s in family.samples
        ]
    return "".join(f"{line}\n" for line in lines)


def families_json(families: Iterable[Family]) -> list[dict[str, Any]]:
    """Return the families as plain values."""
    return [
        {
            "name": family.name,
            "type": family.type,
            "help": family.help,
            "samples": [
                {
                    "name": family.name + s.suffix,
                    "labels": dict(s.labels),
                    "value": _json_number(s.value),
                }
                for s in family.samples
            ],
        }
        for family in families
    ]


def parse_families(values: Iterable[Mapping[str, Any]]) -> list[Family]:
    """Return the families of `families_json`. Raises KeyError, TypeError, ValueError, AttributeError."""
    return [
        Family(
            str(family["name"]),
            family["type"],
            str(family["help"]),
            [
                Sample(s["labels"], float(s["value"]), s["name"].removeprefix(family["name"]))
                for s in family["samples"]
            ],
        )
        for family in values
    ]


def _json_number(value: float) -> float | str:
    """Return a string for NaN and the infinities, which JSON does not have."""
    return value if -MOST <= value <= MOST else format_number(value)


def render_comment(words: str) -> str:
    """Return a comment line. Its first word must not be HELP or TYPE."""
    return f"# note: {_escape(words)}\n"


def format_number(value: float) -> str:
    """Return the number as Go reads it, with its words for NaN and the infinities."""
    if not -MOST <= value <= MOST:
        return "+Inf" if value > 0 else "-Inf" if value < 0 else "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_quote(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escape(words: str) -> str:
    return _to_utf8(words).replace("\\", "\\\\").replace("\n", "\\n")


def _quote(value: str) -> str:
    return _escape(value).replace('"', '\\"')


def _to_utf8(words: str) -> str:
    """Replace lone surrogates by their code."""
    return words.encode("utf-8", "backslashreplace").decode()
