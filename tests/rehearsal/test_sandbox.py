"""A room holds what it is given: no way out, nobody else in sight, nothing left when it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.rehearsal import sandbox
from agentctl.system import proc
from tests.waiting import until

REASON = sandbox.obstacle()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no room can be had here: {REASON}")


def in_a_room(script: str, *, keep: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = sandbox.words([sys.executable, "-c", script], [str(keep)] if keep else [])
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_the_program_s_exit_code_is_the_room_s() -> None:
    assert in_a_room("raise SystemExit(7)").returncode == 7


def test_a_program_that_dies_by_a_signal_is_told_as_shells_do() -> None:
    assert in_a_room("import os; os.kill(os.getpid(), 9)").returncode == 137


def test_nobody_else_is_in_sight() -> None:
    seen = in_a_room("import os; print([p for p in os.listdir('/proc') if p.isdigit()])")
    assert seen.stdout.strip() == "['1', '2']"


def test_loopback_answers_and_nothing_else_does() -> None:
    script = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "try: socket.create_connection(('192.0.2.1', 80), timeout=5)\n"
        "except OSError as error: print(error.strerror)\n"
    )
    assert in_a_room(script).stdout.strip() == "Network is unreachable"


def test_tmp_is_its_own_but_for_what_is_kept(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("here")
    there = in_a_room(
        f"print(open({str(tmp_path / 'kept')!r}).read()); open('/tmp/new', 'w')", keep=tmp_path
    )
    assert there.stdout.strip() == "here"
    assert not os.path.exists("/tmp/new")


def test_nothing_but_its_own_tmp_can_be_written(tmp_path: Path) -> None:
    """Asks, and does not try: were it otherwise, a test must not write to the machine."""
    places = ["/", "/etc", "/var/tmp", os.path.expanduser("~"), str(tmp_path)]
    script = (
        "import os, pty\n"
        f"print(*[path for path in {places!r} if not os.statvfs(path).f_flag & os.ST_RDONLY])\n"
        "open('/tmp/new', 'w'), open('/dev/null', 'w'), pty.openpty()\n"
    )
    words = sandbox.words([sys.executable, "-c", script], [str(tmp_path)], read_only=True)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)
    assert sandbox.obstacle(read_only=True) is None


def test_an_orphan_ends_with_the_room(tmp_path: Path) -> None:
    pid_file = tmp_path / "ns"
    script = (
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(os.readlink('/proc/self/ns/pid'))\n"
    )
    assert in_a_room(script, keep=tmp_path).returncode == 0
    namespace = pid_file.read_text()
    until(lambda: namespace not in _namespaces(), "everything in the room has ended")


def test_the_room_ends_with_whoever_asked_for_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "ns"
    script = (
        "import os, time\n"
        f"open({str(pid_file)!r}, 'w').write(os.readlink('/proc/self/ns/pid'))\n"
        "time.sleep(600)\n"
    )
    asker = subprocess.Popen(sandbox.words([sys.executable, "-c", script], [str(tmp_path)]))
    until(lambda: pid_file.exists() and bool(pid_file.read_text()), "the room is in use")
    asker.kill()
    asker.wait()
    namespace = pid_file.read_text()
    until(lambda: namespace not in _namespaces(), "everything in the room has ended")


def test_a_program_that_is_not_there_is_told() -> None:
    done = subprocess.run(sandbox.words(["/no/such"]), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (127, "/no/such: No such file or directory")


@pytest.mark.parametrize("words", [[], ["true"], ["--"], ["--keep"], ["--keep", "/x"]])
def test_wrong_words_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert sandbox.main(words) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def _namespaces() -> set[str]:
    """Of all processes we may look at."""
    found = set()
    for pid in proc.read_table():
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/pid"))
        except OSError:  # ended meanwhile, or another user's
            continue
    return found
