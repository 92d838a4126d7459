"""A receiver of webhooks: a real server on loopback that answers as a test wants it to."""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.waiting import DEADLINE, until


class Request(NamedTuple):
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["x-agentctl-delivery"]

    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Answers 200, or what `answers` says, each once. Use as a context manager."""

    def __init__(
        self, *answers: "int | Callable[[Handler], None]", tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[Request] = []
        self.answers = list(answers)
        self.over = threading.Event()
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.receiver = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._thread.join(DEADLINE)
        self._server.server_close()

    def wait_for(self, count: int) -> list[Request]:
        until(lambda: len(self.requests) >= count, f"{count} requests")
        return self.requests[:count]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    receiver: Receiver

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left, or refused our certificate: the test sees that on its side."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver = self.server.receiver
        receiver.requests.append(Request(self.path, headers, body))
        answer = receiver.answers.pop(0) if receiver.answers else 200
        if callable(answer):
            answer(self)
        else:
            self.answer(answer)

    def answer(self, status: int, text: str = "", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
        pass


def hang(handler: Handler) -> None:
    """Says nothing until the test is over."""
    handler.server.receiver.over.wait(DEADLINE)
    handler.close_connection = True


def drip(handler: Handler) -> None:
    """One byte now and then, for ever: each read of it succeeds."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not handler.server.receiver.over.wait(0.02):
        handler.wfile.write(b"x")
    handler.close_connection = True


def leave(handler: Handler) -> None:
    """Closes without a word."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def redirect(handler: Handler) -> None:
    handler.answer(302, Location="https://me:hush@elsewhere.example/x?hush")
