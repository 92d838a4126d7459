"""The fake model server: `Model` starts it, stops it, opens its gates and shows its journal."""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from agentctl.light_typing import Callable, Mapping, NamedTuple
from agentctl.rehearsal.model import anthropic, chat, responses
from agentctl.rehearsal.model.connection import BadBody, HttpLine, read_body
from agentctl.rehearsal.model.gates import Gates, Stopped
from agentctl.rehearsal.model.journal import Journal, Note
from agentctl.rehearsal.model.performance import ClientLeft, ConnectionCut, Performance, Tally
from agentctl.rehearsal.model.request import Request
from agentctl.rehearsal.model.voice import Voice

HOST = "127.0.0.1"
MODELS = ("fake-1", "gpt-fake", "claude-fake")
SHUTDOWN_POLL = 0.1  # seconds: the most that stop() waits for the listener
STOP_DEADLINE = 5.0  # seconds for the last answers to notice


class Dialect(NamedTuple):
    """A protocol: how to read a request, write an answer, and write an error."""

    read_request: Callable[[Mapping[str, Any], Mapping[str, str]], Request]
    voice: Callable[[str], Voice]
    make_error: Callable[[int, str], dict[str, Any]]


DIALECTS = {
    "/messages": Dialect(anthropic.read_request, anthropic.AnthropicVoice, anthropic.make_error),
    "/responses": Dialect(responses.read_request, responses.ResponsesVoice, responses.make_error),
    "/chat/completions": Dialect(chat.read_request, chat.ChatVoice, chat.make_error),
}


class Model:
    """A model server on the loopback, in threads of this process.

    It can be stopped and started again: it keeps its port, its journal and its open gates.
    """

    def __init__(self, sink: Callable[[Note], None] | None = None) -> None:
        self.journal = Journal(sink)
        self.gates = Gates()
        self.tally = Tally()
        self._port = 0
        self._listener: _Listener | None = None

    def start(self, port: int = 0) -> Self:
        """Listen on this port; without one, on the port from before, or on any free port."""
        if self._listener:
            raise RuntimeError(f"already listening on {self.url}")
        self.gates.resume()
        self._listener = _Listener(self, port or self._port)
        self._port = self._listener.server_port
        serve = threading.Thread(target=self._listener.serve_forever, args=(SHUTDOWN_POLL,), daemon=True)
        serve.start()
        return self

    def stop(self) -> None:
        """Stop at once: close the listener and cut every connection."""
        listener, self._listener = self._listener, None
        if listener:
            self.gates.stop()
            listener.shutdown()
            listener.server_close()
            listener.cut_all()

    def open(self, gate: str) -> None:
        self.gates.open(gate)

    @property
    def url(self) -> str:
        """Without a path: some agents add /v1 themselves, for others the settings have it."""
        return f"http://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, model: Model, port: int) -> None:
        self.model = model
        self._live: set[socket.socket] = set()
        self._change = threading.Condition()
        super().__init__((HOST, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._change:
            self._live.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._change:
            self._live.discard(request)
            self._change.notify_all()

    def cut_all(self) -> None:
        with self._change:
            for connection in self._live:
                with suppress(OSError):  # the client closed it meanwhile
                    connection.shutdown(socket.SHUT_RDWR)
            self._change.wait_for(lambda: not self._live, STOP_DEADLINE)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that vanish. Anything else is a bug: performance it on standard error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # send each word at once
    server: _Listener

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """The journal is the log."""

    def do_POST(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        line = HttpLine(self)
        dialect = next((each for end, each in DIALECTS.items() if path.endswith(end)), None)
        try:
            body = read_body(self)
        except BadBody as error:
            self.close_connection = True  # we do not know where the next request begins
            line.reply(400, (dialect or DIALECTS["/responses"]).make_error(400, f"bad body: {error}"))
            return
        if path.endswith("/messages/count_tokens"):
            line.reply(200, {"input_tokens": max(1, len(str(body)) // 4)})
        elif path.endswith("/responses/compact"):
            line.reply(200, {"output": []})
        elif dialect:
            self._perform(dialect, body, line)
        else:
            line.reply(404, {"error": {"message": f"no such path: {path}", "type": "not_found"}})

    def _perform(self, dialect: Dialect, body: Mapping[str, Any], line: HttpLine) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            request = dialect.read_request(body, headers)
        except (AttributeError, TypeError) as error:  # JSON, but of another shape
            line.reply(400, dialect.make_error(400, f"not a request of this protocol: {error}"))
            return
        model = self.server.model
        voice = dialect.voice(request.model)
        performance = Performance(
            request,
            voice,
            dialect.make_error,
            line,
            gates=model.gates,
            journal=model.journal,
            tally=model.tally,
        )
        try:
            performance.play()
        except (Stopped, ConnectionCut, ClientLeft, ConnectionError):
            self.close_connection = True

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        _, models, name = path.rpartition("/models")
        if models:
            HttpLine(self).reply(200, _model(name.removeprefix("/")) if name else _models())
        elif path in ("", "/v1"):
            HttpLine(self).reply(200, {"ok": True})
        else:
            HttpLine(self).reply(
                404, {"error": {"message": f"no such path: {path}", "type": "not_found"}}
            )

    def do_HEAD(self) -> None:
        self.do_GET()


def _models() -> dict[str, Any]:
    """Return the list in the shapes of Anthropic and OpenAI at once; Codex reads `models`."""
    data = [_model(name) for name in MODELS]
    ends = {"has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
    return {"object": "list", "data": data, "models": [], **ends}


def _model(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "owned_by": "agentctl",
        "created": 0,
        "created_at": "2026-01-01T00:00:00Z",
    }
