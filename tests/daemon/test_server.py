"""The socket: nobody holds another, and nothing that comes over it ends the server."""

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

from agentctl.daemon.connection import Peer
from agentctl.daemon_client import protocol
from agentctl.daemon_client.protocol import Request
from tests.daemon.serving import Served, Wire, inode
from tests.running import SOURCES, open_home
from tests.waiting import until


def test_a_question_and_its_answer(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        told = wire.ask("x", 7, a=1)
        assert told == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {"method": "x", "params": {"a": 1}, "pid": os.getpid()},
        }


def test_only_its_owner_can_reach_it(tmp_path: Path) -> None:
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
def test_nonsense_is_answered_and_the_client_may_go_on(tmp_path: Path, raw: bytes, code: int) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(raw)
        assert wire.hear()["error"]["code"] == code
        assert wire.ask("x")["result"]["method"] == "x"


def test_lines_without_a_word_and_notifications_are_not_answered(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(b'\n \n{"jsonrpc":"2.0","method":"quiet"}\n')
        assert wire.ask("x", 3)["id"] == 3


def test_questions_at_once_are_answered_in_order(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(b"".join(protocol.request(number, "x") for number in range(500)))
        assert [wire.hear()["id"] for _ in range(500)] == list(range(500))


def test_one_who_has_said_all_may_still_read(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(protocol.request(1, "x") + protocol.request(2, "y").rstrip(b"\n"))
        wire.socket.shutdown(socket.SHUT_WR)
        assert [wire.hear().get("id") for _ in range(3)] == [1, 2, None]


def test_a_request_of_ten_mebibytes_is_refused(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Wire(served.home) as wire, Wire(served.home) as other:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            wire.say(protocol.request(1, "x", {"much": "x" * (10 << 20)}))
        assert wire.hear()["error"]["code"] == protocol.INVALID
        assert other.ask("x")["result"]["method"] == "x"
        with contextlib.suppress(ConnectionResetError):
            assert wire.hear() == {}


def test_a_request_of_the_largest_size_is_answered(tmp_path: Path) -> None:
    empty = len(protocol.request(1, "x", {"much": ""})) - 1
    with Served(tmp_path) as served, Wire(served.home) as wire:
        wire.say(protocol.request(1, "x", {"much": "x" * (protocol.REQUEST_CAP - empty)}))
        assert len(wire.hear()["result"]["params"]["much"]) == protocol.REQUEST_CAP - empty


def test_half_a_request_holds_nobody_and_is_given_up(tmp_path: Path) -> None:
    with Served(tmp_path, patience=0.2) as served, Wire(served.home) as half:
        half.say(b'{"jsonrpc"')
        with Wire(served.home) as other:
            assert other.ask("x")["result"]["method"] == "x"
        assert "half a request" in half.hear()["error"]["message"]
        assert half.hear() == {}


async def _much(asked: Request, _: Peer) -> Any:
    return "x" * (8 << 20) if asked.method == "much" else "little"


def test_one_who_never_reads_holds_nobody_and_is_hung_up_on(tmp_path: Path) -> None:
    with Served(tmp_path, _much, patience=0.2) as served, Wire(served.home) as deaf:
        deaf.say(protocol.request(1, "much") * 50)
        with Wire(served.home) as other:
            assert other.ask("x")["result"] == "little"
        until(lambda: not served.server.connections, "it is hung up on")


def test_one_that_is_at_work_holds_nobody(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def slow(asked: Request, _: Peer) -> Any:
        if asked.method == "slow":
            await go.wait()
        return asked.method

    with Served(tmp_path, slow) as served, Wire(served.home) as one, Wire(served.home) as other:
        one.say(protocol.request(1, "slow"))
        assert other.ask("x")["result"] == "x"
        served.loop.call_soon_threadsafe(go.set)
        assert one.hear()["result"] == "slow"


def test_a_method_that_breaks_is_an_answer(tmp_path: Path) -> None:
    async def broken(asked: Request, _: Peer) -> Any:
        return dict[str, int]()[asked.method]

    with Served(tmp_path, broken) as served, Wire(served.home) as wire:
        assert wire.ask("x")["error"] == {"code": protocol.INTERNAL, "message": "KeyError: 'x'"}
        assert wire.ask("y")["error"]["code"] == protocol.INTERNAL


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("state")) as served:
        yield served


@settings(max_examples=60)
@given(pieces=st.lists(st.binary(max_size=300), max_size=4), said=st.booleans())
def test_whatever_comes_the_next_is_answered(
    open_server: Served, pieces: list[bytes], *, said: bool
) -> None:
    with Wire(open_server.home) as wire:
        for piece in pieces:
            wire.say(piece)
        if said:
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.hear():
                pass
    with Wire(open_server.home) as wire:
        assert wire.ask("x")["id"] == 1


def test_too_many_clients_send_the_silent_ones_away(tmp_path: Path) -> None:
    with Served(tmp_path, most=3) as served, contextlib.ExitStack() as stack:
        first, *_ = (stack.enter_context(Wire(served.home)) for _ in range(3))
        until(lambda: len(served.server.connections) == 3, "all three are here")
        with Wire(served.home) as fourth:
            assert fourth.ask("x")["result"]["method"] == "x"
        with contextlib.suppress(ConnectionResetError):
            assert first.hear() == {}


def test_too_many_at_work_refuse_the_next(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def slow(_: Request, __: Peer) -> Any:
        await go.wait()

    with Served(tmp_path, slow, most=1) as served, Wire(served.home) as one:
        one.say(protocol.request(1, "slow"))
        until(lambda: any(not c.silent for c in served.server.connections), "it works")
        with Wire(served.home) as other:
            assert other.hear()["error"]["code"] == protocol.BUSY
        served.loop.call_soon_threadsafe(go.set)
        assert one.hear()["id"] == 1


def test_a_bell_that_is_not_heard_waits_for_nobody(tmp_path: Path) -> None:
    """A subscriber that sleeps keeps a few bells in its socket, and the server none."""

    async def subscribe(_: Request, peer: Peer) -> Any:
        peer.connection.subscribed = True
        return "yes"

    with Served(tmp_path, subscribe, patience=0.05) as served, Wire(served.home) as wire:
        assert wire.ask("subscribe")["result"] == "yes"
        (connection,) = served.server.connections

        async def ring(seq: int) -> int:
            connection.ring(seq)
            return connection._transport.get_write_buffer_size()

        waiting = [served.do(ring(seq)) for seq in range(1, 5000)]
        assert waiting[-1] > 0, "its socket is full"
        assert max(waiting) < 200, "and one bell at most is kept beside it"
        assert wire.hear()["params"] == {"seq": 1}
        assert connection in served.server.connections


def test_a_dead_daemon_s_socket_is_replaced_and_a_lost_one_made_anew(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "daemon.sock"))
    stale.close()
    with Served(tmp_path) as served:
        before = inode(served.server.path)
        with Wire(served.home) as wire:
            os.unlink(served.server.path)
            assert not served.server.still_there()
            served.do(served.server.listen())
            assert served.server.still_there()
            assert wire.ask("x")["id"] == 1, "who was connected still is"
        with Wire(served.home) as wire:
            assert wire.ask("x")["id"] == 1
        assert before


def test_a_socket_that_is_not_ours_any_more_is_left_alone(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        os.unlink(served.server.path)
        Path(served.server.path).write_text("another's")
    assert Path(served.server.path).read_text() == "another's"


def test_a_long_home(tmp_path: Path) -> None:
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
        os.chmod(served.server.path, 0o666)  # as if somebody had opened it: the kernel is asked as well
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
