"""A small server of a few pages, whose places a stranger cannot use up."""

import http.client
import os
import select
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.daemon.parts import http as served
from agentctl.daemon.parts.http import HttpServer, Page
from agentctl.system import sockets
from tests.waiting import DEADLINE, until

PAGES = {"/metrics": lambda: Page(200, "m 1\n"), "/broken": lambda: Page(200, str(1 // 0))}


@pytest.fixture
def server() -> Iterator[HttpServer]:
    http_server = HttpServer("127.0.0.1", 0, PAGES)
    http_server.start()
    until(lambda: http_server.listening, "it listens")
    yield http_server
    http_server.stop()


def fetch(server: HttpServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def exchange_bytes(server: HttpServer, raw: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as connection:
        connection.sendall(raw)
        answer = b""
        while more := connection.recv(1 << 16):
            answer += more
        return answer


def test_a_page_is_served(server: HttpServer) -> None:
    assert fetch(server, "/metrics") == (200, "m 1\n")
    assert fetch(server, "/metrics?name=x") == (200, "m 1\n")


def test_other_pages_and_methods_are_errors(server: HttpServer) -> None:
    assert fetch(server, "/")[0] == 404
    assert fetch(server, "/metrics/")[0] == 404
    assert fetch(server, "/metrics", "POST")[0] == 405
    assert b"\r\nAllow: GET\r\n" in exchange_bytes(server, b"PUT /metrics HTTP/1.0\r\n\r\n")


def test_a_page_that_fails_affects_no_other_request(server: HttpServer) -> None:
    assert fetch(server, "/broken")[0] == 500
    assert fetch(server, "/metrics")[0] == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9200", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:9200"]
)
def test_names_of_this_machine_are_accepted(server: HttpServer, host: str) -> None:
    assert fetch(server, "/metrics", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:9200", "10.0.0.1", "[::2]", ""]
)
def test_a_name_that_points_here_is_refused(server: HttpServer, host: str) -> None:
    assert fetch(server, "/metrics", Host=host)[0] == 403


def test_any_name_is_accepted_if_others_can_connect() -> None:
    assert served.is_trusted("my-machine:9200", "0.0.0.0")
    assert served.is_trusted("my-machine:9200", "192.168.1.5")
    assert not served.is_trusted("my-machine:9200", "127.0.0.2")
    assert served.is_trusted("127.0.0.2", "127.0.0.2")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\r\n\r\n", 400),  # TLS
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * served.REQUEST_CAP, 431),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n", 431),
    ],
)
def test_a_malformed_request_is_an_error(server: HttpServer, raw: bytes, status: int) -> None:
    assert exchange_bytes(server, raw).startswith(b"HTTP/1.1 %d " % status)


@given(raw=st.binary(max_size=300) | st.binary(max_size=60).map(lambda b: b"GET /" + b + b"\r\n\r\n"))
def test_any_bytes_have_an_answer(raw: bytes) -> None:
    assert served.answer(raw, "127.0.0.1", PAGES).status in served.REASONS


