"""HTTP bodies in every wrapping that clients use, and the way back."""

import gzip
import http.client
import io
import json
import socket
import zlib
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler

import pytest

from agentctl.rehearsal.model.connection import BadBody, HttpLine, read_body

BODY = {"model": "m", "text": "ä" * 3000}
RAW = json.dumps(BODY).encode()


class Request(BaseHTTPRequestHandler):
    """A request that has been read up to its body, without a server around it."""

    def __init__(self, body: bytes, **headers: str) -> None:
        self.sent = io.BytesIO()
        self.rfile, self.wfile = io.BytesIO(body), self.sent
        self.headers = http.client.HTTPMessage()
        for name, value in headers.items():
            Message.add_header(self.headers, name.replace("_", "-"), value)
        self.command, self.request_version, self.requestline = "POST", "HTTP/1.1", "POST / HTTP/1.1"
        self.protocol_version, self.close_connection = "HTTP/1.1", False

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it so)
        """Silent."""


def chunked(raw: bytes, size: int = 1000) -> bytes:
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    framed = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return framed + b"0\r\nTrailer: x\r\n\r\n"


def test_a_plain_body() -> None:
    assert read_body(Request(RAW + b"more", content_length=str(len(RAW)))) == BODY
    assert read_body(Request(b"")) == {}


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_compressed_body(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(RAW)
    assert read_body(Request(packed, content_length=str(len(packed)), content_encoding=encoding)) == BODY


def test_a_body_in_chunks_and_a_compressed_one() -> None:
    request = Request(chunked(RAW) + b"next", transfer_encoding="chunked")
    assert read_body(request) == BODY
    assert request.rfile.read() == b"next"
    compressed = read_body(
        Request(chunked(gzip.compress(RAW)), transfer_encoding="chunked", content_encoding="gzip")
    )
    assert compressed == BODY


@pytest.mark.parametrize(
    "request_",
    [
        Request(b"{", content_length="1"),
        Request(b"[]", content_length="2"),
        Request(RAW, content_length="-5"),
        Request(RAW, content_length="many"),
        Request(b"zz\r\n", transfer_encoding="chunked"),
        Request(b"not gzip", content_length="8", content_encoding="gzip"),
        Request(b"not zlib", content_length="8", content_encoding="deflate"),
        Request(RAW, content_length=str(len(RAW)), content_encoding="br"),
    ],
)
def test_a_body_that_cannot_be_read_is_bad(request_: Request) -> None:
    with pytest.raises(BadBody):
        read_body(request_)


def test_a_streamed_answer_is_chunked_and_ends_properly() -> None:
    request = Request(b"")
    line = HttpLine(request)
    line.open()
    line.send("data: ä\n\n")
    line.send("")
    line.close()
    head, _, body = request.sent.getvalue().partition(b"\r\n\r\n")
    assert b"text/event-stream" in head
    assert body == b"a\r\n" + "data: ä\n\n".encode() + b"\r\n0\r\n\r\n"
    assert request.close_connection


def test_a_whole_answer() -> None:
    request = Request(b"")
    HttpLine(request).reply(529, {"a": 1})
    head, _, body = request.sent.getvalue().partition(b"\r\n\r\n")
    assert b" 529 " in head
    assert body == b'{"a": 1}'


def test_a_head_request_gets_no_body() -> None:
    request = Request(b"")
    request.command = "HEAD"
    HttpLine(request).reply(200, {"a": 1})
    assert request.sent.getvalue().endswith(b"\r\n\r\n")


def test_a_quiet_client_is_not_gone() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        request = Request(b"")
        request.connection = ours
        line = HttpLine(request)
        assert not line.is_gone()
        theirs.send(b"x")  # the beginning of a next request
        assert not line.is_gone()
        ours.recv(1)
        theirs.close()
        assert line.is_gone()
    assert line.is_gone()  # our own end is closed, too
