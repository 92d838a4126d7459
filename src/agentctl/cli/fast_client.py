"""The way by the daemon: asks it what `list`, `status` or `why` would show here, and shows that.

A daemon has everything imported and remembers what files said, so asking it takes a third of the time.
It is never needed: whatever is odd about it (nobody listens, it is another user's, too slow, of another
version, says half an answer), we look ourselves, and the answer is the same. AGENTCTL_DEBUG=1 tells why.

Imports nothing that the interpreter has not got already but two modules in C: `json`, `socket` and
`argparse` together take longer than the answer.
"""

import os
import sys
import time

from agentctl import __version__

PROTOCOL = 1  # of `daemon_client.protocol`
PATIENCE = 1.5  # seconds in all: a daemon that hangs holds nobody up for longer
REQUEST_CAP = 1 << 20  # bytes, of `daemon_client.protocol`
ANSWER_CAP = 1 << 26
LONGEST = 107  # bytes of a socket's path
# Words that are not for a daemon: help is for our terminal, a watch looks again and again by itself.
OUR_OWN = frozenset({"-h", "--help", "--watch", "--no-daemon"})


class Unasked(Exception):
    """Why the daemon has not answered."""


def shown(home: str, verb: str, words: list[str]) -> int | None:
    """The exit code, when the daemon's answer has been written; None: look yourself."""
    if os.environ.get("AGENTCTL_NO_DAEMON") == "1" or not OUR_OWN.isdisjoint(words):
        return None
    try:
        code, out, err = asked(home, verb, words)
    except (Unasked, OSError, ImportError) as why:
        if os.environ.get("AGENTCTL_DEBUG") == "1":
            sys.stderr.write(f"agentctl: not by the daemon: {why or type(why).__name__}\n")
        return None
    sys.stdout.write(out)
    if err:
        sys.stdout.flush()
        sys.stderr.write(err)
    return code


def asked(home: str, verb: str, words: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output, standard error. Raises Unasked, OSError."""
    import _socket

    until = time.monotonic() + PATIENCE
    line = request(verb, words, until)
    if len(line) > REQUEST_CAP:
        raise Unasked("the environment is too large for a question")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(PATIENCE)
        _connect(connection, home)
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # pid, uid, gid
        if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
            raise Unasked("it is another user's")
        connection.sendall(line)
        return answer(_line(connection, until))
    finally:
        connection.close()


def request(verb: str, words: list[str], until: float) -> bytes:
    """The question, with all that its answer depends on. Raises OSError where we are nowhere."""
    from _json import encode_basestring_ascii as quoted

    environ = ",".join(f"{quoted(name)}:{quoted(value)}" for name, value in os.environ.items())
    return (
        '{"jsonrpc":"2.0","id":1,"method":"ask","params":{'
        f'"protocol":{PROTOCOL},"version":{quoted(__version__)},"verb":{quoted(verb)},'
        f'"words":[{",".join(map(quoted, words))}],"environ":{{{environ}}},'
        f'"cwd":{quoted(os.getcwd())},"terminal":{_terminal()},'
        f'"path":[{",".join(quoted(place) for place in sys.path)}],"until":{until!r}}}}}\n'
    ).encode("ascii")


def _terminal() -> str:
    """Columns of the terminal that is written to."""
    try:
        return str(os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return "null"


def _connect(connection: "_socket.socket", home: str) -> None:  # type: ignore[name-defined] # noqa: F821
    path = os.fsencode(f"{home}/daemon.sock")
    if len(path) <= LONGEST:
        connection.connect(path)
        return
    directory = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{directory}/daemon.sock")
    finally:
        os.close(directory)


def _line(connection: "_socket.socket", until: float) -> bytes:  # type: ignore[name-defined] # noqa: F821
    """All up to the end of the line, which is the end of the answer."""
    pieces: list[bytes] = []
    size = 0
    while not pieces or not pieces[-1].endswith(b"\n"):
        left = until - time.monotonic()
        if left <= 0:
            raise Unasked(f"no answer within {PATIENCE:g} s")
        connection.settimeout(left)
        piece = connection.recv(1 << 20)
        size += len(piece)
        if not piece or size > ANSWER_CAP:
            raise Unasked("half an answer" if pieces else "it hung up")
        pieces.append(piece)
    return b"".join(pieces)


class _Plain:
    """JSON as it is: what the scanner in C wants to know of its user."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012 - never looked at by us


def answer(line: bytes) -> tuple[int, str, str]:
    """What it says, if it is an answer to our question and nothing else. Raises Unasked."""
    from _json import make_scanner

    try:
        text = line.decode("ascii")
        told, end = make_scanner(_Plain)(text, 0)  # type: ignore[arg-type] # as `json` does
    except (ValueError, StopIteration, RecursionError):
        raise Unasked("it does not speak JSON") from None
    if text[end:] != "\n" or not isinstance(told, dict) or told.get("id") != 1:
        raise Unasked("not an answer to our question")
    result = told.get("result")
    if not isinstance(result, dict):
        error = told.get("error")
        raise Unasked(error.get("message") if isinstance(error, dict) else "neither result nor error")
    code, out, err = (result.get(name) for name in ("code", "stdout", "stderr"))
    if type(code) is not int or not isinstance(out, str) or not isinstance(err, str):
        raise Unasked("not the answer that we know")
    return code, out, err
