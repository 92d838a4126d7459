"""One POST, bounded in time and size: certificates are verified, redirects are not followed."""

from __future__ import annotations

import base64
import functools
import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from agentctl.deliver.policy import Result
from agentctl.urls import Address, parsed

PATIENCE = 10.0  # seconds for all of it: to connect, to send, to be answered
BODY = 4096  # bytes of an answer that are read
GONE = 410


class Answer(NamedTuple):
    status: int
    reason: str
    after: float | None  # seconds, by Retry-After
    location: str | None
    text: str


def sent(url: str, body: bytes, headers: Mapping[str, str], patience: float = PATIENCE) -> Result:
    """Never raises for what the other end does."""
    began = time.monotonic()
    try:
        address = parsed(url)
    except ValueError as error:
        return Result("dead", str(error))
    late = threading.Event()
    try:
        with _connected(address, began + patience, late) as channel:
            answer = _answered(channel, address, body, headers)
        if late.is_set():  # what was cut off looks like an end
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError) as error:
        # The socket is closed under whoever still reads at the deadline, which then fails in some way.
        why = f"no answer within {patience:g} s" if late.is_set() or _timed_out(error) else _words(error)
        return Result("failed", f"{address.authority}: {why}", seconds=time.monotonic() - began)
    return _result(answer, address)._replace(seconds=time.monotonic() - began)


def _result(answer: Answer, address: Address) -> Result:
    if 200 <= answer.status < 300:
        return Result("delivered", status=answer.status)
    said = f"{address.authority} answers {answer.status} {answer.reason}".rstrip()
    if 300 <= answer.status < 400:
        place = f" (to {_shown(answer.location)})" if answer.location else ""
        said += f"{place}: redirects are not followed, give the address itself"
    elif answer.text:
        said += f": {answer.text}"
    outcome = "dead" if answer.status == GONE else "failed"
    return Result("dead" if outcome == "dead" else "failed", said, answer.status, answer.after)


@contextmanager
def _connected(address: Address, deadline: float, late: threading.Event) -> Iterator[socket.socket]:
    """The deadline holds for whatever is done with it: a server that sends a byte now and then meets
    every timeout of a single read, so the connection is cut from outside."""
    plain = _reached(address, deadline)
    cut = socket.socket(fileno=os.dup(plain.fileno()))  # the plain one below a TLS socket

    def end() -> None:
        late.set()
        try:
            cut.shutdown(socket.SHUT_RDWR)
        except OSError:  # closed already by the other end
            pass

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    try:
        with plain:
            if not address.secure:
                yield plain
            else:
                with _context().wrap_socket(plain, server_hostname=address.host) as secured:
                    yield secured
    finally:
        timer.cancel()
        timer.join()
        cut.close()


def _reached(address: Address, deadline: float) -> socket.socket:
    """The first of its addresses that answers. Names are looked up by the system, in its own time."""
    problem: OSError = ConnectionError("it has no address")
    for family, kind, protocol, _, place in socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM
    ):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        made = socket.socket(family, kind, protocol)
        made.settimeout(left)
        try:
            made.connect(place)
        except OSError as error:
            made.close()
            problem = error
            continue
        return made
    raise problem


def _answered(
    channel: socket.socket, address: Address, body: bytes, headers: Mapping[str, str]
) -> Answer:
    connection = http.client.HTTPConnection(address.host, address.port)
    connection.sock = channel
    given = {"Host": address.authority, "Connection": "close", **headers}
    if address.user is not None:
        given["Authorization"] = "Basic " + base64.b64encode(address.user.encode()).decode()
    connection.request("POST", address.target, body, given)
    response = connection.getresponse()
    text = "" if 200 <= response.status < 300 else _plain(response.read(BODY))
    after, location = response.getheader("Retry-After"), response.getheader("Location")
    response.close()
    return Answer(response.status, _plain(response.reason.encode()), _seconds(after), location, text)


def _plain(raw: bytes) -> str:
    """On one line."""
    text = raw.decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _shown(location: str) -> str:
    from agentctl.urls import shown

    return shown(location) if "://" in location else "another path"


def _seconds(after: str | None) -> float | None:
    """Seconds, or a date."""
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


def _timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError)


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, socket.gaierror):
        return f"the name cannot be looked up: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    return f"{type(error).__name__}: {_plain(str(error).encode('utf-8', 'replace'))[:200]}".rstrip(": ")
