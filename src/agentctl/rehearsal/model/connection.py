"""HTTP: read the body of a request in any encoding, send answers whole or in pieces."""

from __future__ import annotations

import gzip
import json
import select
import socket
import zlib
from http.server import BaseHTTPRequestHandler
from typing import Any

BIGGEST = 256 * 1024 * 1024  # bytes of a request: an agent sends its whole conversation each time


class BadBody(ValueError):
    """The body is not a JSON object, or cannot be decoded."""


def read_body(handler: BaseHTTPRequestHandler) -> dict[str, Any]:
    """Return the JSON object of a request. Raises BadBody."""
    try:
        raw = _decode(_read_raw(handler), handler.headers.get("content-encoding", ""))
        body = json.loads(raw or b"{}")
    except (ValueError, OSError, zlib.error, EOFError) as error:
        raise BadBody(str(error)) from error
    if not isinstance(body, dict):
        raise BadBody("not a JSON object")
    return body


def _read_raw(handler: BaseHTTPRequestHandler) -> bytes:
    if "chunked" in handler.headers.get("transfer-encoding", "").lower():
        return _read_chunks(handler)
    size = int(handler.headers.get("content-length") or 0)
    if not 0 <= size <= BIGGEST:
        raise BadBody(f"{size} bytes")
    return handler.rfile.read(size)


def _read_chunks(handler: BaseHTTPRequestHandler) -> bytes:
    data = bytearray()
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        if not 0 <= size <= BIGGEST - len(data):
            raise BadBody(f"a chunk of {size} bytes")
        data += handler.rfile.read(size)
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass  # trailers
    return bytes(data)


def _decode(raw: bytes, encoding: str) -> bytes:
    match encoding.strip().lower():
        case "" | "identity":
            return raw
        case "gzip":
            return gzip.decompress(raw)
        case "deflate":
            return zlib.decompress(raw)
    raise BadBody(f"content-encoding {encoding!r}")


class HttpLine:
    """Sends the answer to one HTTP request."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler

    def open(self) -> None:
        self._handler.send_response(200)
        self._handler.send_header("content-type", "text/event-stream; charset=utf-8")
        self._handler.send_header("cache-control", "no-cache")
        self._handler.send_header("transfer-encoding", "chunked")
        # One connection per answer: no client keeps a connection to a server that was stopped.
        self._handler.send_header("connection", "close")
        self._handler.end_headers()
        self._handler.close_connection = True

    def send(self, frames: str) -> None:
        data = frames.encode()
        if data:  # an empty chunk would end the answer
            self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def close(self) -> None:
        self._handler.wfile.write(b"0\r\n\r\n")

    def reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self._handler.send_response(status)
        self._handler.send_header("content-type", "application/json")
        self._handler.send_header("content-length", str(len(data)))
        self._handler.end_headers()
        if self._handler.command != "HEAD":
            self._handler.wfile.write(data)

    def is_gone(self) -> bool:
        """Return True if the client has closed: the socket is readable, but has no data."""
        connection: socket.socket = self._handler.connection
        try:
            poll = select.poll()  # select() cannot watch descriptors above 1023
            poll.register(connection, select.POLLIN)
            return bool(poll.poll(0)) and not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            return True
