"""The HTTP side: reads a request's body however it is wrapped, sends answers whole or in pieces."""

from __future__ import annotations

import gzip
import json
import select
import socket
import zlib
from http.server import BaseHTTPRequestHandler
from typing import Any

BIGGEST = 256 * 1024 * 1024  # bytes of a request; an agent sends its whole conversation each time


class BadBody(ValueError):
    """A body that is no JSON object, or cannot be unwrapped."""


def read_body(handler: BaseHTTPRequestHandler) -> dict[str, Any]:
    try:
        raw = _unwrapped(_raw(handler), handler.headers.get("content-encoding", ""))
        body = json.loads(raw or b"{}")
    except (ValueError, OSError, zlib.error, EOFError) as error:
        raise BadBody(str(error)) from error
    if not isinstance(body, dict):
        raise BadBody("not a JSON object")
    return body


def _raw(handler: BaseHTTPRequestHandler) -> bytes:
    if "chunked" in handler.headers.get("transfer-encoding", "").lower():
        return _chunks(handler)
    size = int(handler.headers.get("content-length") or 0)
    if not 0 <= size <= BIGGEST:
        raise BadBody(f"{size} bytes")
    return handler.rfile.read(size)


def _chunks(handler: BaseHTTPRequestHandler) -> bytes:
    found = bytearray()
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        if not 0 <= size <= BIGGEST - len(found):
            raise BadBody(f"a chunk of {size} bytes")
        found += handler.rfile.read(size)
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass  # trailers
    return bytes(found)


def _unwrapped(raw: bytes, encoding: str) -> bytes:
    match encoding.strip().lower():
        case "" | "identity":
            return raw
        case "gzip":
            return gzip.decompress(raw)
        case "deflate":
            return zlib.decompress(raw)
    raise BadBody(f"content-encoding {encoding!r}")


class HttpLine:
    """The way to the client of one HTTP request."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler

    def open(self) -> None:
        self._handler.send_response(200)
        self._handler.send_header("content-type", "text/event-stream; charset=utf-8")
        self._handler.send_header("cache-control", "no-cache")
        self._handler.send_header("transfer-encoding", "chunked")
        # A connection per answer: a client never meets one that a stopped server has left behind.
        self._handler.send_header("connection", "close")
        self._handler.end_headers()
        self._handler.close_connection = True

    def send(self, frames: str) -> None:
        data = frames.encode()
        if data:  # an empty chunk would be the end
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

    def gone(self) -> bool:
        """Readable but nothing to read: the other side has closed."""
        connection: socket.socket = self._handler.connection
        try:
            poll = select.poll()  # select() cannot watch descriptors above 1023
            poll.register(connection, select.POLLIN)
            return bool(poll.poll(0)) and not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            return True
