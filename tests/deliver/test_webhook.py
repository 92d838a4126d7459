"""What a receiver gets, and that it can verify it by itself."""

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
from agentctl.deliver.webhook import Webhooks, headers, send, signatures
from agentctl.state.journal import Event
from agentctl.state.outbox import Delivery
from tests.receiver import Receiver, Request
from tests.waiting import until

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


PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()


def block(language: str, holding: str) -> str:
    """Of the page for people: what stands there is what runs here."""
    [found] = [
        part.partition("```")[0]
        for part in PAGE.split(f"```{language}\n")[1:]
        if holding in part.partition("```")[0]
    ]
    return found


def test_the_receiver_of_the_documentation_takes_it_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = subprocess.Popen(
        [sys.executable, "-c", block("python", "class Receiver")],
        env={**os.environ, "SECRET": "s", "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None
    url = f"http://127.0.0.1:{port}/"
    try:
        until(lambda: send(EVENT, "d1", 1, url, "s").outcome == "delivered", "it listens")
        assert program.stdout.readline() == "demo has ended.\n"
        assert send(EVENT, "d1", 2, url, "s").outcome == "delivered"
        assert send(EVENT, "d2", 1, url, "another").status == 403
        assert send(EVENT._replace(type="session.idle"), "d3", 1, url, "s").outcome == "delivered"
        assert program.stdout.readline() == "demo rests: its turn is over.\n"
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here to verify with")
@pytest.mark.parametrize(("secret", "said"), [("s", "verified\n"), ("another", "")])
def test_the_shell_of_the_documentation_verifies_it(tmp_path: Path, secret: str, said: str) -> None:
    body = '{"a": "ß"}'.encode()
    (tmp_path / "body.json").write_bytes(body)
    signature = signatures("s", int(time.time()), body)["X-Agentctl-Signature"]
    ran = subprocess.run(
        ["sh", "-c", block("sh", "openssl")],
        env={**os.environ, "SECRET": secret, "SIGNATURE": signature},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == said, ran.stderr
