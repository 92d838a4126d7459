"""The result of one attempt of a delivery, when the next attempt is made, and when there is no more."""

from __future__ import annotations

import random

from agentctl.config.settings import Config
from agentctl.light_typing import Literal, NamedTuple, Protocol
from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event

DAY = 86400.0


class Result(NamedTuple):
    outcome: Literal["delivered", "failed", "dead", "dropped"]  # dropped: not needed any more
    message: str = ""  # what went wrong, or why it is dropped; without secrets
    status: int | None = None  # of the HTTP answer
    after: float | None = None  # seconds: the target asks for a pause
    seconds: float = 0.0  # that the attempt took


class Policy(NamedTuple):
    """Attempts with growing pauses, for `lasts` seconds and at least `tries` times: setting the clock
    forward by a year is no attempt."""

    first: float = 1.0  # seconds: the longest first pause
    most: float = 3600.0
    lasts: float = DAY
    tries: int = 10

    def pause(self, attempt: int, after: float | None = None) -> float:
        """Return the seconds after that many attempts: random, up to a limit that doubles, so that
        deliveries that failed together are not tried together. A pause that the target asks for counts,
        up to `most`."""
        longest = min(self.most, self.first * 2.0 ** min(attempt - 1, 40))
        return max(random.uniform(0.0, longest), min(after or 0.0, self.most))  # noqa: S311 - not a secret

    def is_over(self, delivery: Delivery, now: float) -> bool:
        """Return True if a failed attempt was the last."""
        since = delivery.first_at if delivery.first_at is not None else now
        return delivery.attempt >= self.tries and now - since >= self.lasts


class Sender(Protocol):
    """Sends the deliveries of one kind. Called in threads, one for each lane."""

    kind: str
    policy: Policy

    def has_target(self, target: str, url: str | None, settings: Config) -> bool:
        """Return True if the settings have this target."""

    def deliver(self, delivery: Delivery, event: Event, settings: Config) -> Result:
        """Make one attempt, bounded in time. Expected errors are results, not exceptions."""
