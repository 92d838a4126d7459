"""A small HTTP server, for those who read metrics: GET of a few pages, one answer, closed.

Bounded in all that a stranger could use up: bytes of a request, time of a connection, connections at
once. Another user of this machine is refused, and cannot take a place from those who are not; of those
who do not finish their request, the slowest goes when a place is wanted. It listens where it is told to,
and tries again for as long as the port is another's.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from agentctl.system import tcp_peers

log = logging.getLogger("agentctl.daemon.parts.http")

REQUEST_CAP = 8192  # bytes
PATIENCE = 5.0  # seconds for a request to arrive, and again for its answer to leave
AT_ONCE = 8  # connections
REFUSED_AT_ONCE = 2  # connections that are told why they are refused; others are closed
BACKLOG = 64
TURN = 0.5  # seconds for one that is let go of to make room
RETRY = 30.0  # seconds: nobody tells when a port becomes free
BREATH = 1.0  # seconds after an accept that failed, as where all descriptors are in use
LINGER = (
    0.5  # seconds for a client to hang up, so that the rest of what it sends cannot cost it our answer
)

REFUSAL = "this is another user's daemon, which answers its own user and root; see metrics.users\n"
WORDS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class Answer(NamedTuple):
    status: int
    body: str
    type: str = "text/plain; charset=utf-8"

    def written(self) -> bytes:
        body = self.body.encode()
        allow = "Allow: GET\r\n" if self.status == 405 else ""
        head = (
            f"HTTP/1.1 {self.status} {WORDS[self.status]}\r\nContent-Type: {self.type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
            f"X-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n"
        )
        return head.encode() + body


Pages = Mapping[str, Callable[[], Answer]]


def answer(raw: bytes, address: str, pages: Pages) -> Answer:
    """What to say to these bytes, which came to a server at that address."""
    head, end, _ = raw.partition(b"\r\n\r\n")
    if not end:
        return Answer(*((431, "too long\n") if len(raw) >= REQUEST_CAP else (400, "not a request\n")))
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Answer(400, "not a request\n")
    hosts = [
        value for name, _, value in (line.partition(":") for line in lines) if name.lower() == "host"
    ]
    if len(hosts) > 1 or (not hosts and words[2] != "HTTP/1.0"):
        return Answer(400, "one Host is needed\n")
    if hosts and not trusted(hosts[0], address):
        return Answer(403, "that name is not this machine's; ask for 127.0.0.1 or localhost\n")
    page = pages.get(words[1].partition("?")[0])
    if page is None:
        return Answer(404, f"there is {' and '.join(pages)}\n")
    if words[0] != "GET":
        return Answer(405, "GET only\n")
    return page()


def trusted(host: str, address: str) -> bool:
    """A web page may have a name of its own point at this machine, and read what a browser here can
    reach (DNS rebinding); its `Host` is then that name. Where others reach us anyway, any will do."""
    if not loopback(address):
        return True
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return name in {"localhost", "127.0.0.1", "::1", address.lower()}


def loopback(address: str) -> bool:
    return address.lower() in ("localhost", "::1") or address.startswith("127.")


class Server:
    """One thread that accepts, one for each connection."""

    def __init__(
        self, address: str, port: int, pages: Pages, users: Container[int] | None = None
    ) -> None:
        """`users`: whom it answers, by uid; None: everybody who reaches it."""
        self.address = address
        self._users = users
        self.port = port  # 0: any that is free, known once it listens
        self.problem: str | None = None  # why it does not listen
        self.listening = False
        self._pages = pages
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._refusing = threading.BoundedSemaphore(REFUSED_AT_ONCE)
        self._mutex = threading.Lock()
        self._asking: list[socket.socket] = []  # whose request is not whole yet, the oldest first
        self._woken, self._wake = socket.socketpair()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No new connection; those that are being answered end by themselves."""
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
            made = socket.create_server(place[:2], family=family, backlog=BACKLOG)
        except (OSError, UnicodeError) as error:  # no name may have such a form
            why = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
            told = f"cannot listen on {self.address} port {self.port}: {why}"
            if told != self.problem:
                log.warning("%s; tried again every %g s", told, RETRY)
            self.problem = told
            return None
        made.setblocking(False)
        self.port, self.problem, self.listening = made.getsockname()[1], None, True
        log.info("metrics on %s port %d", self.address, self.port)
        return made

    def _serve(self, listening: socket.socket) -> None:
        waiting = select.poll()
        waiting.register(listening, select.POLLIN)
        waiting.register(self._woken, select.POLLIN)
        while not self._stopping:
            waiting.poll()
            try:
                connection, _ = listening.accept()
            except BlockingIOError:  # woken to end, or it hung up again
                continue
            except OSError as error:
                log.warning("cannot accept: %s", error)
                self._sleep(BREATH)
                continue
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        try:
            uid = tcp_peers.uid_of(connection) if self._users is not None else None
        except OSError:  # it has hung up again
            connection.close()
            return
        if self._users is not None and uid not in self._users:
            if self._refusing.acquire(blocking=False):
                self._start(self._refuse, connection, self._refusing)
            else:
                connection.close()
            return
        if not self._free.acquire(blocking=False):
            self._let_the_slowest_go()
            if not self._free.acquire(timeout=TURN):
                connection.setblocking(False)
                self._send(connection, Answer(503, "too many at once\n"))
                connection.close()
                return
        with self._mutex:
            self._asking.append(connection)
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
                self._no_longer_asking(connection)
                place.release()

        try:
            threading.Thread(target=run, daemon=True).start()
        except RuntimeError:  # no thread to be had
            self._no_longer_asking(connection)
            connection.close()
            place.release()

    def _converse(self, connection: socket.socket) -> None:
        raw = _received(connection)
        if self._no_longer_asking(connection) and raw:
            connection.settimeout(PATIENCE)
            self._send(connection, self._answer(raw))
            _hung_up(connection)

    def _refuse(self, connection: socket.socket) -> None:
        connection.settimeout(LINGER)
        self._send(connection, Answer(403, REFUSAL))
        _hung_up(connection)

    def _no_longer_asking(self, connection: socket.socket) -> bool:
        """Whether it still was: not one that was let go of."""
        with self._mutex:
            if connection not in self._asking:
                return False
            self._asking.remove(connection)
            return True

    def _let_the_slowest_go(self) -> None:
        with self._mutex:
            slowest = self._asking.pop(0) if self._asking else None
            if slowest is not None:
                try:
                    slowest.shutdown(socket.SHUT_RDWR)  # whoever reads from it reads its end
                except OSError:  # it has hung up
                    pass

    def _answer(self, raw: bytes) -> Answer:
        try:
            return answer(raw, self.address, self._pages)
        except Exception:  # the fence
            log.exception("could not answer")
            return Answer(500, "that failed; see the log: agentctl daemon logs\n")

    def _send(self, connection: socket.socket, said: Answer) -> None:
        try:
            connection.sendall(said.written())
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # it hung up, or does not read
            pass

    def _sleep(self, seconds: float) -> None:
        waiting = select.poll()
        waiting.register(self._woken, select.POLLIN)
        waiting.poll(seconds * 1000)


def _received(connection: socket.socket) -> bytes:
    """A request's head, as far as it came within our patience."""
    deadline, raw = time.monotonic() + PATIENCE, b""
    while b"\r\n\r\n" not in raw and len(raw) < REQUEST_CAP:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        connection.settimeout(left)
        try:
            more = connection.recv(REQUEST_CAP - len(raw))
        except OSError:
            break
        if not more:
            break
        raw += more
    return raw


def _hung_up(connection: socket.socket) -> None:
    deadline = time.monotonic() + LINGER
    while (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            if not connection.recv(1 << 16):
                return
        except OSError:
            return
