"""The socket: no client blocks another, and nothing that a client sends ends the server."""

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.daemon.server import Peer
from agentctl.daemon_client import protocol
from agentctl.daemon_client.protocol import Request
from tests.daemon.serving import Served, Wire
from tests.running import SOURCES, open_home
from tests.waiting import until


def test_a_question_and_its_answer(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        response = wire.ask("x", 7, a=1)
        assert response == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {"method": "x", "params": {"a": 1}, "pid": os.getpid()},
        }


def test_only_its_owner_can_connect(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        assert stat.S_IMODE(os.stat(served.server.path).st_mode) == 0o600
    assert not os.path.lexists(served.server.path)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"nonsense\n", protocol.PARSE),
        (b"[]\n", protocol.INVALID),
        (b'{"jsonrpc":"2.0","method":"x","params":1}\n', protocol.BAD_PARAMS),
    ],
)
def test_nonsense_is_an_error_and_the_client_may_go_on(tmp_path: Path, raw: bytes, code: int) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(raw)
        assert wire.hear()["error"]["code"] == code
        assert wire.ask("x")["result"]["method"] == "x"


def test_empty_lines_and_notifications_are_not_answered(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(b'\n \n{"jsonrpc":"2.0","method":"quiet"}\n')
        assert wire.ask("x", 3)["id"] == 3


def test_thousands_of_empty_lines_do_not_block_other_clients(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire, Wire(served.home) as other:
        wire.say(b"\n" * 100_000)
        assert other.ask("x", 5)["id"] == 5
        assert wire.ask("x", 6)["id"] == 6


def test_many_requests_at_once_are_answered_in_order(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(b"".join(protocol.encode_request(number, "x") for number in range(500)))
        assert [wire.hear()["id"] for _ in range(500)] == list(range(500))


def test_a_client_that_shut_down_its_side_still_gets_its_answers(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(protocol.encode_request(1, "x") + protocol.encode_request(2, "y").rstrip(b"\n"))
        wire.socket.shutdown(socket.SHUT_WR)
        assert [wire.hear().get("id") for _ in range(3)] == [1, 2, None]


def test_a_request_of_ten_mebibytes_is_refused(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire, Wire(served.home) as other:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            wire.say(protocol.encode_request(1, "x", {"much": "x" * (10 << 20)}))
        assert wire.hear()["error"]["code"] == protocol.INVALID
        assert other.ask("x")["result"]["method"] == "x"
        with contextlib.suppress(ConnectionResetError):
            assert wire.hear() == {}


def test_a_request_of_the_largest_size_is_answered(tmp_path: Path) -> None:
    empty = len(protocol.encode_request(1, "x", {"much": ""})) - 1
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(protocol.encode_request(1, "x", {"much": "x" * (protocol.REQUEST_CAP - empty)}))
        assert len(wire.hear()["result"]["params"]["much"]) == protocol.REQUEST_CAP - empty


def test_half_a_request_blocks_no_other_client_and_times_out(tmp_path: Path) -> None:
    with Served(tmp_path, patience=0.2) as served, Wire(served.home) as half:
        half.say(b'{"jsonrpc"')
        with Wire(served.home) as other:
            assert other.ask("x")["result"]["method"] == "x"
        assert "half a request" in half.hear()["error"]["message"]
        assert half.hear() == {}


async def answer_much(request: Request, _: Peer) -> Any:
    return "x" * (8 << 20) if request.method == "much" else "little"


def test_a_client_that_never_reads_blocks_no_other_and_is_disconnected(tmp_path: Path) -> None:
    with Served(tmp_path, answer_much, patience=0.2) as served, Wire(served.home) as deaf:
        deaf.say(protocol.encode_request(1, "much") * 50)
        with Wire(served.home) as other:
            assert other.ask("x")["result"] == "little"
        until(lambda: not served.server.connections, "it is hung up on")


def test_a_request_at_work_blocks_no_other_client(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def slow(request: Request, _: Peer) -> Any:
        if request.method == "slow":
            await go.wait()
        return request.method

    with Served(tmp_path, slow) as served, Wire(served.home) as one, Wire(served.home) as other:
        one.say(protocol.encode_request(1, "slow"))
        assert other.ask("x")["result"] == "x"
        served.loop.call_soon_threadsafe(go.set)
        assert one.hear()["result"] == "slow"


def test_an_exception_in_a_method_is_an_error_response(tmp_path: Path) -> None:
    async def broken(request: Request, _: Peer) -> Any:
        return dict[str, int]()[request.method]

    with Served(tmp_path, broken) as served, Wire(served.home) as wire:
        assert wire.ask("x")["error"] == {"code": protocol.INTERNAL, "message": "KeyError: 'x'"}
        assert wire.ask("y")["error"]["code"] == protocol.INTERNAL


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("state")) as served:
        yield served


@settings(max_examples=60)
@given(pieces=st.lists(st.binary(max_size=300), max_size=4), is_shut_down=st.booleans())
def test_after_any_bytes_the_next_client_is_answered(
    open_server: Served, pieces: list[bytes], *, is_shut_down: bool
) -> None:
    with Wire(open_server.home) as wire:
        for piece in pieces:
            wire.say(piece)
        if is_shut_down:
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.hear():
                pass
    with Wire(open_server.home) as wire:
        assert wire.ask("x")["id"] == 1


def test_a_client_too_many_replaces_the_one_that_was_silent_longest(tmp_path: Path) -> None:
    with Served(tmp_path, most=3) as served, contextlib.ExitStack() as stack:
        first, *_ = (stack.enter_context(Wire(served.home)) for _ in range(3))
        until(lambda: len(served.server.connections) == 3, "all three are here")
        with Wire(served.home) as fourth:
            assert fourth.ask("x")["result"]["method"] == "x"
        with contextlib.suppress(ConnectionResetError):
            assert first.hear() == {}


def test_a_client_is_refused_if_all_others_are_at_work(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def slow(_: Request, __: Peer) -> Any:
        await go.wait()

    with Served(tmp_path, slow, most=1) as served, Wire(served.home) as one:
        one.say(protocol.encode_request(1, "slow"))
        until(lambda: any(not c.is_silent for c in served.server.connections), "it works")
        with Wire(served.home) as other:
            assert other.hear()["error"]["code"] == protocol.BUSY
        served.loop.call_soon_threadsafe(go.set)
        assert one.hear()["id"] == 1


def test_a_bell_that_is_not_read_does_not_block_the_server(tmp_path: Path) -> None:
    """A subscriber that sleeps keeps a few bells in its socket, and the server none."""

    async def subscribe(_: Request, peer: Peer) -> Any:
        peer.connection.subscribed = True
        return "yes"

    with Served(tmp_path, subscribe, patience=0.05) as served, Wire(served.home) as wire:
        assert wire.ask("subscribe")["result"] == "yes"
        (connection,) = served.server.connections

        async def ring(seq: int) -> int:
            connection.ring(seq)
            return connection.unread_bytes

        waiting = [served.do(ring(seq)) for seq in range(1, 5000)]
        assert waiting[-1] > 0, "its socket is full"
        assert max(waiting) < 200, "and the server keeps one bell at most"
        assert wire.hear()["params"] == {"seq": 1}
        assert connection in served.server.connections


def test_a_subscriber_that_shut_down_its_side_and_never_reads_is_disconnected(tmp_path: Path) -> None:
    async def subscribe(_: Request, peer: Peer) -> Any:
        peer.connection.subscribed = True
        return "yes"

    with Served(tmp_path, subscribe, patience=0.05) as served, Wire(served.home) as wire:
        assert wire.ask("subscribe")["result"] == "yes"
        (connection,) = served.server.connections

        async def fill() -> None:
            while not connection.unread_bytes:
                connection.ring(1)

        served.do(fill())
        wire.socket.shutdown(socket.SHUT_WR)
        until(lambda: not served.server.connections, "it is hung up on")


def test_a_dead_daemon_s_socket_is_replaced_and_a_lost_one_created_again(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "daemon.sock"))
    stale.close()
    with Served(tmp_path) as served:
        with Wire(served.home) as wire:
            os.unlink(served.server.path)
            assert not served.server.is_reachable()
            served.do(served.server.listen())
            assert served.server.is_reachable()
            assert wire.ask("x")["id"] == 1, "a connected client stays connected"
        with Wire(served.home) as wire:
            assert wire.ask("x")["id"] == 1


def test_a_socket_that_is_not_ours_any_more_is_left_alone(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        os.unlink(served.server.path)
        Path(served.server.path).write_text("another's")
    assert Path(served.server.path).read_text() == "another's"


def test_a_home_longer_than_a_socket_s_address(tmp_path: Path) -> None:
    with Served(tmp_path / ("y" * 200)) as served, Wire(served.home) as wire:
        assert wire.ask("x")["id"] == 1
    assert os.listdir(served.home) == []


_STRANGER = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"x"}\\n') if len(sys.argv) > 2 else None
print(s.makefile().readline())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused() -> None:
    with open_home() as home, Served(home / "state") as served:
        os.chmod(served.home, 0o755)
        os.chmod(served.server.path, 0o666)  # a wrong mode does not help: the kernel names the peer
        ran = subprocess.run(
            [sys.executable, "-c", _STRANGER, served.server.path],
            env={"PYTHONPATH": SOURCES},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert f'"code":{protocol.NOT_YOURS}' in ran.stdout, ran.stderr
