"""What a receiver gets, and that it can verify it by itself."""

import hashlib
import hmac
import json
import time
from pathlib import Path

import pytest

from agentctl import config
from agentctl.control.webhook import Webhooks, headers, signatures
from agentctl.store.journal import Event
from agentctl.store.outbox import Delivery
from tests.receiver import Receiver, Request

EVENT = Event("session.stopped", 100.0, 99.0, "demo", "s1", "g", {"session": {"id": "s1"}}, 7)


def delivery(target: str, url: str | None = None) -> Delivery:
    return Delivery("d1", "webhook", target, url, 7, 1.0, 1.0, 1.0, 1.0, 3, "pending", None, None)


def verified(request: Request, secret: bytes) -> bool:
    """As a receiver would, from the documentation alone."""
    parts = dict(part.split("=", 1) for part in request.headers["x-agentctl-signature"].split(","))
    signed = parts["t"].encode() + b"." + request.body
    ours = hmac.new(secret, signed, hashlib.sha256).hexdigest()
    known = "sha256=" + hmac.new(secret, request.body, hashlib.sha256).hexdigest()
    return (
        hmac.compare_digest(ours, parts["v1"])
        and hmac.compare_digest(known, request.headers["x-hub-signature-256"])
        and abs(time.time() - int(parts["t"])) < 300
        and parts["t"] == request.headers["x-agentctl-timestamp"]
    )


def test_a_delivery_can_be_verified(tmp_path: Path) -> None:
    with Receiver() as receiver:
        (tmp_path / "config.toml").write_text(
            f'[webhooks.ci]\nurl = "{receiver.url}"\nsecret = "Geheimnis ß"\n'
        )
        settings = config.load({"AGENTCTL_HOME": str(tmp_path)})
        result = Webhooks({}).deliver(delivery("ci"), EVENT, settings)
    assert (result.outcome, result.status) == ("delivered", 200)
    [request] = receiver.requests
    assert verified(request, "Geheimnis ß".encode())
    assert not verified(request, b"another")
    assert not verified(request._replace(body=request.body + b" "), "Geheimnis ß".encode())
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("agentctl/")
    assert request.headers["x-agentctl-event"] == "session.stopped"
    assert (request.id, request.headers["x-agentctl-attempt"]) == ("d1", "3")
    assert request.json()["delivery_id"] == "d1"


def test_the_old_signature_with_a_new_moment_is_refused() -> None:
    body = b"{}"
    then, now = signatures("s", 1000, body), signatures("s", 2000, body)
    assert (
        then["X-Agentctl-Signature"].partition(",")[2] != now["X-Agentctl-Signature"].partition(",")[2]
    )
    assert then["X-Hub-Signature-256"] == now["X-Hub-Signature-256"]


def test_without_a_secret_nothing_is_signed() -> None:
    made = headers("session.idle", "d", 1, b"{}", None)
    assert not [name for name in made if "Signature" in name]
    assert abs(int(made["X-Agentctl-Timestamp"]) - time.time()) < 60


@pytest.mark.parametrize("environ", [{}, {"AGENTCTL_WEBHOOK_SECRET": "s"}])
def test_an_address_of_its_own(tmp_path: Path, environ: dict[str, str]) -> None:
    settings = config.load({"AGENTCTL_HOME": str(tmp_path)})
    deliverer = Webhooks(environ)
    with Receiver() as receiver:
        assert deliverer.knows("fuse", receiver.url, settings)
        assert not deliverer.knows("fuse", None, settings)
        deliverer.deliver(delivery("fuse", receiver.url), EVENT, settings)
    [request] = receiver.requests
    assert ("x-agentctl-signature" in request.headers) == bool(environ)
    assert not environ or verified(request, b"s")


def test_every_try_has_the_same_body(tmp_path: Path) -> None:
    settings = config.load({"AGENTCTL_HOME": str(tmp_path)})
    with Receiver(500) as receiver:
        for _ in range(2):
            Webhooks({}).deliver(delivery("fuse", receiver.url), EVENT, settings)
    first, second = receiver.requests
    assert first.body == second.body
    assert json.loads(first.body)["seq"] == 7
