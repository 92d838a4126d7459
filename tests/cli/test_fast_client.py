"""A valid answer of the daemon is shown; after anything else we look ourselves."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctl import __main__, __version__, paths
from agentctl.cli import fast_client
from agentctl.daemon_client import protocol
from tests.running import STRANGER
from tests.waiting import DEADLINE

Reply = Callable[[bytes], bytes]
GOOD = (
    b'{"jsonrpc":"2.0","id":1,"result":'
    b'{"code":3,"stdout":"h\\u00e9 \\ud83d\\ude00\\n","stderr":"no\\n"}}\n'
)


@contextmanager
def server(home: Path, reply: Reply | None) -> Iterator[list[bytes]]:
    """Answer one request with what `reply` returns for it; None: never. Yield the requests."""
    home.mkdir(parents=True, exist_ok=True)
    requests: list[bytes] = []
    over = threading.Event()
    listening = socket.socket(socket.AF_UNIX)
    directory = os.open(home, os.O_PATH)
    listening.bind(f"/proc/self/fd/{directory}/daemon.sock")
    listening.listen()

    def serve() -> None:
        try:
            connection, _ = listening.accept()
        except OSError:  # no client connected
            return
        with connection, connection.makefile("rb") as file:
            requests.append(file.readline())
            if reply is None:
                over.wait(DEADLINE)
            else:
                connection.sendall(reply(requests[0]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield requests
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(DEADLINE)
        listening.close()
        os.close(directory)


def test_an_answer_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with server(tmp_path, lambda _: GOOD):
        assert fast_client.show_answer(str(tmp_path), "list", ["-a"]) == 3
    sys.stdout.flush()
    assert capfd.readouterr() == ("hé 😀\n", "no\n")


def test_a_request_has_all_that_the_answer_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also values that are not UTF-8."""
    monkeypatch.setenv("ODD", os.fsdecode(b'\xff"\\\n\x00'[:-1]))
    monkeypatch.setenv("WIDE", "😀")
    words = ["--cwd", os.fsdecode(b"/\xfe"), "\t", "ü"]
    with server(tmp_path, lambda _: GOOD) as requests:
        fast_client.ask_daemon(str(tmp_path), "why", words)
    request = protocol.parse_request(requests[0])
    assert isinstance(request, protocol.Request)
    assert (request.id, request.method) == (1, "ask")
    params = request.params
    assert (params["protocol"], params["version"]) == (protocol.PROTOCOL, __version__)
    assert (params["verb"], params["words"]) == ("why", words)
    assert params["environ"] == dict(os.environ)
    assert (params["cwd"], params["path"]) == (os.getcwd(), sys.path)
    assert params["terminal"] is None
    assert type(params["until"]) is float


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda _: b"", "closed the connection"),
        (lambda _: GOOD[:-20], "half an answer"),
        (lambda _: b"\xff\n", "JSON"),
        (lambda _: b"{\n", "JSON"),
        (lambda _: b"[" * 100_000 + b"\n", "JSON"),
        (lambda _: b"\n", "JSON"),
        (lambda _: b"[]\n", "our request"),
        (lambda _: GOOD.replace(b'"id":1', b'"id":2'), "our request"),
        (lambda _: GOOD[:-1] + b"{}\n", "JSON"),
        (lambda _: b'{"id":1}\n', "neither"),
        (lambda _: b'{"id":1,"result":{"code":0}}\n', "another shape"),
        (lambda _: b'{"id":1,"result":{"code":true,"stdout":"","stderr":""}}\n', "another shape"),
        (lambda _: b'{"id":1,"error":{"code":-32001,"message":"elsewhere!"}}\n', "elsewhere!"),
        (lambda _: b'{"id":1,"error":null}\n', "neither"),
    ],
)
def test_an_invalid_reply_is_no_answer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reply: Reply,
    why: str,
) -> None:
    with server(tmp_path, reply):
        assert fast_client.show_answer(str(tmp_path), "list", []) is None
    assert capsys.readouterr() == ("", "")
    (tmp_path / "daemon.sock").unlink()
    monkeypatch.setenv("AGENTCTL_DEBUG", "1")
    with server(tmp_path, reply):
        assert fast_client.show_answer(str(tmp_path), "list", []) is None
    err = capsys.readouterr().err
    assert err.startswith("agentctl: not answered by the daemon: ")
    assert why in err
    assert err.count("\n") == 1


