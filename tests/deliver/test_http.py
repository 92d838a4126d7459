"""One POST to a real server that may hang, drip, redirect or lie about who it is."""

import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from agentctl.deliver import http
from agentctl.deliver.http import post
from tests.receiver import Handler, Receiver, drip, hang, leave, redirect

SOON = 0.3  # seconds of patience, if the test wants the timeout


def test_a_request_arrives_with_its_headers_and_body(tmp_path: Path) -> None:
    with Receiver() as receiver:
        result = post(f"http://me:p%40ss@127.0.0.1:{receiver.port}/a?b=c", b'{"x":1}', {"X-Mine": "yes"})
    assert (result.outcome, result.status, result.message) == ("delivered", 200, "")
    assert result.seconds > 0
    [request] = receiver.requests
    assert (request.path, request.body) == ("/a?b=c", b'{"x":1}')
    assert request.headers["x-mine"] == "yes"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.headers["authorization"] == "Basic bWU6cEBzcw=="
    assert request.headers["content-length"] == "7"


@pytest.mark.parametrize("status", [201, 202, 204])
def test_every_2xx_is_delivered(status: int) -> None:
    with Receiver(status) as receiver:
        assert post(receiver.url, b"", {}).outcome == "delivered"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_every_error_status_is_failed(status: int) -> None:
    with Receiver(status) as receiver:
        result = post(receiver.url, b"", {})
    assert (result.outcome, result.status) == ("failed", status)
    assert f"answers {status}" in result.message


def test_410_is_dead() -> None:
    with Receiver(410) as receiver:
        assert post(receiver.url, b"", {}).outcome == "dead"


def test_the_body_of_an_error_is_one_short_line() -> None:
    def answer_at_length(handler: Handler) -> None:
        handler.answer(500, "no\r\n\x1b[31mway " * 100_000)

    with Receiver(answer_at_length) as receiver:
        message = post(receiver.url, b"", {}).message
    assert message.startswith(
        f"127.0.0.1:{receiver.port} answers 500 Internal Server Error: no [31mway no"
    )
    assert message.isprintable()
    assert len(message) <= http.BODY + 100


def test_a_redirect_is_not_followed() -> None:
    with Receiver(redirect) as receiver:
        result = post(receiver.url, b"", {})
    assert (result.outcome, result.status, len(receiver.requests)) == ("failed", 302, 1)
    assert "(to https://elsewhere.example/x?…): redirects are not followed" in result.message
    assert "hush" not in result.message


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("9" * 50, 999999999.0),
        ("-1", None),
    ],
)
def test_a_receiver_may_set_a_pause(header: str, seconds: float | None) -> None:
    with Receiver(lambda handler: handler.answer(429, Retry_After=header)) as receiver:
        assert post(receiver.url, b"", {}).after == seconds


@pytest.mark.parametrize("how", [hang, drip])
def test_the_deadline_holds_while_it_hangs_or_drips(how: object) -> None:
    with Receiver(how) as receiver:  # type: ignore[arg-type]
        result = post(receiver.url, b"", {}, SOON)
    assert result.outcome == "failed"
    assert result.message == f"127.0.0.1:{receiver.port}: no answer within 0.3 s"


def test_the_deadline_holds_for_the_tls_handshake() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        result = post(f"https://127.0.0.1:{port}/", b"", {}, SOON)
    assert result.message == f"127.0.0.1:{port}: no answer within 0.3 s"


def test_the_deadline_holds_while_it_does_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        result = post(f"http://127.0.0.1:{port}/", b"x" * (64 << 20), {}, SOON)
    assert result.message == f"127.0.0.1:{port}: no answer within 0.3 s"


def test_a_closed_port_is_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    result = post(f"http://127.0.0.1:{port}/", b"", {})
    assert (result.outcome, result.message) == ("failed", f"127.0.0.1:{port}: Connection refused")


def test_an_unknown_name_is_failed() -> None:
    result = post("http://nosuch.invalid/", b"", {})
    assert result.outcome == "failed"
    assert result.message.startswith("nosuch.invalid: the name cannot be looked up")


def test_a_closed_connection_is_failed() -> None:
    with Receiver(leave) as receiver:
        result = post(receiver.url, b"", {})
    assert result.outcome == "failed"
    assert result.message


def test_another_protocol_is_failed() -> None:
    def answer_as_ssh(handler: Handler) -> None:
        handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        handler.close_connection = True

    with Receiver(answer_as_ssh) as receiver:
        result = post(receiver.url, b"", {})
    assert result.outcome == "failed"
    assert "BadStatusLine" in result.message


def test_an_address_that_is_not_http_is_dead() -> None:
    result = post("ftp://me:hush@example.org/", b"", {})
    assert result.outcome == "dead"
    assert "hush" not in result.message


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    pem = tmp_path_factory.mktemp("tls") / "both.pem"
    words = (
        f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {pem} -out {pem}.crt"
        " -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(["openssl", *words.split()], check=True, capture_output=True, timeout=60)
    pem.write_text(pem.read_text() + Path(f"{pem}.crt").read_text())
    return pem


def make_tls_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_a_self_signed_certificate_is_refused(certificate: Path) -> None:
    with Receiver(tls=make_tls_context(certificate)) as receiver:
        result = post(f"https://localhost:{receiver.port}/", b"", {})
        assert receiver.requests == []
    assert result.outcome == "failed"
    assert "its certificate is not trusted: self-signed certificate" in result.message


def test_a_certificate_for_another_name_is_refused(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust_certificate(certificate, monkeypatch)
    with Receiver(tls=make_tls_context(certificate)) as receiver:
        result = post(f"https://127.0.0.1:{receiver.port}/", b"", {})
        assert receiver.requests == []
    assert "its certificate is not trusted" in result.message
    assert "mismatch" in result.message


def test_a_trusted_certificate_is_accepted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust_certificate(certificate, monkeypatch)
    with Receiver(hang, tls=make_tls_context(certificate)) as receiver:
        url = f"https://localhost:{receiver.port}/"
        assert post(url, b"", {}, SOON).message.endswith("no answer within 0.3 s")
        assert post(url, b"{}", {}).outcome == "delivered"
    assert receiver.requests[-1].body == b"{}"


def trust_certificate(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSL_CERT_FILE has this effect."""
    context = ssl.create_default_context(cafile=f"{certificate}.crt")
    monkeypatch.setattr(http, "_context", lambda: context)
