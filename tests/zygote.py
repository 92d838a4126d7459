"""Run the command line in a process forked from one that has imported agentctl already.

A new interpreter costs 0.1 s of CPU, and the tests run the command line thousands of times. The forked
process is still a process of its own: arguments, environment, directory and streams are those of the
call. Only `/proc/PID/environ` and `/proc/PID/cmdline` show those of its parent.

    python -m tests.zygote FD      the parent: it forks one process per request, until FD is closed
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

NUMBER = 8  # bytes of a number on the socket
# The variables that change an interpreter when it starts. A zygote serves the calls that agree on them.
OF_THE_INTERPRETER = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC")


class Zygote:
    """The parent process, as its client sees it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote", str(theirs.fileno())],
            env=settings,
            cwd=Path(__file__).parents[1],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        atexit.register(self.close)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def run(
        self, words: Sequence[str], environ: Mapping[str, str], cwd: str, timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Return the exit code and what was written to both streams. Raise TimeoutExpired."""
        ours, theirs = socket.socketpair()
        with ours, open(os.devnull, "rb") as nothing, TemporaryFile() as out, TemporaryFile() as err:
            body = json.dumps({"words": [*words], "environ": {**environ}, "cwd": cwd}).encode()
            streams = [nothing.fileno(), out.fileno(), err.fileno(), theirs.fileno()]
            with self._lock, theirs:
                socket.send_fds(self._socket, [_packed(len(body))], streams)
                self._socket.sendall(body)
            ours.settimeout(timeout)
            pid = _received(ours)
            try:
                code = _received(ours)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)  # it is not reaped before it has answered us
                raise subprocess.TimeoutExpired([*words], timeout) from None
            return code, _content(out.fileno()), _content(err.fileno())


_zygotes: dict[str, Zygote] = {}
_starting = threading.Lock()


def run(
    words: Sequence[str], environ: Mapping[str, str], cwd: str, timeout: float
) -> tuple[int, bytes, bytes]:
    """Run `agentctl WORDS` to its end, in a process forked from a zygote that is started when needed."""
    settings = {k: v for k, v in environ.items() if k.startswith(OF_THE_INTERPRETER)}
    key = json.dumps(settings, sort_keys=True)
    with _starting:
        if key not in _zygotes:
            _zygotes[key] = Zygote(settings)
    return _zygotes[key].run(words, environ, cwd, timeout)


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    _import_everything()
    gc.freeze()  # a collection in the child would copy the pages of all these objects
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the helpers that `serve` forks
    while True:
        header, streams, _, _ = socket.recv_fds(requests, NUMBER, 4)
        if not header:
            return
        size, body = int.from_bytes(header, "big"), b""
        while len(body) < size:  # and no further: the next header brings the next streams
            body += requests.recv(size - len(body))
        if os.fork() == 0:
            requests.close()
            _serve(json.loads(body), streams)
        for descriptor in streams:
            os.close(descriptor)


def _serve(request: dict[str, object], streams: list[int]) -> None:
    """Fork the process that runs the command line, and report its pid and then its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, reply = streams
    pid = os.fork()
    if pid == 0:
        os.close(reply)
        _become(request, standard)
    with socket.socket(fileno=reply) as client:
        client.sendall(_packed(pid))
        _, status = os.waitpid(pid, 0)
        client.sendall(_packed(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(request: dict[str, object], standard: list[int]) -> None:
    from agentctl.__main__ import main as agentctl

    try:
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        cwd, words, environ = request["cwd"], request["words"], request["environ"]
        assert isinstance(cwd, str)
        assert isinstance(words, list)
        assert isinstance(environ, dict)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        sys.path[0] = cwd  # as `python -m agentctl` has it
        sys.argv = ["agentctl", *words]
        agentctl()
    except BaseException:  # noqa: BLE001 - an interpreter does the same with an uncaught exception
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def _import_everything() -> None:
    import agentctl

    for module in pkgutil.walk_packages(agentctl.__path__, "agentctl."):
        if not module.name.startswith(("agentctl.testing", "agentctl.daemon.__main__")):
            importlib.import_module(module.name)


def _packed(number: int) -> bytes:
    return number.to_bytes(NUMBER, "big", signed=True)


def _received(connection: socket.socket) -> int:
    packed = connection.recv(NUMBER)
    if not packed:
        raise RuntimeError("the zygote or its helper is gone")
    return int.from_bytes(packed, "big", signed=True)


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0)


if __name__ == "__main__":
    main()
