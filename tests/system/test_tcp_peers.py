"""The kernel tells whose connection it is."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentctl.system import tcp_peers

STRANGER = 65534


@contextmanager
def connected(
    server: tuple[str, int],
    family: socket.AddressFamily,
    reach: str | None = None,
    uid: int | None = None,
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends; the client's is `uid`'s, if there is one, and reaches the server by another name."""
    try:
        listening = socket.create_server(server, family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {server[0]}: {error}")
    how = socket.AF_INET6 if ":" in (reach or server[0]) else socket.AF_INET
    if uid is not None:
        os.seteuid(uid)
    try:
        client = socket.socket(how)  # its owner is whoever makes it
    finally:
        if uid is not None:
            os.seteuid(0)
    with listening, client:
        client.connect((reach or server[0], listening.getsockname()[1]))
        accepted, _ = listening.accept()
        with accepted:
            yield accepted, client


WAYS = [
    ("127.0.0.1", socket.AF_INET, None),
    ("127.0.0.1", socket.AF_INET, "::ffff:127.0.0.1"),
    ("::1", socket.AF_INET6, None),
]


@pytest.mark.parametrize(("host", "family", "reach"), WAYS)
def test_ours(host: str, family: socket.AddressFamily, reach: str | None) -> None:
    with connected((host, 0), family, reach) as (accepted, _):
        assert tcp_peers.uid_of(accepted) == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("host", "family", "reach"), WAYS)
def test_another_user_s(host: str, family: socket.AddressFamily, reach: str | None) -> None:
    with connected((host, 0), family, reach, STRANGER) as (accepted, client):
        assert tcp_peers.uid_of(accepted) == STRANGER
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert tcp_peers.uid_of(accepted) == STRANGER


def test_where_the_kernel_lists_nothing_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_peers, "V4", "/nonexistent")
    monkeypatch.setattr(tcp_peers, "V6", "/nonexistent")
    with connected(("127.0.0.1", 0), socket.AF_INET) as (accepted, _):
        assert tcp_peers.uid_of(accepted) is None
