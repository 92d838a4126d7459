"""The client: its requests, and its result for every answer."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctl import __version__
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import protocol
from agentctl.daemon_client.client import SOCKET, Client
from agentctl.errors import Fault, NoDaemon, Unreachable
from tests.waiting import DEADLINE

HELLO = {"protocol": protocol.PROTOCOL, "version": "0.0.9", "pid": 7, "start": 8, "home": "/h"}


class FakeDaemon:
    """A daemon whose connections are served by `speak`. Use as a context manager."""

    def __init__(self, home: Path, speak: Callable[[socket.socket, bytes], None]) -> None:
        self.home = str(home)
        self._speak = speak
        self._listening = socket.socket(socket.AF_UNIX)
        with rpc.short_path(self.home) as place:
            self._listening.bind(f"{place}/{SOCKET}")
        self._listening.listen()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "FakeDaemon":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(DEADLINE)
        self._listening.close()

    def _run(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            with connected, connected.makefile("rb") as file:
                for line in file:
                    self._speak(connected, line)


def answer_hello(**other: object) -> Callable[[socket.socket, bytes], None]:
    def speak(connected: socket.socket, line: bytes) -> None:
        request = protocol.parse_request(line)
        assert not isinstance(request, Fault)
        connected.sendall(protocol.encode_result(request.id, {**HELLO, **other}))

    return speak


def test_without_a_listener_there_is_no_daemon(tmp_path: Path) -> None:
    with pytest.raises(NoDaemon, match="no daemon runs"):
        Client(str(tmp_path))
    socket_file = socket.socket(socket.AF_UNIX)
    socket_file.bind(str(tmp_path / SOCKET))
    socket_file.close()  # its file stays, as a killed daemon's does
    with pytest.raises(NoDaemon):
        Client(str(tmp_path))


def test_hello(tmp_path: Path) -> None:
    with FakeDaemon(tmp_path, answer_hello()), rpc.connect(str(tmp_path)) as client:
        assert client.hello() == rpc.Hello(protocol.PROTOCOL, "0.0.9", 7, 8, "/h")


def test_another_protocol_is_an_error_of_one_line(tmp_path: Path) -> None:
    with FakeDaemon(tmp_path, answer_hello(protocol=99)), pytest.raises(Unreachable) as error_info:
        rpc.connect(str(tmp_path))
    assert str(error_info.value) == (
        "the daemon is agentctl 0.0.9 (protocol 99), "
        f"this is {__version__} (protocol {protocol.PROTOCOL})"
    )
    assert error_info.value.hint == "agentctl daemon restart"


@pytest.mark.parametrize("odd", [{"protocol": "x"}, {"pid": None}, {"version": 3, "start": []}])
def test_an_odd_hello_is_no_crash(tmp_path: Path, odd: dict[str, object]) -> None:
    with FakeDaemon(tmp_path, answer_hello(**odd)), pytest.raises(Unreachable):
        rpc.connect(str(tmp_path))


@pytest.mark.parametrize("raw", [b"nonsense\n", b"[]\n", b"{}\n", b"\xff\n", b'{"error": 1}\n'])
def test_nonsense_is_an_error(tmp_path: Path, raw: bytes) -> None:
    with (
        FakeDaemon(tmp_path, lambda connected, _: connected.sendall(raw)),
        Client(str(tmp_path)) as client,
        pytest.raises(Fault),
    ):
        client.call("hello")


def test_a_fault_has_its_code(tmp_path: Path) -> None:
    def speak(connected: socket.socket, _: bytes) -> None:
        connected.sendall(protocol.encode_fault(Fault(protocol.BUSY, "later", 1)))

    with FakeDaemon(tmp_path, speak), Client(str(tmp_path)) as client, pytest.raises(Fault) as fault:
        client.call("hello")
    assert fault.value.code == protocol.BUSY


@pytest.mark.parametrize(("code", "error"), [(protocol.ENDING, NoDaemon), (protocol.BUSY, Unreachable)])
def test_a_refusal_means_no_daemon_or_an_unreachable_one(
    tmp_path: Path, code: int, error: type[Exception]
) -> None:
    def speak(connected: socket.socket, _: bytes) -> None:
        connected.sendall(protocol.encode_fault(Fault(code, "no")))

    with FakeDaemon(tmp_path, speak), pytest.raises(error) as refusal:
        rpc.connect(str(tmp_path))
    assert type(refusal.value) is error


def test_a_daemon_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    with (
        FakeDaemon(tmp_path, lambda *_: None),
        Client(str(tmp_path), patience=0.05) as client,
        pytest.raises(Unreachable, match=r"within 0\.05 s"),
    ):
        client.call("hello")


def test_a_daemon_that_disconnects_is_none(tmp_path: Path) -> None:
    def speak(connected: socket.socket, _: bytes) -> None:
        connected.shutdown(socket.SHUT_RDWR)

    with FakeDaemon(tmp_path, speak), Client(str(tmp_path)) as client, pytest.raises(NoDaemon):
        client.call("hello")


def test_notifications_before_an_answer_are_kept(tmp_path: Path) -> None:
    def speak(connected: socket.socket, line: bytes) -> None:
        request = protocol.parse_request(line)
        assert not isinstance(request, Fault)
        for seq in (1, 2):
            connected.sendall(protocol.encode_notification("events", {"seq": seq}))
        connected.sendall(protocol.encode_result(request.id, "yes"))

    with FakeDaemon(tmp_path, speak), Client(str(tmp_path)) as client:
        assert client.call("x") == "yes"
        assert [(client.read_notification(DEADLINE) or {})["params"]["seq"] for _ in range(2)] == [1, 2]
        assert client.read_notification(0) is None


def test_a_home_longer_than_an_address(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 120)
    home.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with FakeDaemon(home, answer_hello()):
        rpc.connect(str(home)).close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_daemon_of_another_user_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeDaemon(tmp_path, answer_hello()):
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
        with pytest.raises(Unreachable, match="another user's"):
            Client(str(tmp_path))
