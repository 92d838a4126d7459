"""Ask the daemon for the answer to `list`, `status` or `why`, and print it.

The daemon has everything imported and remembers what it read from files, so its answer takes a third of
the time. If it does not answer (it is gone, another user's, too slow, of another version), this process
looks itself, and the answer is the same. AGENTCTL_DEBUG=1 shows the reason.

This module imports only what the interpreter has loaded, a leaf of ours, and two modules in C: to import
`json`, `socket` and `argparse` takes longer than the answer.
"""

import os
import sys
import time

from agentctl import __version__
from agentctl.json_text import decode, quote

PROTOCOL = 1  # of `daemon_client.protocol`
TIMEOUT = 1.5  # seconds in all, in case the daemon hangs
REQUEST_CAP = 1 << 20  # bytes, of `daemon_client.protocol`
ANSWER_CAP = 1 << 26
MOST_PATH = 107  # bytes of a socket's path
# Words that the daemon does not handle: help is for this terminal, --watch looks repeatedly.
NOT_FOR_DAEMON = frozenset({"-h", "--help", "--watch", "--no-daemon"})


class NoAnswer(Exception):
    """Why the daemon has not answered."""


def show_answer(home: str, verb: str, words: list[str]) -> int | None:
    """Write the daemon's answer and return its exit code. None: there is no answer, look yourself."""
    if os.environ.get("AGENTCTL_NO_DAEMON") == "1" or not NOT_FOR_DAEMON.isdisjoint(words):
        return None
    try:
        code, out, err = ask_daemon(home, verb, words)
    except (NoAnswer, OSError, ImportError) as reason:
        if os.environ.get("AGENTCTL_DEBUG") == "1":
            sys.stderr.write(
                f"agentctl: not answered by the daemon: {reason or type(reason).__name__}\n"
            )
        return None
    sys.stdout.write(out)
    if err:
        sys.stdout.flush()
        sys.stderr.write(err)
    return code


def ask_daemon(home: str, verb: str, words: list[str]) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error. Raises NoAnswer, OSError."""
    import _socket

    until = time.monotonic() + TIMEOUT
    line = make_request(verb, words, until)
    if len(line) > REQUEST_CAP:
        raise NoAnswer("the environment is too large for a request")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(TIMEOUT)
        _connect(connection, home)
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # pid, uid, gid
        if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
            raise NoAnswer("it is another user's")
        connection.sendall(line)
        return parse_answer(_read_line(connection, until))
    finally:
        connection.close()


def make_request(verb: str, words: list[str], until: float) -> bytes:
    """Return the request, with all that the answer depends on. Raises OSError if the current directory
    was deleted."""
    environ = ",".join(f"{quote(name)}:{quote(value)}" for name, value in os.environ.items())
    return (
        '{"jsonrpc":"2.0","id":1,"method":"ask","params":{'
        f'"protocol":{PROTOCOL},"version":{quote(__version__)},"verb":{quote(verb)},'
        f'"words":[{",".join(map(quote, words))}],"environ":{{{environ}}},'
        f'"cwd":{quote(os.getcwd())},"terminal":{_terminal_columns()},'
        f'"path":[{",".join(map(quote, sys.path))}],"until":{until!r}}}}}\n'
    ).encode("ascii")


def _terminal_columns() -> str:
    try:
        return str(os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return "null"


def _connect(connection: "_socket.socket", home: str) -> None:  # type: ignore[name-defined] # noqa: F821
    path = os.fsencode(f"{home}/daemon.sock")
    if len(path) <= MOST_PATH:
        connection.connect(path)
        return
    directory = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{directory}/daemon.sock")
    finally:
        os.close(directory)


def _read_line(connection: "_socket.socket", until: float) -> bytes:  # type: ignore[name-defined] # noqa: F821
    """Read one line, which is the whole answer. Raises NoAnswer, OSError."""
    pieces: list[bytes] = []
    size = 0
    while not pieces or not pieces[-1].endswith(b"\n"):
        remaining = until - time.monotonic()
        if remaining <= 0:
            raise NoAnswer(f"no answer within {TIMEOUT:g} s")
        connection.settimeout(remaining)
        piece = connection.recv(1 << 20)
        size += len(piece)
        if not piece or size > ANSWER_CAP:
            raise NoAnswer("half an answer" if pieces else "it closed the connection")
        pieces.append(piece)
    return b"".join(pieces)


def parse_answer(line: bytes) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error. Raises NoAnswer if the line is anything else
    than the response to our request."""
    try:
        response = decode(line.decode("ascii"))
    except (ValueError, RecursionError):
        raise NoAnswer("not JSON") from None
    if not isinstance(response, dict) or response.get("id") != 1:
        raise NoAnswer("not the response to our request")
    result = response.get("result")
    if not isinstance(result, dict):
        error = response.get("error")
        raise NoAnswer(error.get("message") if isinstance(error, dict) else "neither result nor error")
    code, out, err = (result.get(name) for name in ("code", "stdout", "stderr"))
    if type(code) is not int or not isinstance(out, str) or not isinstance(err, str):
        raise NoAnswer("a result of another shape")
    return code, out, err
