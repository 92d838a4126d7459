"""A daemon's answer is shown if it is one; whatever else comes, we look ourselves."""

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
    """Answers one question with whatever `reply` makes of it; None: not at all."""
    home.mkdir(parents=True, exist_ok=True)
    asked: list[bytes] = []
    over = threading.Event()
    listening = socket.socket(socket.AF_UNIX)
    directory = os.open(home, os.O_PATH)
    listening.bind(f"/proc/self/fd/{directory}/daemon.sock")
    listening.listen()

    def serve() -> None:
        try:
            connection, _ = listening.accept()
        except OSError:  # nobody came
            return
        with connection, connection.makefile("rb") as file:
            asked.append(file.readline())
            if reply is None:
                over.wait(DEADLINE)
            else:
                connection.sendall(reply(asked[0]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(DEADLINE)
        listening.close()
        os.close(directory)


def test_an_answer_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with server(tmp_path, lambda _: GOOD):
        assert fast_client.shown(str(tmp_path), "list", ["-a"]) == 3
    sys.stdout.flush()
    assert capfd.readouterr() == ("hé 😀\n", "no\n")


def test_all_that_the_answer_depends_on_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is no UTF-8."""
    monkeypatch.setenv("ODD", os.fsdecode(b'\xff"\\\n\x00'[:-1]))
    monkeypatch.setenv("WIDE", "😀")
    words = ["--cwd", os.fsdecode(b"/\xfe"), "\t", "ü"]
    with server(tmp_path, lambda _: GOOD) as asked:
        fast_client.asked(str(tmp_path), "why", words)
    found = protocol.decoded(asked[0])
    assert isinstance(found, protocol.Request)
    assert (found.id, found.method) == (1, "ask")
    given = found.params
    assert (given["protocol"], given["version"]) == (protocol.PROTOCOL, __version__)
    assert (given["verb"], given["words"]) == ("why", words)
    assert given["environ"] == dict(os.environ)
    assert (given["cwd"], given["path"]) == (os.getcwd(), sys.path)
    assert given["terminal"] is None
    assert type(given["until"]) is float


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda _: b"", "hung up"),
        (lambda _: GOOD[:-20], "half an answer"),
        (lambda _: b"\xff\n", "JSON"),
        (lambda _: b"{\n", "JSON"),
        (lambda _: b"[" * 100_000 + b"\n", "JSON"),
        (lambda _: b"\n", "JSON"),
        (lambda _: b"[]\n", "our question"),
        (lambda _: GOOD.replace(b'"id":1', b'"id":2'), "our question"),
        (lambda _: GOOD[:-1] + b"{}\n", "our question"),
        (lambda _: b'{"id":1}\n', "neither"),
        (lambda _: b'{"id":1,"result":{"code":0}}\n', "that we know"),
        (lambda _: b'{"id":1,"result":{"code":true,"stdout":"","stderr":""}}\n', "that we know"),
        (lambda _: b'{"id":1,"error":{"code":-32001,"message":"elsewhere!"}}\n', "elsewhere!"),
        (lambda _: b'{"id":1,"error":null}\n', "neither"),
    ],
)
def test_whatever_is_odd_we_look_ourselves(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reply: Reply,
    why: str,
) -> None:
    with server(tmp_path, reply):
        assert fast_client.shown(str(tmp_path), "list", []) is None
    assert capsys.readouterr() == ("", "")
    (tmp_path / "daemon.sock").unlink()
    monkeypatch.setenv("AGENTCTL_DEBUG", "1")
    with server(tmp_path, reply):
        assert fast_client.shown(str(tmp_path), "list", []) is None
    told = capsys.readouterr().err
    assert told.startswith("agentctl: not by the daemon: ")
    assert why in told
    assert told.count("\n") == 1


def test_one_that_hangs_holds_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_client, "PATIENCE", 0.05)
    with server(tmp_path, None):
        assert fast_client.shown(str(tmp_path), "list", []) is None


def test_nobody_listens(tmp_path: Path) -> None:
    assert fast_client.shown(str(tmp_path), "list", []) is None
    with server(tmp_path, None):
        pass
    assert (tmp_path / "daemon.sock").exists()
    assert fast_client.shown(str(tmp_path), "list", []) is None


@pytest.mark.parametrize("words", [["--help"], ["-a", "-h"], ["--watch"], ["--no-daemon"]])
def test_what_is_not_for_a_daemon_is_not_asked(tmp_path: Path, words: list[str]) -> None:
    with server(tmp_path, lambda _: GOOD) as asked:
        assert fast_client.shown(str(tmp_path), "list", words) is None
    assert asked == []


def test_nor_where_a_person_wants_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTL_NO_DAEMON", "1")
    with server(tmp_path, lambda _: GOOD) as asked:
        assert fast_client.shown(str(tmp_path), "list", []) is None
    assert asked == []


def test_an_environment_too_large_for_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUCH", "x" * fast_client.REQUEST_CAP)
    with server(tmp_path, lambda _: GOOD) as asked:
        assert fast_client.shown(str(tmp_path), "list", []) is None
    assert asked == []


def test_a_home_with_a_long_name(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 90) / ("y" * 90)
    with server(home, lambda _: GOOD):
        assert fast_client.asked(str(home), "list", [])[0] == 3


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
def test_another_user_s_daemon_is_told_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOREIGN.format(uid=STRANGER), str(tmp_path / "daemon.sock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(fast_client.Unasked, match="another user"):
            fast_client.asked(str(tmp_path), "list", [])
        assert child.stdout.readline() == b"b''\n"


def test_the_numbers_are_those_of_the_wire() -> None:
    assert (fast_client.PROTOCOL, fast_client.REQUEST_CAP) == (protocol.PROTOCOL, protocol.REQUEST_CAP)
    assert fast_client.ANSWER_CAP == protocol.ANSWER_CAP


@pytest.mark.parametrize(
    "environ", [{"HOME": "{}"}, {"HOME": "/nowhere", "AGENTCTL_HOME": "{}/.agentctl"}]
)
def test_it_looks_where_our_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    monkeypatch.delenv("AGENTCTL_HOME", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert __main__._daemon_home() is None
    with server(tmp_path / ".agentctl", None):
        assert __main__._daemon_home() == paths.state_directory(os.environ)


def test_what_it_imports(tmp_path: Path) -> None:
    """Two modules in C, and our own."""
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
    told = ran.stdout.splitlines()[-1]
    assert told == "3 ['_json', '_socket', 'agentctl.cli', 'agentctl.cli.fast_client']"
    assert json.loads(GOOD)["result"]["stdout"] in ran.stdout
    assert struct.calcsize("3i") == 12  # what SO_PEERCRED fills
