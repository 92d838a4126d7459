"""A receiver of webhooks that accepts, refuses, fails and hangs in turn, and remembers all that came."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.soak.scene import SECRET

MOODS = ("accepting", "refusing", "accepting", "failing", "accepting", "hanging")


class Arrival(NamedTuple):
    delivery: str
    seq: int
    type: str
    accepted: bool
    body: bytes


class Flapping:
    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.wrong: list[str] = []
        self.mood = "accepting"
        self._server: Server | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._listen()

    def become(self, mood: str) -> None:
        """Change the mood. Refusing: the port is closed."""
        self.mood = mood
        if mood == "refusing":
            self.close()
        elif self._server is None:
            self._listen()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._server = None

    def _listen(self) -> None:
        self._server = Server(("127.0.0.1", self.port), Handler)
        self._server.flapping = self
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def take(self, headers: Any, body: bytes, *, accepted: bool) -> None:
        message = json.loads(body)
        self.arrivals.append(
            Arrival(message["delivery_id"], message["seq"], message["hook_type"], accepted, body)
        )
        if headers["X-Agentctl-Delivery"] != message["delivery_id"]:
            self.wrong.append(f"delivery {message['delivery_id']}: another id in its header")
        parts = dict(part.split("=", 1) for part in headers["X-Agentctl-Signature"].split(","))
        right = hmac.new(SECRET.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(right, parts["v1"]):
            self.wrong.append(f"delivery {message['delivery_id']}: its signature is wrong")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    flapping: Flapping

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A daemon that was killed while it sent."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        flapping, mood = self.server.flapping, self.server.flapping.mood
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            return  # the daemon was killed while it sent
        flapping.take(self.headers, body, accepted=mood == "accepting")
        if mood == "hanging":
            while flapping.mood == "hanging":
                time.sleep(0.1)
            self.close_connection = True
            return
        self.send_response(200 if mood == "accepting" else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
        pass
