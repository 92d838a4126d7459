"""The content of a delivery, and that a receiver can verify it."""

import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentctl.config import settings as config
from agentctl.deliver.webhook import WebhookSender, send_webhook, sign_body, webhook_headers
from agentctl.state.journal import Event
from agentctl.state.outbox import Delivery
from tests.receiver import Receiver, Request
from tests.waiting import until

EVENT = Event("session.stopped", 100.0, 99.0, "demo", "s1", "g", {"session": {"id": "s1"}}, 7)


def make_delivery(target: str, url: str | None = None) -> Delivery:
    return Delivery("d1", "webhook", target, url, 7, 1.0, 1.0, 1.0, 1.0, 3, "pending", None, None)


def is_verified(request: Request, secret: bytes) -> bool:
    """Verify it as the documentation says."""
    parts = dict(part.split("=", 1) for part in request.headers["x-agentctl-signature"].split(","))
    content = parts["t"].encode() + b"." + request.body
    ours = hmac.new(secret, content, hashlib.sha256).hexdigest()
    plain = "sha256=" + hmac.new(secret, request.body, hashlib.sha256).hexdigest()
    return (
        hmac.compare_digest(ours, parts["v1"])
        and hmac.compare_digest(plain, request.headers["x-hub-signature-256"])
        and abs(time.time() - int(parts["t"])) < 300
        and parts["t"] == request.headers["x-agentctl-timestamp"]
    )


def test_a_delivery_can_be_verified(tmp_path: Path) -> None:
    with Receiver() as receiver:
        (tmp_path / "config.toml").write_text(
            f'[webhooks.ci]\nurl = "{receiver.url}"\nsecret = "Geheimnis ß"\n'
        )
        settings = config.load({"AGENTCTL_HOME": str(tmp_path)})
        result = WebhookSender({}).deliver(make_delivery("ci"), EVENT, settings)
    assert (result.outcome, result.status) == ("delivered", 200)
    [request] = receiver.requests
    assert is_verified(request, "Geheimnis ß".encode())
    assert not is_verified(request, b"another")
    assert not is_verified(request._replace(body=request.body + b" "), "Geheimnis ß".encode())
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("agentctl/")
    assert request.headers["x-agentctl-event"] == "session.stopped"
    assert (request.id, request.headers["x-agentctl-attempt"]) == ("d1", "3")
    assert request.json()["delivery_id"] == "d1"


def test_another_time_gives_another_signature() -> None:
    body = b"{}"
    then, now = sign_body("s", 1000, body), sign_body("s", 2000, body)
    assert (
        then["X-Agentctl-Signature"].partition(",")[2] != now["X-Agentctl-Signature"].partition(",")[2]
    )
    assert then["X-Hub-Signature-256"] == now["X-Hub-Signature-256"]


def test_without_a_secret_nothing_is_signed() -> None:
    headers = webhook_headers("session.idle", "d", 1, b"{}", None)
    assert not [name for name in headers if "Signature" in name]
    assert abs(int(headers["X-Agentctl-Timestamp"]) - time.time()) < 60


@pytest.mark.parametrize("environ", [{}, {"AGENTCTL_WEBHOOK_SECRET": "s"}])
def test_a_delivery_may_have_its_own_address(tmp_path: Path, environ: dict[str, str]) -> None:
    settings = config.load({"AGENTCTL_HOME": str(tmp_path)})
    deliverer = WebhookSender(environ)
    with Receiver() as receiver:
        assert deliverer.has_target("fuse", receiver.url, settings)
        assert not deliverer.has_target("fuse", None, settings)
        deliverer.deliver(make_delivery("fuse", receiver.url), EVENT, settings)
    [request] = receiver.requests
    assert ("x-agentctl-signature" in request.headers) == bool(environ)
    assert not environ or is_verified(request, b"s")


def test_every_try_has_the_same_body(tmp_path: Path) -> None:
    settings = config.load({"AGENTCTL_HOME": str(tmp_path)})
    with Receiver(500) as receiver:
        for _ in range(2):
            WebhookSender({}).deliver(make_delivery("fuse", receiver.url), EVENT, settings)
    first, second = receiver.requests
    assert first.body == second.body
    assert json.loads(first.body)["seq"] == 7


PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()


def documented_program(language: str, holding: str) -> str:
    """Return a program from the page for users: the tests run what is documented."""
    [text] = [
        part.partition("```")[0]
        for part in PAGE.split(f"```{language}\n")[1:]
        if holding in part.partition("```")[0]
    ]
    return text


def test_the_documented_receiver_accepts_a_delivery_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = subprocess.Popen(
        [sys.executable, "-c", documented_program("python", "class Receiver")],
        env={**os.environ, "SECRET": "s", "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None
    url = f"http://127.0.0.1:{port}/"
    try:
        until(lambda: send_webhook(EVENT, "d1", 1, url, "s").outcome == "delivered", "it listens")
        assert program.stdout.readline() == "demo has ended.\n"
        assert send_webhook(EVENT, "d1", 2, url, "s").outcome == "delivered"
        assert send_webhook(EVENT, "d2", 1, url, "another").status == 403
        assert (
            send_webhook(EVENT._replace(type="session.idle"), "d3", 1, url, "s").outcome == "delivered"
        )
        assert program.stdout.readline() == "demo is idle: its turn is over.\n"
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here to verify with")
@pytest.mark.parametrize(("secret", "output"), [("s", "verified\n"), ("another", "")])
def test_the_documented_shell_program_verifies_a_delivery(
    tmp_path: Path, secret: str, output: str
) -> None:
    body = '{"a": "ß"}'.encode()
    (tmp_path / "body.json").write_bytes(body)
    signature = sign_body("s", int(time.time()), body)["X-Agentctl-Signature"]
    ran = subprocess.run(
        ["sh", "-c", documented_program("sh", "openssl")],
        env={**os.environ, "SECRET": secret, "SIGNATURE": signature},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == output, ran.stderr