def test_a_client_that_sends_more_than_is_read_still_gets_the_answer(server: HttpServer) -> None:
    """Closing a connection with unread input resets it, and the answer would be lost."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as connection:
        connection.sendall(b"PUT /metrics HTTP/1.0\r\n\r\n" + b"x" * 100_000)
        until(lambda: is_readable(connection), "the answer is there")
        connection.sendall(b"x" * 100_000)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 405")


def is_readable(connection: socket.socket) -> bool:
    return bool(select.select([connection], [], [], 0)[0])


def test_a_silent_client_is_disconnected(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "PATIENCE", 0.1)
    assert exchange_bytes(server, b"") == b""
    assert exchange_bytes(server, b"GET /met").startswith(b"HTTP/1.1 400 ")


def test_half_requests_do_not_block_other_clients(server: HttpServer) -> None:
    """The slowest of the clients that do not finish their requests is disconnected."""
    halves = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * served.AT_ONCE)]
    try:
        for connection in halves:
            try:
                connection.sendall(b"GET /met")
            except OSError:  # already disconnected
                pass
        until(lambda: server._free._value == 0, "all places are taken")
        for _ in range(3):
            assert fetch(server, "/metrics") == (200, "m 1\n")
        assert halves[0].recv(100) == b""
        last = halves[-1]
        last.settimeout(DEADLINE)
        last.sendall(b"rics HTTP/1.0\r\n\r\n")
        assert last.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in halves:
            connection.close()
    until(lambda: server._free._value == served.AT_ONCE, "all are free again")


def test_a_request_too_many_is_answered_with_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "TURN", 0.05)
    gate = threading.Event()
    http_server = HttpServer("127.0.0.1", 0, {"/slow": lambda: Page(200, f"{gate.wait(DEADLINE)}\n")})
    http_server.start()
    until(lambda: http_server.listening, "it listens")
    asking = [socket.create_connection(("127.0.0.1", http_server.port)) for _ in range(served.AT_ONCE)]
    try:
        for connection in asking:
            connection.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
        until(
            lambda: http_server._free._value == 0 and not http_server._receiving,
            "all are being answered",
        )
        assert exchange_bytes(http_server, b"").startswith(b"HTTP/1.1 503 ")
        gate.set()
        for connection in asking:
            connection.settimeout(DEADLINE)
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in asking:
            connection.close()
        http_server.stop()


@pytest.fixture
def closed_to_us() -> Iterator[HttpServer]:
    http_server = HttpServer("127.0.0.1", 0, PAGES, users={os.geteuid() + 1})
    http_server.start()
    until(lambda: http_server.listening, "it listens")
    yield http_server
    http_server.stop()


def test_only_its_users_are_answered(closed_to_us: HttpServer) -> None:
    status, why = fetch(closed_to_us, "/metrics")
    assert (status, "metrics.users" in why) == (403, True)
    http_server = HttpServer("127.0.0.1", 0, PAGES, users={os.geteuid()})
    http_server.start()
    until(lambda: http_server.listening, "it listens")
    try:
        assert fetch(http_server, "/metrics")[0] == 200
    finally:
        http_server.stop()


def test_a_client_of_an_unknown_user_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "find_peer_uid", lambda _: None)
    http_server = HttpServer("127.0.0.1", 0, PAGES, users={os.geteuid()})
    http_server.start()
    until(lambda: http_server.listening, "it listens")
    try:
        assert fetch(http_server, "/metrics")[0] == 403
    finally:
        http_server.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_does_not_block_its_users() -> None:
    http_server = HttpServer("127.0.0.1", 0, PAGES, users={0})
    http_server.start()
    until(lambda: http_server.listening, "it listens")
    os.seteuid(65534)
    try:
        theirs = [socket.socket() for _ in range(3 * served.AT_ONCE)]
    finally:
        os.seteuid(0)
    try:
        for connection in theirs:
            connection.connect(("127.0.0.1", http_server.port))
        assert fetch(http_server, "/metrics") == (200, "m 1\n")
        assert http_server._free._value >= served.AT_ONCE - 1
    finally:
        for connection in theirs:
            connection.close()
        http_server.stop()


def test_a_port_in_use_is_a_problem_until_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RETRY", 0.02)
    holder = socket.create_server(("127.0.0.1", 0))
    port = holder.getsockname()[1]
    http_server = HttpServer("127.0.0.1", port, PAGES)
    http_server.start()
    try:
        until(lambda: http_server.problem is not None, "there is a problem")
        assert http_server.problem == f"cannot listen on 127.0.0.1 port {port}: Address already in use"
        assert not http_server.listening
        holder.close()
        until(lambda: http_server.listening, "it listens after all")
        assert fetch(http_server, "/metrics")[0] == 200
    finally:
        holder.close()
        http_server.stop()


@pytest.mark.parametrize("address", ["256.1.1.1", "no such name", "a" * 99, "192.0.2.1"])
def test_an_address_of_another_machine_is_a_problem(address: str) -> None:
    http_server = HttpServer(address, 0, PAGES)
    http_server.start()
    until(lambda: http_server.problem is not None, "there is a problem")
    http_server.stop()


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_it_serves_over_ipv6() -> None:
    http_server = HttpServer("::1", 0, PAGES)
    http_server.start()
    try:
        until(lambda: http_server.listening or http_server.problem is not None, "it listens")
        if http_server.problem is not None:
            pytest.skip(f"this machine has no IPv6: {http_server.problem}")
        with socket.create_connection(("::1", http_server.port), timeout=DEADLINE) as connection:
            connection.sendall(
                f"GET /metrics HTTP/1.1\r\nHost: [::1]:{http_server.port}\r\n\r\n".encode()
            )
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n")
    finally:
        http_server.stop()


def test_it_listens_on_no_other_address(server: HttpServer) -> None:
    """Any other address of this machine, as 127.0.0.2 is one."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=DEADLINE)


def test_it_does_not_listen_after_its_end() -> None:
    http_server = HttpServer("127.0.0.1", 0, PAGES)
    http_server.start()
    until(lambda: http_server.listening, "it listens")
    http_server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", http_server.port), timeout=DEADLINE)
