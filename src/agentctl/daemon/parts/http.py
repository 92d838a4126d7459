"""A small HTTP server for metrics: GET of a few pages, one answer a connection.

It bounds all that a stranger could use up: the bytes of a request, the time of a connection, the number
of connections. Other users of this machine are refused, and take no place from those who are allowed. If
all places are taken, the slowest client that has not finished its request goes. While another program
uses the port, the server tries again.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time

from agentctl.light_typing import Callable, Container, Mapping, NamedTuple
from agentctl.system import sockets

log = logging.getLogger("agentctl.daemon.parts.http")

REQUEST_CAP = 8192  # bytes
PATIENCE = 5.0  # seconds to receive a request, and again to send its answer
AT_ONCE = 8  # connections
REFUSED_AT_ONCE = 2  # connections that get the reason of a refusal; more are closed without
BACKLOG = 64
TURN = 0.5  # seconds until a client that is disconnected has left its place
RETRY = 30.0  # seconds: nothing reports that a port becomes free
PAUSE = 1.0  # seconds after an accept that failed, for example without a free descriptor
LINGER = 0.5  # seconds for a client to hang up: bytes that it still sends would reset our answer

REFUSAL = "this is another user's daemon, which answers its own user and root; see metrics.users\n"
REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class Page(NamedTuple):
    status: int
    body: str
    type: str = "text/plain; charset=utf-8"

    def to_bytes(self) -> bytes:
        body = self.body.encode()
        allow = "Allow: GET\r\n" if self.status == 405 else ""
        head = (
            f"HTTP/1.1 {self.status} {REASONS[self.status]}\r\nContent-Type: {self.type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
            f"X-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n"
        )
        return head.encode() + body


Pages = Mapping[str, Callable[[], Page]]


def answer(raw: bytes, address: str, pages: Pages) -> Page:
    """Return the answer to these bytes, which a server at that address has received."""
    head, end, _ = raw.partition(b"\r\n\r\n")
    if not end:
        return Page(*((431, "too long\n") if len(raw) >= REQUEST_CAP else (400, "not a request\n")))
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Page(400, "not a request\n")
    hosts = [
        value for name, _, value in (line.partition(":") for line in lines) if name.lower() == "host"
    ]
    if len(hosts) > 1 or (not hosts and words[2] != "HTTP/1.0"):
        return Page(400, "one Host is needed\n")
    if hosts and not is_trusted(hosts[0], address):
        return Page(403, "that name is not this machine's; use 127.0.0.1 or localhost\n")
    page = pages.get(words[1].partition("?")[0])
    if page is None:
        return Page(404, f"there is {' and '.join(pages)}\n")
    if words[0] != "GET":
        return Page(405, "GET only\n")
    return page()


def is_trusted(host: str, address: str) -> bool:
    """Return False for a `Host` of another machine: a web page may point its own name at this machine,
    and read what a browser here can reach (DNS rebinding). A public address accepts every host."""
    if not is_loopback(address):
        return True
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return name in {"localhost", "127.0.0.1", "::1", address.lower()}


def is_loopback(address: str) -> bool:
    return address.lower() in ("localhost", "::1") or address.startswith("127.")


class HttpServer:
    """One thread that accepts, one for each connection."""

    def __init__(
        self, address: str, port: int, pages: Pages, users: Container[int] | None = None
    ) -> None:
        """`users`: the uids that are answered; None: every client that reaches the server."""
        self.address = address
        self._users = users
        self.port = port  # 0: a free port, known once the server listens
        self.problem: str | None = None  # why the server does not listen
        self.listening = False
        self._pages = pages
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._refusing = threading.BoundedSemaphore(REFUSED_AT_ONCE)
        self._mutex = threading.Lock()
        self._receiving: list[socket.socket] = []  # whose request is not whole yet, the oldest first
        self._woken, self._wake = socket.socketpair()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Accept no more connections; those that are being answered end by themselves."""
        self._stopping = True
        self._wake.send(b"x")
        self._thread.join()
        self._woken.close()
        self._wake.close()

    def _run(self) -> None:
        while not self._stopping:
            listening = self._listen()
            if listening is None:
                self._sleep(RETRY)
                continue
            with listening:
                self._serve(listening)
            self.listening = False

    def _listen(self) -> socket.socket | None:
        try:
            family, _, _, _, place = socket.getaddrinfo(
                self.address, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.create_server(place[:2], family=family, backlog=BACKLOG)
        except (OSError, UnicodeError) as error:  # UnicodeError: the address cannot be a host name
            why = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
            problem = f"cannot listen on {self.address} port {self.port}: {why}"
            if problem != self.problem:
                log.warning("%s; tried again every %g s", problem, RETRY)
            self.problem = problem
            return None
        listening.setblocking(False)
        self.port, self.problem, self.listening = listening.getsockname()[1], None, True
        log.info("metrics on %s port %d", self.address, self.port)
        return listening

    def _serve(self, listening: socket.socket) -> None:
        waiting = select.poll()
        waiting.register(listening, select.POLLIN)
        waiting.register(self._woken, select.POLLIN)
        while not self._stopping:
            waiting.poll()
            try:
                connection, _ = listening.accept()
            except BlockingIOError:  # woken to stop, or the client hung up again
                continue
            except OSError as error:
                log.warning("cannot accept: %s", error)
                self._sleep(PAUSE)
                continue
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        try:
            uid = sockets.find_peer_uid(connection) if self._users is not None else None
        except OSError:  # the client has hung up again
            connection.close()
            return
        if self._users is not None and uid not in self._users:
            if self._refusing.acquire(blocking=False):
                self._start(self._refuse, connection, self._refusing)
            else:
                connection.close()
            return
        if not self._free.acquire(blocking=False):
            self._disconnect_slowest()
            if not self._free.acquire(timeout=TURN):
                connection.setblocking(False)
                self._send(connection, Page(503, "too many at once\n"))
                connection.close()
                return
        with self._mutex:
            self._receiving.append(connection)
        self._start(self._converse, connection, self._free)

    def _start(
        self,
        work: Callable[[socket.socket], None],
        connection: socket.socket,
        place: threading.Semaphore,
    ) -> None:
        def run() -> None:
            try:
                with connection:
                    work(connection)
            finally:
                self._end_receiving(connection)
                place.release()

        try:
            threading.Thread(target=run, daemon=True).start()
        except RuntimeError:  # no thread can be started
            self._end_receiving(connection)
            connection.close()
            place.release()

    def _converse(self, connection: socket.socket) -> None:
        raw = _receive_head(connection)
        if self._end_receiving(connection) and raw:
            connection.settimeout(PATIENCE)
            self._send(connection, self._answer(raw))
            _wait_for_close(connection)

    def _refuse(self, connection: socket.socket) -> None:
        connection.settimeout(LINGER)
        self._send(connection, Page(403, REFUSAL))
        _wait_for_close(connection)

    def _end_receiving(self, connection: socket.socket) -> bool:
        """Return False if the client was disconnected meanwhile."""
        with self._mutex:
            if connection not in self._receiving:
                return False
            self._receiving.remove(connection)
            return True

    def _disconnect_slowest(self) -> None:
        with self._mutex:
            slowest = self._receiving.pop(0) if self._receiving else None
            if slowest is not None:
                try:
                    slowest.shutdown(socket.SHUT_RDWR)  # its thread reads the end of the stream
                except OSError:  # the client has hung up
                    pass

    def _answer(self, raw: bytes) -> Page:
        try:
            return answer(raw, self.address, self._pages)
        except Exception:  # the fence
            log.exception("a request failed")
            return Page(500, "that failed; see the log: agentctl daemon logs\n")

    def _send(self, connection: socket.socket, page: Page) -> None:
        try:
            connection.sendall(page.to_bytes())
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # the client hung up, or does not read
            pass

    def _sleep(self, seconds: float) -> None:
        waiting = select.poll()
        waiting.register(self._woken, select.POLLIN)
        waiting.poll(seconds * 1000)


def _receive_head(connection: socket.socket) -> bytes:
    """Return the head of a request, as far as it came in time."""
    deadline, raw = time.monotonic() + PATIENCE, b""
    while b"\r\n\r\n" not in raw and len(raw) < REQUEST_CAP:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        connection.settimeout(remaining)
        try:
            data = connection.recv(REQUEST_CAP - len(raw))
        except OSError:
            break
        if not data:
            break
        raw += data
    return raw


def _wait_for_close(connection: socket.socket) -> None:
    deadline = time.monotonic() + LINGER
    while (remaining := deadline - time.monotonic()) > 0:
        connection.settimeout(remaining)
        try:
            if not connection.recv(1 << 16):
                return
        except OSError:
            return
