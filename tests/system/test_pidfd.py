"""Handles on processes: only the one that was meant, and how it ended or nothing."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from agentctl.errors import Exhausted, Forbidden, Gone
from agentctl.system import pidfd, proc
from agentctl.system.identity import ProcessIdentity
from tests.waiting import until

PATIENCE = 20.0


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Reads its exit code from standard input."""
    command = ["/bin/sh", "-c", "read code; exit $code"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE)
    yield child
    child.kill()
    child.wait()
    assert child.stdin is not None
    child.stdin.close()


def identity(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    return proc.read_process(child.pid, proc.boot_id()).identity


def end(child: subprocess.Popen[bytes], code: int) -> None:
    assert child.stdin is not None
    child.stdin.write(f"{code}\n".encode())
    child.stdin.flush()


def test_a_recycled_pid_is_refused(child: subprocess.Popen[bytes]) -> None:
    real = identity(child)
    for wrong in (real._replace(start=real.start + 1), real._replace(boot="an earlier boot")):
        with pytest.raises(Gone):
            pidfd.Handle(wrong)
    assert child.poll() is None


def test_a_refused_handle_leaves_no_descriptor(child: subprocess.Popen[bytes]) -> None:
    real = identity(child)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Gone):
        pidfd.Handle(real._replace(start=1))
    assert len(os.listdir("/proc/self/fd")) == before


def test_nor_does_one_that_cannot_be_checked(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(identity: ProcessIdentity) -> None:
        raise Exhausted(identity.address, "too many open files")

    real = identity(child)
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(proc, "current", refuse)
    with pytest.raises(Exhausted):
        pidfd.Handle(real)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_has_ended_has_no_handle(child: subprocess.Popen[bytes]) -> None:
    real = identity(child)
    child.kill()
    child.wait()
    with pytest.raises(Gone):
        pidfd.Handle(real)


def test_a_signal_reaches_it_and_the_wait_returns(child: subprocess.Popen[bytes]) -> None:
    with pidfd.Handle(identity(child)) as handle:
        assert not handle.wait(0)
        handle.signal(signal.SIGTERM)
        assert handle.wait(PATIENCE)
        assert handle.exit_code() == -signal.SIGTERM
        assert child.wait() == -signal.SIGTERM
        with pytest.raises(Gone):
            handle.signal(signal.SIGTERM)


def test_whether_it_ends_in_time(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = identity(child)
    assert not pidfd.has_ended(real, 0.01)
    child.kill()
    assert pidfd.has_ended(real, PATIENCE)
    child.wait()
    assert pidfd.has_ended(real, 0.0)

    def refuse(pid: int) -> int:
        raise PermissionError(1, "refused")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert not pidfd.has_ended(real, 0.0)  # nobody can tell


def test_the_exit_code_ladder(child: subprocess.Popen[bytes]) -> None:
    with pidfd.Handle(identity(child)) as handle:
        assert handle.exit_code() is None  # alive: no code, not 0
        end(child, 7)
        assert handle.wait(PATIENCE)
        assert handle.exit_code() == 7  # a zombie's status
        child.wait()
        expected = 7 if pidfd.exit_info_supported() else None
        assert handle.exit_code() == expected  # reaped: the kernel's exit info, or nobody can tell


def test_without_exit_info_the_code_is_unknown_and_never_0(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel answers when it has no exit to tell: the mask bit clear, the code 0."""
    import fcntl

    def silent(_fd: int, _request: int, buffer: bytearray) -> int:
        buffer[:] = bytes(len(buffer))
        return 0

    def refused(_fd: int, _request: int, _buffer: bytearray) -> int:
        raise OSError(25, "Inappropriate ioctl for device")

    with pidfd.Handle(identity(child)) as handle:
        end(child, 7)
        child.wait()
        for answer in (silent, refused):
            monkeypatch.setattr(fcntl, "ioctl", answer)
            assert handle.exit_code() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_process_is_not_ours_to_touch(child: subprocess.Popen[bytes]) -> None:
    meant = identity(child)
    other = os.fork()
    if other == 0:
        code = 1
        try:
            os.setresuid(65534, 65534, 65534)
            with pidfd.Handle(meant) as handle:
                handle.signal(signal.SIGKILL)
        except Forbidden:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0
    assert child.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_zombie_does_not_tell(child: subprocess.Popen[bytes]) -> None:
    meant = identity(child)
    end(child, 7)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    other = os.fork()
    if other == 0:
        code = 1
        try:
            os.setresuid(65534, 65534, 65534)
            zombie = proc.current(meant)
            told = zombie is not None and pidfd.zombie_exit_code(zombie) is None
            code = 0 if told else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0


@pytest.mark.parametrize(("status", "code"), [(0, 0), (7 << 8, 7), (9, -9), (0x8B, -11)])
def test_a_wait_status_is_decoded(status: int, code: int) -> None:
    assert pidfd.decode(status) == code  # 0x80: it dumped core


def test_a_zombie_that_was_reaped_since_we_looked_tells_nothing() -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "exit 3"])
    until(lambda: proc.read_process(child.pid, proc.boot_id()).state == "Z", "a zombie")
    zombie, unread = (proc.read_process(child.pid, proc.boot_id()) for _ in range(2))
    assert pidfd.zombie_exit_code(zombie) == 3
    child.wait()
    assert pidfd.zombie_exit_code(unread) is None
