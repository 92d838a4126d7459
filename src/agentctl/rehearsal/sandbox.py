"""A sandbox: one program and all its descendants, in network, pid and mount namespaces of their own.

Inside, the network has only loopback, only the processes of the sandbox exist, and /tmp is empty and
private. When the program ends, or the process that made the sandbox dies, the kernel kills everything
in it. It needs root, or a kernel that lets users create namespaces. With `--read-only`, only /tmp is
writable. With `--rehearsal`, no list outside shows its agents (see `truth.rehearsals`).

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

from agentctl.errors import Unsupported
from agentctl.light_typing import Sequence
from agentctl.system.program import KEEPER
from agentctl.truth import rehearsals

NEW_MOUNTS, NEW_USER, NEW_PIDS, NEW_NETWORK = 0x00020000, 0x10000000, 0x20000000, 0x40000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_SETATTR = 442  # the same on every architecture; glibc has no function for it before 2.36
HERE, ALL_BELOW, NO_WRITING = -100, 0x8000, 0x1  # AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY
# With --read-only these are private too: agents keep locks in /dev/shm, and /run/user leads to the
# desktop services of the user.
ALSO_PRIVATE = ("/dev/shm", "/run/user")
DIE_WITH_PARENT, SET_NAME = 1, 15  # PR_SET_PDEATHSIG, PR_SET_NAME
SET_FLAGS, UP, RUNNING = 0x8914, 0x1, 0x40  # SIOCSIFFLAGS and the flags of an interface
NO_SANDBOX = 125  # exit code: there is no sandbox; `env` and `docker run` use the same
IN_SANDBOX = "AGENTCTL_ROOM"  # the variable that says: this process is in a sandbox


def command_line(
    program: Sequence[str], keep: Sequence[str] = (), *, read_only: bool = False, maker: str = ""
) -> list[str]:
    """Return the command line that runs `program` in a sandbox. `keep`: directories below /tmp that stay
    visible. `maker`: for a rehearsal, the address of the process that makes it."""
    options = [rehearsals.WORD, maker] if maker else []
    options += ["--read-only"] if read_only else []
    options += [word for path in keep for word in ("--keep", path)]
    # -P: the working directory may hold a signal.py or a socket.py
    return [sys.executable, "-P", "-m", rehearsals.PROGRAM, *options, "--", *program]


def find_obstacle(*, read_only: bool = False) -> str | None:
    """Return why a sandbox is not possible here; None if it is."""
    if sys.platform != "linux":
        return "a sandbox needs the namespaces of Linux"
    command = command_line(["/bin/true"], read_only=read_only)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if result.returncode == 0 else result.stderr.strip() or f"exit {result.returncode}"


def enter(program: Sequence[str], keep: Sequence[str], *, read_only: bool = False) -> int:
    """Run the program in a new sandbox. Return its exit code."""
    _die_with_parent()
    user, group = os.geteuid(), os.getegid()
    flags = NEW_MOUNTS | NEW_PIDS | NEW_NETWORK | (0 if user == 0 else NEW_USER)
    _call("unshare", flags)
    if user:
        _keep_ids(user, group)
    first = os.fork()
    if first:
        return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    _die_with_parent()
    try:
        _mount(keep, read_only=read_only)
        code = _run_as_init(program)
    except (OSError, Unsupported) as error:
        print(f"no sandbox here: {error}", file=sys.stderr)
        code = NO_SANDBOX
    os._exit(code)


def _keep_ids(user: int, group: int) -> None:
    """Keep the same uid inside: some agents behave differently for root."""
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as table:
            table.write(line)


def _mount(keep: Sequence[str], *, read_only: bool) -> None:
    """Mount /proc and the private directories, and bring loopback up."""
    _call("mount", b"none", b"/", None, PRIVATE | RECURSIVE, None)
    private = ["/tmp"]
    if read_only:
        attributes = struct.pack("QQQQ", NO_WRITING, 0, 0, 0)
        _call("syscall", MOUNT_SETATTR, HERE, b"/", ALL_BELOW, attributes, len(attributes))
        private += [path for path in ALSO_PRIVATE if os.path.isdir(path)]
    _call("mount", b"proc", b"/proc", b"proc", 0, None)
    below = [path for path in map(os.path.realpath, keep) if path.startswith("/tmp/")]
    directories = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in below}
    for path in private:
        _call("mount", b"tmpfs", path.encode(), b"tmpfs", 0, b"mode=1777")
    for path, descriptor in directories.items():
        os.makedirs(path, exist_ok=True)
        _call(
            "mount",
            f"/proc/self/fd/{descriptor}".encode(),
            os.fsencode(path),
            None,
            BIND | RECURSIVE,
            None,
        )
        os.close(descriptor)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", UP | RUNNING))


def _run_as_init(program: Sequence[str]) -> int:
    """Be process 1 of the sandbox: start the program, reap orphans, and return the program's exit
    code."""
    child = os.fork()
    if child == 0:
        os.environ[IN_SANDBOX] = "1"
        try:
            os.execvp(program[0], list(program))
        except OSError as error:
            print(f"{program[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program; we end with it
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _die_with_parent() -> None:
    _call("prctl", DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    """Call a function of the C library that Python 3.11 does not offer. Raises Unsupported."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise Unsupported(name, os.strerror(number))


def main(arguments: Sequence[str]) -> int:
    remaining, keep, program, read_only = list(arguments), [], [], False
    options = f"[{rehearsals.WORD} MAKER] [--read-only] [--keep DIR]"
    usage = f"python -m {rehearsals.PROGRAM} {options} -- PROGRAM WORDS…"
    while remaining:
        word = remaining.pop(0)
        if word == "--keep" and remaining:
            keep.append(remaining.pop(0))
        elif word == "--read-only":
            read_only = True
        elif word == rehearsals.WORD and remaining:
            remaining.pop(0)  # `truth.rehearsals` reads it in our command line
            _call("prctl", SET_NAME, KEEPER.encode(), 0, 0, 0)
        elif word == "--" and remaining:
            program, remaining = remaining, []
        else:
            break
    if not program:
        print(f"usage: {usage}", file=sys.stderr)
        return 2
    try:
        visible = [*keep, os.getcwd(), sys.prefix, sys.base_prefix]
        return enter(program, visible, read_only=read_only)
    except (OSError, Unsupported) as error:
        print(f"no sandbox here: {error}", file=sys.stderr)
        return NO_SANDBOX


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
