"""A room: one program and all it starts, in network, pid and mount namespaces of their own.

Inside, only loopback answers, only the room's own processes exist, /tmp is empty and private. When the
program ends, or whoever asked for the room dies, the kernel ends all that is in it. Root can have one,
anybody else where the kernel lets users make namespaces. With `--read-only`, nothing but /tmp can be
written from inside. With `--rehearsal`, nobody outside lists what runs in it (see `truth.rehearsals`).

    python -m agentctl.rehearsal.sandbox -- PROGRAM WORDS…
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

from agentctl.errors import Unsupported
from agentctl.system.program import KEEPER
from agentctl.truth import rehearsals

NEW_MOUNTS, NEW_USER, NEW_PIDS, NEW_NETWORK = 0x00020000, 0x10000000, 0x20000000, 0x40000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_SETATTR = (
    442  # the same number on every architecture; the C library has no word for it before 2.36
)
HERE, ALL_BELOW, NO_WRITING = -100, 0x8000, 0x1  # AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY
# Private besides /tmp, where nothing else can be written: agents keep locks here, and others' desktop
# services are reached through /run/user.
ALSO_PRIVATE = ("/dev/shm", "/run/user")
DIE_WITH_PARENT, SET_NAME = 1, 15  # PR_SET_PDEATHSIG, PR_SET_NAME
SET_FLAGS, UP, RUNNING = 0x8914, 0x1, 0x40  # SIOCSIFFLAGS and the flags of an interface
NO_ROOM = 125  # our own exit code, as `env` and `docker run` have it
ROOM = "AGENTCTL_ROOM"


def words(
    program: Sequence[str], keep: Sequence[str] = (), *, read_only: bool = False, maker: str = ""
) -> list[str]:
    """The command that runs `program` in a room. `keep`: directories below /tmp that stay visible.
    `maker`: it is a rehearsal, made by the process of this address."""
    kept = [word for path in keep for word in ("--keep", path)]
    only = ["--read-only"] if read_only else []
    rehearsal = [rehearsals.WORD, maker] if maker else []
    # -P: where a person stands there may be a signal.py or a socket.py of their own
    return [sys.executable, "-P", "-m", rehearsals.PROGRAM, *rehearsal, *only, *kept, "--", *program]


def obstacle(*, read_only: bool = False) -> str | None:
    """Why there can be no room here; None: there can."""
    if sys.platform != "linux":
        return "namespaces are a thing of Linux"
    command = words(["/bin/true"], read_only=read_only)
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else tried.stderr.strip() or f"exit {tried.returncode}"


def enter(program: Sequence[str], keep: Sequence[str], *, read_only: bool = False) -> int:
    """Runs the program in a new room and returns its exit code."""
    _die_with_parent()
    user, group = os.geteuid(), os.getegid()
    flags = NEW_MOUNTS | NEW_PIDS | NEW_NETWORK | (0 if user == 0 else NEW_USER)
    _call("unshare", flags)
    if user:
        _stay(user, group)
    first = os.fork()
    if first:
        return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    _die_with_parent()
    try:
        _furnish(keep, read_only=read_only)
        code = _keep_house(program)
    except (OSError, Unsupported) as error:
        print(f"no room here: {error}", file=sys.stderr)
        code = NO_ROOM
    os._exit(code)


def _stay(user: int, group: int) -> None:
    """The same uid inside as outside: some agents behave differently for root."""
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as table:
            table.write(line)


def _furnish(keep: Sequence[str], *, read_only: bool) -> None:
    _call("mount", b"none", b"/", None, PRIVATE | RECURSIVE, None)
    private = ["/tmp"]
    if read_only:
        wish = struct.pack("QQQQ", NO_WRITING, 0, 0, 0)
        _call("syscall", MOUNT_SETATTR, HERE, b"/", ALL_BELOW, wish, len(wish))
        private += [path for path in ALSO_PRIVATE if os.path.isdir(path)]
    _call("mount", b"proc", b"/proc", b"proc", 0, None)
    below = [path for path in map(os.path.realpath, keep) if path.startswith("/tmp/")]
    held = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in below}
    for path in private:
        _call("mount", b"tmpfs", path.encode(), b"tmpfs", 0, b"mode=1777")
    for path, opened in held.items():
        os.makedirs(path, exist_ok=True)
        _call(
            "mount", f"/proc/self/fd/{opened}".encode(), os.fsencode(path), None, BIND | RECURSIVE, None
        )
        os.close(opened)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", UP | RUNNING))


def _keep_house(program: Sequence[str]) -> int:
    """Process 1 of the room: starts the program, buries every orphan, ends with the program."""
    played = os.fork()
    if played == 0:
        os.environ[ROOM] = "1"
        try:
            os.execvp(program[0], list(program))
        except OSError as error:
            print(f"{program[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program; we end when it does
    while True:
        pid, status = os.wait()
        if pid == played:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _die_with_parent() -> None:
    _call("prctl", DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    """One call of the C library that Python 3.11 has no word for."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise Unsupported(name, os.strerror(number))


def main(given: Sequence[str]) -> int:
    words_before, keep, program, read_only = list(given), [], [], False
    options = f"[{rehearsals.WORD} MAKER] [--read-only] [--keep DIR]"
    usage = f"python -m {rehearsals.PROGRAM} {options} -- PROGRAM WORDS…"
    while words_before:
        word = words_before.pop(0)
        if word == "--keep" and words_before:
            keep.append(words_before.pop(0))
        elif word == "--read-only":
            read_only = True
        elif word == rehearsals.WORD and words_before:
            words_before.pop(0)  # for those who look at our arguments
            _call("prctl", SET_NAME, KEEPER.encode(), 0, 0, 0)
        elif word == "--" and words_before:
            program, words_before = words_before, []
        else:
            break
    if not program:
        print(f"usage: {usage}", file=sys.stderr)
        return 2
    try:
        kept = [*keep, os.getcwd(), sys.prefix, sys.base_prefix]
        return enter(program, kept, read_only=read_only)
    except (OSError, Unsupported) as error:
        print(f"no room here: {error}", file=sys.stderr)
        return NO_ROOM


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
