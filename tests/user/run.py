"""Run tests as an ordinary user and print which could not run: `make test-user`.

Root starts them as a user that exists for this run alone, with a home, a /tmp and an account of its own;
any other user runs them as they are. The checkout is not writable for the tests.

    python -m tests.user.run [TESTS AND OTHER WORDS FOR PYTEST…]
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.user.account import find_free_uid, list_owners
from tests.user.enter import PROJECT
from tests.user.report import read

# What depends most on processes, files and rights. TESTS=tests runs all.
DEFAULT = (
    "law", "system", "state", "process", "daemon_client", "worktrees", "launch", "watch", "stop",
    "fuses", "compare", "deliver", "daemon",
)  # fmt: skip


def main(words: Sequence[str]) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="u-", dir="/tmp") as directory:
        base = Path(directory)
        report = base / "tmp" / "report.xml"
        uid = find_free_uid() if os.geteuid() == 0 else os.geteuid()
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}"]
        command += words or [f"tests/{name}" for name in DEFAULT]
        prepare(base, uid)
        code = as_other(uid, base, command) if os.geteuid() == 0 else as_we_are(command)
        result = read(report)
    for line in result.lines():
        print(line)
    seconds = time.monotonic() - began
    print(f"as uid {uid}: {result.counts()}, {seconds:.0f} s", flush=True)
    return code or (0 if result.passed else 1)


def prepare(base: Path, uid: int) -> None:
    """Create the directories. All users may enter `base`: private files are in `home` and `tmp`."""
    base.chmod(0o755)
    for name in ("home", "tmp"):
        (base / name).mkdir(mode=0o700)
        os.chown(base / name, uid, -1)


def as_we_are(command: Sequence[str]) -> int:
    return subprocess.run(command, cwd=PROJECT, check=False).returncode


def as_other(uid: int, base: Path, command: Sequence[str]) -> int:
    # Short: the paths of sockets below it may not be longer than 107 bytes.
    command = [*command, f"--basetemp={base}/tmp/t"]
    inside = [sys.executable, "-m", "tests.user.enter", str(uid), str(base), "--", *command]
    try:
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", *inside], cwd=PROJECT, check=False
        ).returncode
    finally:
        end_all(uid)


def end_all(uid: int) -> None:
    """Kill what tests left behind: the uid was free when we took it, so all its processes are ours."""
    for pid, owner in list_owners().items():
        if owner == uid:
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            words = command_line(pid)
            if words and list_owners().get(pid) == uid:
                print(f"left behind, ended now: {words}", file=sys.stderr)
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


def command_line(pid: int) -> str:
    """Return the words of a process, empty if it has ended."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    except OSError:
        return ""


if __name__ == "__main__":
    if shutil.which("unshare") is None and os.geteuid() == 0:
        sys.exit("test-user: unshare is not there: install util-linux")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
