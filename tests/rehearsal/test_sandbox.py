"""A sandbox holds what it was started with: no network, no other process in sight."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from agentctl.rehearsal import sandbox
from agentctl.system import proc
from tests.waiting import until

REASON = sandbox.find_obstacle()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no sandbox can be made here: {REASON}")


def run_in_sandbox(script: str, *, keep: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = sandbox.command_line([sys.executable, "-c", script], [str(keep)] if keep else [])
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_the_exit_code_of_the_program_is_that_of_the_sandbox() -> None:
    assert run_in_sandbox("raise SystemExit(7)").returncode == 7


def test_a_program_killed_by_a_signal_has_the_exit_code_of_a_shell() -> None:
    assert run_in_sandbox("import os; os.kill(os.getpid(), 9)").returncode == 137


def test_no_other_process_is_in_sight() -> None:
    result = run_in_sandbox("import os; print([p for p in os.listdir('/proc') if p.isdigit()])")
    assert result.stdout.strip() == "['1', '2']"


def test_loopback_answers_and_nothing_else_does() -> None:
    script = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "try: socket.create_connection(('192.0.2.1', 80), timeout=5)\n"
        "except OSError as error: print(error.strerror)\n"
    )
    assert run_in_sandbox(script).stdout.strip() == "Network is unreachable"


def test_tmp_is_its_own_except_for_the_directory_to_keep(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("here")
    new = f"/tmp/{uuid.uuid4()}"
    result = run_in_sandbox(
        f"print(open({str(tmp_path / 'kept')!r}).read()); open({new!r}, 'w')", keep=tmp_path
    )
    assert (result.returncode, result.stdout.strip()) == (0, "here")
    assert not os.path.exists(new)


def test_nothing_but_its_own_tmp_can_be_written(tmp_path: Path) -> None:
    """It asks, and does not try: if the sandbox were broken, a test must not write to the machine."""
    places = ["/", "/etc", "/var/tmp", os.path.expanduser("~"), str(tmp_path)]
    script = (
        "import os, pty\n"
        f"print(*[path for path in {places!r} if not os.statvfs(path).f_flag & os.ST_RDONLY])\n"
        "open('/tmp/new', 'w'), open('/dev/null', 'w'), pty.openpty()\n"
    )
    words = sandbox.command_line([sys.executable, "-c", script], [str(tmp_path)], read_only=True)
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout.strip(), result.stderr, result.returncode) == ("", "", 0)
    assert sandbox.find_obstacle(read_only=True) is None


def test_an_orphan_ends_with_the_sandbox(tmp_path: Path) -> None:
    pid_file = tmp_path / "ns"
    script = (
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(os.readlink('/proc/self/ns/pid'))\n"
    )
    assert run_in_sandbox(script, keep=tmp_path).returncode == 0
    namespace = pid_file.read_text()
    until(lambda: namespace not in _namespaces(), "everything in the sandbox has ended")


def test_the_sandbox_ends_with_its_caller(tmp_path: Path) -> None:
    pid_file = tmp_path / "ns"
    script = (
        "import os, time\n"
        f"open({str(pid_file)!r}, 'w').write(os.readlink('/proc/self/ns/pid'))\n"
        "time.sleep(600)\n"
    )
    caller = subprocess.Popen(sandbox.command_line([sys.executable, "-c", script], [str(tmp_path)]))
    until(lambda: pid_file.exists() and bool(pid_file.read_text()), "the sandbox is in use")
    caller.kill()
    caller.wait()
    namespace = pid_file.read_text()
    until(lambda: namespace not in _namespaces(), "everything in the sandbox has ended")


def test_a_missing_program_is_reported() -> None:
    result = subprocess.run(
        sandbox.command_line(["/no/such"]), capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr.strip()) == (127, "/no/such: No such file or directory")


@pytest.mark.parametrize("words", [[], ["true"], ["--"], ["--keep"], ["--keep", "/x"]])
def test_wrong_words_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert sandbox.main(words) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def _namespaces() -> set[str]:
    """Those of all processes that we may look at."""
    namespaces = set()
    for pid in proc.read_table():
        try:
            namespaces.add(os.readlink(f"/proc/{pid}/ns/pid"))
        except OSError:  # ended meanwhile, or another user's
            continue
    return namespaces
