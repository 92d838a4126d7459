"""A small server: a few pages, and nothing that a stranger could use up."""

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
from agentctl.daemon.parts.http import Answer, Server
from agentctl.system import tcp_peers
from tests.waiting import DEADLINE, until

PAGES = {"/metrics": lambda: Answer(200, "m 1\n"), "/broken": lambda: Answer(200, str(1 // 0))}


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("127.0.0.1", 0, PAGES)
    made.start()
    until(lambda: made.listening, "it listens")
    yield made
    made.stop()


def got(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def sent(server: Server, raw: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as connection:
        connection.sendall(raw)
        said = b""
        while more := connection.recv(1 << 16):
            said += more
        return said


def test_a_page(server: Server) -> None:
    assert got(server, "/metrics") == (200, "m 1\n")
    assert got(server, "/metrics?name=x") == (200, "m 1\n")


def test_other_pages_and_methods(server: Server) -> None:
    assert got(server, "/")[0] == 404
    assert got(server, "/metrics/")[0] == 404
    assert got(server, "/metrics", "POST")[0] == 405
    assert b"\r\nAllow: GET\r\n" in sent(server, b"PUT /metrics HTTP/1.0\r\n\r\n")


def test_a_page_that_fails_costs_that_answer_alone(server: Server) -> None:
    assert got(server, "/broken")[0] == 500
    assert got(server, "/metrics")[0] == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9200", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:9200"]
)
def test_this_machine_by_its_names(server: Server, host: str) -> None:
    assert got(server, "/metrics", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:9200", "10.0.0.1", "[::2]", ""]
)
def test_a_name_that_points_here_is_refused(server: Server, host: str) -> None:
    assert got(server, "/metrics", Host=host)[0] == 403


def test_where_others_reach_it_any_name_will_do() -> None:
    assert served.trusted("my-machine:9200", "0.0.0.0")
    assert served.trusted("my-machine:9200", "192.168.1.5")
    assert not served.trusted("my-machine:9200", "127.0.0.2")
    assert served.trusted("127.0.0.2", "127.0.0.2")


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
def test_requests_that_are_none(server: Server, raw: bytes, status: int) -> None:
    assert sent(server, raw).startswith(b"HTTP/1.1 %d " % status)


@given(raw=st.binary(max_size=300) | st.binary(max_size=60).map(lambda b: b"GET /" + b + b"\r\n\r\n"))
def test_any_bytes_have_an_answer(raw: bytes) -> None:
    assert served.answer(raw, "127.0.0.1", PAGES).status in served.WORDS


def test_who_sends_more_than_is_read_still_gets_the_answer(server: Server) -> None:
    """A connection that is closed over what nobody read is reset, and the answer with it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as connection:
        connection.sendall(b"PUT /metrics HTTP/1.0\r\n\r\n" + b"x" * 100_000)
        until(lambda: _arrived(connection), "the answer is there")
        connection.sendall(b"x" * 100_000)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 405")


def _arrived(connection: socket.socket) -> bool:
    return bool(select.select([connection], [], [], 0)[0])


def test_one_that_says_nothing_is_let_go_of(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "PATIENCE", 0.1)
    assert sent(server, b"") == b""
    assert sent(server, b"GET /met").startswith(b"HTTP/1.1 400 ")


def test_half_requests_take_the_port_from_nobody(server: Server) -> None:
    """Of those who do not finish theirs, the slowest makes room."""
    halves = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * served.AT_ONCE)]
    try:
        for connection in halves:
            try:
                connection.sendall(b"GET /met")
            except OSError:  # let go of already
                pass
        until(lambda: server._free._value == 0, "all places are taken")
        for _ in range(3):
            assert got(server, "/metrics") == (200, "m 1\n")
        assert halves[0].recv(100) == b""
        last = halves[-1]
        last.settimeout(DEADLINE)
        last.sendall(b"rics HTTP/1.0\r\n\r\n")
        assert last.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in halves:
            connection.close()
    until(lambda: server._free._value == served.AT_ONCE, "all are free again")


def test_too_many_who_wait_for_their_answer_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "TURN", 0.05)
    gate = threading.Event()
    made = Server("127.0.0.1", 0, {"/slow": lambda: Answer(200, f"{gate.wait(DEADLINE)}\n")})
    made.start()
    until(lambda: made.listening, "it listens")
    asking = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(served.AT_ONCE)]
    try:
        for connection in asking:
            connection.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
        until(lambda: made._free._value == 0 and not made._asking, "all are being answered")
        assert sent(made, b"").startswith(b"HTTP/1.1 503 ")
        gate.set()
        for connection in asking:
            connection.settimeout(DEADLINE)
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in asking:
            connection.close()
        made.stop()


@pytest.fixture
def closed_to_us() -> Iterator[Server]:
    made = Server("127.0.0.1", 0, PAGES, users={os.geteuid() + 1})
    made.start()
    until(lambda: made.listening, "it listens")
    yield made
    made.stop()


def test_only_its_users_are_answered(closed_to_us: Server) -> None:
    status, why = got(closed_to_us, "/metrics")
    assert (status, "metrics.users" in why) == (403, True)
    made = Server("127.0.0.1", 0, PAGES, users={os.geteuid()})
    made.start()
    until(lambda: made.listening, "it listens")
    try:
        assert got(made, "/metrics")[0] == 200
    finally:
        made.stop()


def test_whom_nobody_can_name_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_peers, "uid_of", lambda _: None)
    made = Server("127.0.0.1", 0, PAGES, users={os.geteuid()})
    made.start()
    until(lambda: made.listening, "it listens")
    try:
        assert got(made, "/metrics")[0] == 403
    finally:
        made.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_takes_no_place_from_its_users() -> None:
    made = Server("127.0.0.1", 0, PAGES, users={0})
    made.start()
    until(lambda: made.listening, "it listens")
    os.seteuid(65534)
    try:
        theirs = [socket.socket() for _ in range(3 * served.AT_ONCE)]
    finally:
        os.seteuid(0)
    try:
        for connection in theirs:
            connection.connect(("127.0.0.1", made.port))
        assert got(made, "/metrics") == (200, "m 1\n")
        assert made._free._value >= served.AT_ONCE - 1
    finally:
        for connection in theirs:
            connection.close()
        made.stop()


def test_a_taken_port_is_told_and_taken_when_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RETRY", 0.02)
    holder = socket.create_server(("127.0.0.1", 0))
    port = holder.getsockname()[1]
    made = Server("127.0.0.1", port, PAGES)
    made.start()
    try:
        until(lambda: made.problem is not None, "it is told")
        assert made.problem == f"cannot listen on 127.0.0.1 port {port}: Address already in use"
        assert not made.listening
        holder.close()
        until(lambda: made.listening, "it listens after all")
        assert got(made, "/metrics")[0] == 200
    finally:
        holder.close()
        made.stop()


@pytest.mark.parametrize("address", ["256.1.1.1", "no such name", "a" * 99, "192.0.2.1"])
def test_an_address_that_is_none_of_ours(address: str) -> None:
    made = Server(address, 0, PAGES)
    made.start()
    until(lambda: made.problem is not None, "it is told")
    made.stop()


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_over_ipv6() -> None:
    made = Server("::1", 0, PAGES)
    made.start()
    try:
        until(lambda: made.listening or made.problem is not None, "it listens")
        if made.problem is not None:
            pytest.skip(f"this machine has no IPv6: {made.problem}")
        with socket.create_connection(("::1", made.port), timeout=DEADLINE) as connection:
            connection.sendall(f"GET /metrics HTTP/1.1\r\nHost: [::1]:{made.port}\r\n\r\n".encode())
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n")
    finally:
        made.stop()


def test_it_listens_nowhere_else(server: Server) -> None:
    """Any other address of this machine, as 127.0.0.2 is one."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=DEADLINE)


def test_after_its_end_nobody_listens() -> None:
    made = Server("127.0.0.1", 0, PAGES)
    made.start()
    until(lambda: made.listening, "it listens")
    made.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", made.port), timeout=DEADLINE)
