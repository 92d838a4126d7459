"""One POST to a real server that may hang, drip, redirect or lie about who it is."""

import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from agentctl.deliver import http
from agentctl.deliver.http import sent
from tests.receiver import Handler, Receiver, drip, hang, leave, redirect

SOON = 0.3  # seconds of patience, where it is to run out


def test_it_arrives(tmp_path: Path) -> None:
    with Receiver() as receiver:
        result = sent(f"http://me:p%40ss@127.0.0.1:{receiver.port}/a?b=c", b'{"x":1}', {"X-Mine": "yes"})
    assert (result.outcome, result.status, result.told) == ("delivered", 200, "")
    assert result.seconds > 0
    [request] = receiver.requests
    assert (request.path, request.body) == ("/a?b=c", b'{"x":1}')
    assert request.headers["x-mine"] == "yes"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.headers["authorization"] == "Basic bWU6cEBzcw=="
    assert request.headers["content-length"] == "7"


@pytest.mark.parametrize("status", [201, 202, 204])
def test_every_2xx_is_a_yes(status: int) -> None:
    with Receiver(status) as receiver:
        assert sent(receiver.url, b"", {}).outcome == "delivered"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_everything_else_is_a_no(status: int) -> None:
    with Receiver(status) as receiver:
        result = sent(receiver.url, b"", {})
    assert (result.outcome, result.status) == ("failed", status)
    assert f"answers {status}" in result.told


def test_gone_is_for_ever() -> None:
    with Receiver(410) as receiver:
        assert sent(receiver.url, b"", {}).outcome == "dead"


def test_what_it_says_is_told_on_one_line_and_not_at_length() -> None:
    def complain(handler: Handler) -> None:
        handler.answer(500, "no\r\n\x1b[31mway " * 100_000)

    with Receiver(complain) as receiver:
        told = sent(receiver.url, b"", {}).told
    assert told.startswith(f"127.0.0.1:{receiver.port} answers 500 Internal Server Error: no [31mway no")
    assert told.isprintable()
    assert len(told) <= http.BODY + 100


def test_a_redirect_is_not_followed() -> None:
    with Receiver(redirect) as receiver:
        result = sent(receiver.url, b"", {})
    assert (result.outcome, result.status, len(receiver.requests)) == ("failed", 302, 1)
    assert "(to https://elsewhere.example/x?…): redirects are not followed" in result.told
    assert "hush" not in result.told


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("7", 7.0),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("9" * 50, 999999999.0),
        ("-1", None),
    ],
)
def test_it_may_ask_for_a_pause(given: str, meant: float | None) -> None:
    with Receiver(lambda handler: handler.answer(429, Retry_After=given)) as receiver:
        assert sent(receiver.url, b"", {}).after == meant


@pytest.mark.parametrize("how", [hang, drip])
def test_the_deadline_holds_whatever_it_does(how: object) -> None:
    with Receiver(how) as receiver:  # type: ignore[arg-type]
        result = sent(receiver.url, b"", {}, SOON)
    assert result.outcome == "failed"
    assert result.told == f"127.0.0.1:{receiver.port}: no answer within 0.3 s"


def test_the_deadline_holds_for_the_greeting_of_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        result = sent(f"https://127.0.0.1:{port}/", b"", {}, SOON)
    assert result.told == f"127.0.0.1:{port}: no answer within 0.3 s"


def test_the_deadline_holds_while_it_does_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        result = sent(f"http://127.0.0.1:{port}/", b"x" * (64 << 20), {}, SOON)
    assert result.told == f"127.0.0.1:{port}: no answer within 0.3 s"


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    result = sent(f"http://127.0.0.1:{port}/", b"", {})
    assert (result.outcome, result.told) == ("failed", f"127.0.0.1:{port}: Connection refused")


def test_a_name_that_nobody_has() -> None:
    result = sent("http://nobody.invalid/", b"", {})
    assert result.outcome == "failed"
    assert result.told.startswith("nobody.invalid: the name cannot be looked up")


def test_one_that_leaves_without_a_word() -> None:
    with Receiver(leave) as receiver:
        result = sent(receiver.url, b"", {})
    assert result.outcome == "failed"
    assert result.told


def test_one_that_speaks_no_http() -> None:
    def babble(handler: Handler) -> None:
        handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        handler.close_connection = True

    with Receiver(babble) as receiver:
        result = sent(receiver.url, b"", {})
    assert result.outcome == "failed"
    assert "BadStatusLine" in result.told


def test_what_is_no_address_is_given_up() -> None:
    result = sent("ftp://me:hush@example.org/", b"", {})
    assert result.outcome == "dead"
    assert "hush" not in result.told


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    made = tmp_path_factory.mktemp("tls") / "both.pem"
    words = (
        f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {made} -out {made}.crt"
        " -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(["openssl", *words.split()], check=True, capture_output=True, timeout=60)
    made.write_text(made.read_text() + Path(f"{made}.crt").read_text())
    return made


def _tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_a_certificate_nobody_vouches_for_is_refused(certificate: Path) -> None:
    with Receiver(tls=_tls(certificate)) as receiver:
        result = sent(f"https://localhost:{receiver.port}/", b"", {})
        assert receiver.requests == []
    assert result.outcome == "failed"
    assert "its certificate is not trusted: self-signed certificate" in result.told


def test_a_certificate_for_another_name_is_refused(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _trust(certificate, monkeypatch)
    with Receiver(tls=_tls(certificate)) as receiver:
        result = sent(f"https://127.0.0.1:{receiver.port}/", b"", {})
        assert receiver.requests == []
    assert "its certificate is not trusted" in result.told
    assert "mismatch" in result.told


def test_a_certificate_that_is_good_is_taken(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _trust(certificate, monkeypatch)
    with Receiver(hang, tls=_tls(certificate)) as receiver:
        url = f"https://localhost:{receiver.port}/"
        assert sent(url, b"", {}, SOON).told.endswith("no answer within 0.3 s")
        assert sent(url, b"{}", {}).outcome == "delivered"
    assert receiver.requests[-1].body == b"{}"


def _trust(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SSL_CERT_FILE does it."""
    context = ssl.create_default_context(cafile=f"{certificate}.crt")
    monkeypatch.setattr(http, "_context", lambda: context)
