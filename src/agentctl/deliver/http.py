"""Send one POST, bounded in time and size: certificates are verified, redirects are not followed."""

from __future__ import annotations

import base64
import functools
import http.client
import io
import socket
import ssl
import time
from email.utils import parsedate_to_datetime

from agentctl.deliver.policy import Result
from agentctl.light_typing import TYPE_CHECKING, Mapping, NamedTuple
from agentctl.urls import Address, parse_url, redact_url

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

PATIENCE = 10.0  # seconds for all of it: to connect, to send, to be answered
BODY = 4096  # bytes of an answer that are read
GONE = 410


class Answer(NamedTuple):
    status: int
    reason: str
    after: float | None  # seconds, by Retry-After
    location: str | None
    text: str


class Deadline:
    """One limit for all steps of a request."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds that are left. Raises TimeoutError."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


class Channel(io.RawIOBase):
    """A socket for `http.client` whose reads and writes share one deadline: a server that sends a byte
    now and then would meet every timeout of a single read."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection, self._deadline = connection, deadline

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(Channel(self._connection, self._deadline))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._connection.settimeout(self._deadline.remaining())
        return self._connection.recv_into(buffer)

    def sendall(self, data: ReadableBuffer) -> None:
        view = memoryview(data)
        while view:
            self._connection.settimeout(self._deadline.remaining())
            view = view[self._connection.send(view) :]


def post(url: str, body: bytes, headers: Mapping[str, str], patience: float = PATIENCE) -> Result:
    """Return the result. Raises nothing for what the other end does."""
    began = time.monotonic()
    try:
        address = parse_url(url)
    except ValueError as error:
        return Result("dead", str(error))
    try:
        answer = _exchange(address, body, headers, Deadline(patience))
    except (OSError, http.client.HTTPException, ValueError) as error:
        late = isinstance(error, TimeoutError)
        why = f"no answer within {patience:g} s" if late else _describe_error(error)
        return Result("failed", f"{address.authority}: {why}", seconds=time.monotonic() - began)
    return _make_result(answer, address)._replace(seconds=time.monotonic() - began)


def _make_result(answer: Answer, address: Address) -> Result:
    if 200 <= answer.status < 300:
        return Result("delivered", status=answer.status)
    message = f"{address.authority} answers {answer.status} {answer.reason}".rstrip()
    if 300 <= answer.status < 400:
        place = f" (to {_safe_location(answer.location)})" if answer.location else ""
        message += f"{place}: redirects are not followed, give the address itself"
    elif answer.text:
        message += f": {answer.text}"
    return Result("dead" if answer.status == GONE else "failed", message, answer.status, answer.after)


def _exchange(address: Address, body: bytes, headers: Mapping[str, str], deadline: Deadline) -> Answer:
    with _connect(address, deadline) as plain:
        if not address.is_secure:
            return _request(Channel(plain, deadline), address, body, headers)
        plain.settimeout(deadline.remaining())
        with _context().wrap_socket(plain, server_hostname=address.host) as secured:
            return _request(Channel(secured, deadline), address, body, headers)


def _connect(address: Address, deadline: Deadline) -> socket.socket:
    """Connect to the first of its addresses that answers. The system looks up names in its own time."""
    problem: OSError = ConnectionError("it has no address")
    for family, kind, protocol, _, place in socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM
    ):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(deadline.remaining())
            connection.connect(place)
        except OSError as error:
            connection.close()
            problem = error
            continue
        return connection
    raise problem


def _request(channel: Channel, address: Address, body: bytes, headers: Mapping[str, str]) -> Answer:
    connection = http.client.HTTPConnection(address.host, address.port)
    connection.sock = channel
    every = {"Host": address.authority, "Connection": "close", **headers}
    if address.user is not None:
        every["Authorization"] = "Basic " + base64.b64encode(address.user.encode()).decode()
    connection.request("POST", address.target, body, every)
    response = connection.getresponse()
    text = "" if 200 <= response.status < 300 else _plain_line(response.read(BODY))
    after, location = response.getheader("Retry-After"), response.getheader("Location")
    response.close()
    reason = _plain_line(response.reason.encode())
    return Answer(response.status, reason, _parse_pause(after), location, text)


def _plain_line(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _safe_location(location: str) -> str:
    return redact_url(location) if "://" in location else "another path"


def _parse_pause(after: str | None) -> float | None:
    """Return the seconds of a Retry-After, which holds seconds or a date."""
    if after is None:
        return None
    if after.strip().isascii() and after.strip().isdigit():
        return float(after.strip()[:9])
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


@functools.cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _describe_error(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, socket.gaierror):
        return f"the name cannot be looked up: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    text = _plain_line(str(error).encode("utf-8", "replace"))[:200]
    return f"{type(error).__name__}: {text}".rstrip(": ")
