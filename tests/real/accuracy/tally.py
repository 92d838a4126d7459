"""Adds findings up: per tool, agent and state; per change; every lie by name."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

STATES = ("running", "waiting", "idle", "stopped")


class Counted(NamedTuple):
    right: int = 0
    wrong: int = 0
    unknown: int = 0

    @property
    def samples(self) -> int:
        return self.right + self.wrong + self.unknown

    @property
    def share(self) -> float | None:
        return self.right / self.samples if self.samples else None


class Change(NamedTuple):
    noticed: int
    missed: int
    median: float  # seconds
    p95: float


class Tally(NamedTuple):
    """Of one tool and one agent."""

    states: Mapping[str, Counted]
    blind: Mapping[tuple[str, str], Counted]  # by state and by why nothing outside can tell
    changes: Mapping[str, Change]
    wrong_stopped: int
    said_alive: int
    asked: int
    unreadable: int
    gap: float  # seconds between two questions, median of the plays' medians
    took: float  # seconds for one answer, likewise

    @property
    def total(self) -> Counted:
        return Counted(*(sum(numbers) for numbers in zip(*self.states.values(), strict=True)))

    @property
    def missed(self) -> int:
        return sum(change.missed for change in self.changes.values())


class StreamCount(NamedTuple):
    """The event stream and the notifications of one agent."""

    changes: int  # that the driver brought about while a daemon ran
    events: int  # about sessions
    false: int
    ghosts: int  # false events about something that is no session of the driver
    missing: int  # changes without an event, though something outside the agent shows them
    unknown: int  # events that make no claim
    unfounded: int  # changes that nothing outside shows, where the last event claims another state
    gaps: int
    median: float  # seconds from a change to its event
    p95: float
    notifications: int
    false_notifications: int

    @property
    def per_100_changes(self) -> float | None:
        """The number of false events; the goal is 0."""
        return 100 * self.false / self.changes if self.changes else None


def count_stream(findings: Sequence[Mapping[str, Any]]) -> StreamCount:
    kinds = Counter(finding["kind"] for finding in findings)
    times = [finding["at"] for finding in findings if finding["kind"] == "reported"]
    false = kinds["false"] + kinds["ghost"]
    return StreamCount(
        changes=kinds["reported"] + kinds["missing"] + kinds["blind"] + kinds["unfounded"],
        events=kinds["event"] + kinds["unknown"] + false,
        false=false,
        ghosts=kinds["ghost"],
        missing=kinds["missing"],
        unknown=kinds["unknown"],
        unfounded=kinds["unfounded"],
        gaps=kinds["gap"],
        median=_median(times),
        p95=_p95(times),
        notifications=kinds["notification"] + kinds["false-notification"],
        false_notifications=kinds["false-notification"],
    )


def bad_findings(findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The findings that need a fix, or at least a look."""
    bad = ("false", "ghost", "false-notification", "missing", "unfounded", "gap")
    return [finding for finding in findings if finding["kind"] in bad]


def tally(plays: Iterable[Mapping[str, Any]], tool: str) -> Tally:
    results = [play["tools"][tool] for play in plays if tool in play["tools"]]
    findings = [finding for one in results for finding in one["findings"]]
    kinds = Counter(finding["kind"] for finding in findings)
    return Tally(
        states={state: _counted(findings, state) for state in STATES},
        blind=_blind(findings),
        changes=_changes(findings),
        wrong_stopped=kinds["wrong-stopped"],
        said_alive=kinds["said-alive"],
        asked=sum(one["samples"] for one in results),
        unreadable=sum(len(one["unreadable"]) for one in results),
        gap=_median([one["gap"] for one in results]),
        took=_median([one["took"] for one in results]),
    )


def wrongs(plays: Iterable[Mapping[str, Any]], tool: str) -> list[dict[str, Any]]:
    """Every kind of answer that was not right, and every change missed: where, how often, and how long
    after the truth began at the earliest."""
    wrong = ("wrong", "unknown", "wrong-stopped", "said-alive", "missed")
    results = [play["tools"][tool] for play in plays if tool in play["tools"]]
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for finding in (f for one in results for f in one["findings"]):
        if finding["kind"] in wrong and not finding["blind"]:
            key = tuple(str(finding[name]) for name in ("kind", "play", "actor", "truth", "said"))
            same = groups.setdefault(key, {**finding, "times": 0})
            same["times"] += 1
            same["at"] = round(min(same["at"], finding["at"]), 3)
    return list(groups.values())


def _counted(findings: Sequence[Mapping[str, Any]], state: str, blind: str = "") -> Counted:
    kinds = Counter(f["kind"] for f in findings if f["truth"] == state and f["blind"] == blind)
    return Counted(kinds["right"], kinds["wrong"], kinds["unknown"])


def _blind(findings: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Counted]:
    reasons = sorted({(f["truth"], f["blind"]) for f in findings if f["blind"]})
    return {(state, why): _counted(findings, state, why) for state, why in reasons}


def _changes(findings: Sequence[Mapping[str, Any]]) -> dict[str, Change]:
    noticed: dict[str, list[float]] = defaultdict(list)
    missed: Counter[str] = Counter()
    for finding in findings:
        if finding["kind"] == "noticed":
            noticed[finding["truth"]].append(finding["at"])
        elif finding["kind"] == "missed":
            missed[finding["truth"]] += 1
    return {
        change: Change(
            len(noticed[change]), missed[change], _median(noticed[change]), _p95(noticed[change])
        )
        for change in sorted({*noticed, *missed})
    }


def _median(numbers: Sequence[float | None]) -> float:
    values = [number for number in numbers if number is not None]
    return statistics.median(values) if values else 0.0


def _p95(numbers: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed: nearest rank, no interpolation between few numbers."""
    if not numbers:
        return 0.0
    return sorted(numbers)[max(0, -(-len(numbers) * 95 // 100) - 1)]
