"""Whether a process talks to anybody."""

import os
import socket
import subprocess
import sys

import pytest

from agentctl.errors import Gone
from agentctl.system import proc, sockets
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process


def ourselves() -> Process:
    return proc.read_process(os.getpid(), proc.boot_id())


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_who_is_connected(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {address}: {error}")
    with server:
        before = len(sockets.sockets(ourselves()))
        with socket.create_connection(server.getsockname()[:2]):
            called, _ = server.accept()
            with called:
                assert sockets.is_connected(ourselves())
                assert len(sockets.sockets(ourselves())) == before + 2


def test_one_that_listens_alone_is_not_connected() -> None:
    program = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(flush=True); input()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = proc.read_process(child.pid, proc.boot_id())
        assert len(sockets.sockets(process)) == 1
        assert not sockets.is_connected(process)
        child.kill()


def test_one_without_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Process, "open_files", lambda _: ("/dev/null", "pipe:[12]"))
    assert sockets.sockets(ourselves()) == []
    assert not sockets.is_connected(ourselves())


def test_a_line_that_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "CAP", 200)
    with socket.create_server(("127.0.0.1", 0)):
        sockets.sockets(ourselves())


def test_one_that_is_gone() -> None:
    gone = Process(ProcessIdentity(proc.boot_id(), os.getpid(), 1), 1, "S", "sh")
    with pytest.raises(Gone):
        sockets.sockets(gone)