def test_a_daemon_that_hangs_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_client, "TIMEOUT", 0.05)
    with server(tmp_path, None):
        assert fast_client.show_answer(str(tmp_path), "list", []) is None


def test_without_a_listening_daemon_there_is_no_answer(tmp_path: Path) -> None:
    assert fast_client.show_answer(str(tmp_path), "list", []) is None
    with server(tmp_path, None):
        pass
    assert (tmp_path / "daemon.sock").exists()
    assert fast_client.show_answer(str(tmp_path), "list", []) is None


@pytest.mark.parametrize("words", [["--help"], ["-a", "-h"], ["--watch"], ["--no-daemon"]])
def test_words_that_a_daemon_cannot_answer_are_not_sent(tmp_path: Path, words: list[str]) -> None:
    with server(tmp_path, lambda _: GOOD) as requests:
        assert fast_client.show_answer(str(tmp_path), "list", words) is None
    assert requests == []


def test_no_request_is_sent_when_the_environment_forbids_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTL_NO_DAEMON", "1")
    with server(tmp_path, lambda _: GOOD) as requests:
        assert fast_client.show_answer(str(tmp_path), "list", []) is None
    assert requests == []


def test_an_environment_too_large_for_a_request_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUCH", "x" * fast_client.REQUEST_CAP)
    with server(tmp_path, lambda _: GOOD) as requests:
        assert fast_client.show_answer(str(tmp_path), "list", []) is None
    assert requests == []


def test_a_home_may_have_a_long_name(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 90) / ("y" * 90)
    with server(home, lambda _: GOOD):
        assert fast_client.ask_daemon(str(home), "list", [])[0] == 3


FOREIGN = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
os.setuid({uid})
listening.listen()
print("ready", flush=True)
connection, _ = listening.accept()
print(connection.recv(1 << 20), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_s_daemon_receives_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOREIGN.format(uid=STRANGER), str(tmp_path / "daemon.sock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(fast_client.NoAnswer, match="another user"):
            fast_client.ask_daemon(str(tmp_path), "list", [])
        assert child.stdout.readline() == b"b''\n"


def test_its_constants_are_those_of_the_protocol() -> None:
    assert (fast_client.PROTOCOL, fast_client.REQUEST_CAP) == (protocol.PROTOCOL, protocol.REQUEST_CAP)
    assert fast_client.ANSWER_CAP == protocol.ANSWER_CAP


@pytest.mark.parametrize(
    "environ", [{"HOME": "{}"}, {"HOME": "/nowhere", "AGENTCTL_HOME": "{}/.agentctl"}]
)
def test_the_socket_is_looked_for_in_our_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    monkeypatch.delenv("AGENTCTL_HOME", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert __main__._daemon_home() is None
    with server(tmp_path / ".agentctl", None):
        assert __main__._daemon_home() == paths.state_directory(os.environ)


def test_it_imports_only_two_c_modules_and_its_own(tmp_path: Path) -> None:
    """Two modules in C, our own, and our reader of JSON."""
    program = (
        "import sys; from agentctl.__main__ import dispatch; before = set(sys.modules);"
        "code = dispatch(['list']); print(code, sorted(set(sys.modules) - before))"
    )
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    with server(tmp_path / ".agentctl", lambda _: GOOD):
        ran = subprocess.run(
            [sys.executable, "-I", "-c", program],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
    line = ran.stdout.splitlines()[-1]
    ours = ["agentctl.cli", "agentctl.cli.fast_client", "agentctl.json_text"]
    assert line == f"3 {['_json', '_socket', *ours]}"
    assert json.loads(GOOD)["result"]["stdout"] in ran.stdout
    assert struct.calcsize("3i") == 12  # what SO_PEERCRED fills
