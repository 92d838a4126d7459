"""What one try of a delivery came to, when the next one is made, and when there is none any more."""

from __future__ import annotations

import random
from typing import Literal, NamedTuple, Protocol

from agentctl.config.settings import Config
from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event

DAY = 86400.0


class Result(NamedTuple):
    outcome: Literal["delivered", "failed", "dead", "dropped"]  # dropped: not needed any more
    told: str = ""  # what went wrong, or why not, for a person; nothing secret in it
    status: int | None = None  # what an HTTP server answered
    after: float | None = None  # seconds: it asked not to be tried again before
    seconds: float = 0.0  # what it took


class Policy(NamedTuple):
    """Tries with growing pauses, for `lasts` seconds and at least `tries` times: a clock that was set
    forward by a year has not tried anything."""

    first: float = 1.0  # seconds: the longest first pause
    most: float = 3600.0
    lasts: float = DAY
    tries: int = 10

    def pause(self, attempt: int, after: float | None = None) -> float:
        """After that many tries: any length up to one that doubles, so that many who failed at once do
        not come back at once. What the target asks for counts, if it is not too much."""
        longest = min(self.most, self.first * 2.0 ** min(attempt - 1, 40))
        return max(random.uniform(0.0, longest), min(after or 0.0, self.most))  # noqa: S311 - not a secret

    def over(self, delivery: Delivery, now: float) -> bool:
        """Whether a try that failed was the last."""
        since = delivery.first_at if delivery.first_at is not None else now
        return delivery.attempt >= self.tries and now - since >= self.lasts


class Deliverer(Protocol):
    """Knows how to deliver one kind. Called in threads, one for each lane."""

    kind: str
    policy: Policy

    def knows(self, target: str, url: str | None, settings: Config) -> bool:
        """Whether there is such a target now."""

    def deliver(self, delivery: Delivery, event: Event, settings: Config) -> Result:
        """One try, bounded in time. Raises nothing that it expects."""
