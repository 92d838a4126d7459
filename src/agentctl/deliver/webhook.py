"""Webhooks: what is sent, how it is signed, and one attempt of a delivery.

The signature covers the time of sending, too, so that a delivery cannot be replayed later: a receiver
refuses what is older than some minutes (docs/webhooks.md).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time

from agentctl import __version__
from agentctl.config.settings import Config
from agentctl.deliver.policy import Policy, Result
from agentctl.light_typing import Mapping
from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event
from agentctl.wire import webhook

SECRET = "AGENTCTL_WEBHOOK_SECRET"  # noqa: S105 - a name


def sign_body(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return two headers: our own signs "TIMESTAMP.BODY"; the common one, as GitHub's, the body alone."""
    key = secret.encode("utf-8", "surrogateescape")
    ours = hmac.new(key, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    common = hmac.new(key, body, hashlib.sha256).hexdigest()
    return {
        "X-Agentctl-Signature": f"t={timestamp},v1={ours}",
        "X-Hub-Signature-256": f"sha256={common}",
    }


def webhook_headers(
    event: str, delivery: str, attempt: int, body: bytes, secret: str | None
) -> dict[str, str]:
    timestamp = int(time.time())
    return {
        "Content-Type": "application/json",
        "User-Agent": f"agentctl/{__version__}",
        "X-Agentctl-Event": event,
        "X-Agentctl-Delivery": delivery,
        "X-Agentctl-Attempt": str(attempt),
        "X-Agentctl-Timestamp": str(timestamp),
        **(sign_body(secret, timestamp, body) if secret else {}),
    }


def send_webhook(event: Event, delivery: str, attempt: int, url: str, secret: str | None) -> Result:
    from agentctl.deliver.http import post  # costs memory, and many users have no webhook

    body = json.dumps(webhook.make_payload(event, delivery), separators=(",", ":")).encode()
    return post(url, body, webhook_headers(event.type, delivery, attempt, body, secret))


class WebhookSender:
    """Delivers to the `[webhooks.NAME]` of the settings, and to an address that the delivery names."""

    kind = "webhook"
    policy = Policy()

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def has_target(self, target: str, url: str | None, settings: Config) -> bool:
        return url is not None or target in settings.webhooks

    def deliver(self, delivery: Delivery, event: Event, settings: Config) -> Result:
        if delivery.url is not None:
            url, secret = delivery.url, self._environ.get(SECRET) or None
        else:
            hook = settings.webhooks[delivery.target]
            url, secret = hook.url.value, hook.secret.value
        return send_webhook(event, delivery.id, delivery.attempt, url, secret)
