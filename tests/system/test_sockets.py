"""Whether a process has network connections, and whose they are."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentctl.errors import Gone
from agentctl.system import proc, sockets
from agentctl.system.proc import Process, ProcessIdentity


def read_own_process() -> Process:
    return proc.read_process(os.getpid(), proc.read_boot_id())


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_process_with_a_connection_is_connected(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {address}: {error}")
    with server:
        before = len(sockets.read_sockets(read_own_process()))
        with socket.create_connection(server.getsockname()[:2]):
            called, _ = server.accept()
            with called:
                assert sockets.is_connected(read_own_process())
                assert len(sockets.read_sockets(read_own_process())) == before + 2


def test_a_process_that_only_listens_is_not_connected() -> None:
    program = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(flush=True); input()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = proc.read_process(child.pid, proc.read_boot_id())
        assert len(sockets.read_sockets(process)) == 1
        assert not sockets.is_connected(process)
        child.kill()


def test_a_process_without_sockets_is_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Process, "list_open_files", lambda _: ("/dev/null", "pipe:[12]"))
    assert sockets.read_sockets(read_own_process()) == []
    assert not sockets.is_connected(read_own_process())


def test_a_line_that_is_cut_short_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "CAP", 200)
    with socket.create_server(("127.0.0.1", 0)):
        assert sockets.read_sockets(read_own_process()) == []


def test_sockets_of_an_ended_process_are_gone() -> None:
    process = Process(ProcessIdentity(proc.read_boot_id(), os.getpid(), 1), 1, "S", "sh")
    with pytest.raises(Gone):
        sockets.read_sockets(process)


STRANGER = 65534


@contextmanager
def connect(
    server: tuple[str, int],
    family: socket.AddressFamily,
    reach: str | None = None,
    uid: int | None = None,
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection. The client belongs to `uid` and calls the address `reach`."""
    try:
        listening = socket.create_server(server, family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {server[0]}: {error}")
    how = socket.AF_INET6 if ":" in (reach or server[0]) else socket.AF_INET
    if uid is not None:
        os.seteuid(uid)
    try:
        client = socket.socket(how)  # its owner is the user that makes it
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
def test_the_peer_of_our_connection_is_us(
    host: str, family: socket.AddressFamily, reach: str | None
) -> None:
    with connect((host, 0), family, reach) as (accepted, _):
        assert sockets.find_peer_uid(accepted) == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("host", "family", "reach"), WAYS)
def test_the_peer_of_another_user_is_found(
    host: str, family: socket.AddressFamily, reach: str | None
) -> None:
    with connect((host, 0), family, reach, STRANGER) as (accepted, client):
        assert sockets.find_peer_uid(accepted) == STRANGER
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert sockets.find_peer_uid(accepted) == STRANGER


def test_without_the_kernels_list_the_peer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "V4", "/nonexistent")
    monkeypatch.setattr(sockets, "V6", "/nonexistent")
    with connect(("127.0.0.1", 0), socket.AF_INET) as (accepted, _):
        assert sockets.find_peer_uid(accepted) is None
