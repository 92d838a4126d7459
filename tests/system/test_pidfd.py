"""Handles on processes: only on the right process, with its exit code or none."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from agentctl.errors import Exhausted, Forbidden, Gone
from agentctl.system import pidfd, proc
from agentctl.system.proc import ProcessIdentity
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


def read_identity(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    return proc.read_process(child.pid, proc.read_boot_id()).identity


def send_code(child: subprocess.Popen[bytes], code: int) -> None:
    assert child.stdin is not None
    child.stdin.write(f"{code}\n".encode())
    child.stdin.flush()


def test_a_recycled_pid_is_refused(child: subprocess.Popen[bytes]) -> None:
    target = read_identity(child)
    for wrong in (target._replace(start=target.start + 1), target._replace(boot="an earlier boot")):
        with pytest.raises(Gone):
            pidfd.Handle(wrong)
    assert child.poll() is None


def test_a_refused_handle_leaves_no_descriptor(child: subprocess.Popen[bytes]) -> None:
    target = read_identity(child)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Gone):
        pidfd.Handle(target._replace(start=1))
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_unchecked_handle_leaves_no_descriptor(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(identity: ProcessIdentity) -> None:
        raise Exhausted(identity.address, "too many open files")

    target = read_identity(child)
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(proc, "find_process", refuse)
    with pytest.raises(Exhausted):
        pidfd.Handle(target)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_has_ended_has_no_handle(child: subprocess.Popen[bytes]) -> None:
    target = read_identity(child)
    child.kill()
    child.wait()
    with pytest.raises(Gone):
        pidfd.Handle(target)


def test_a_signal_ends_the_process_and_the_wait(child: subprocess.Popen[bytes]) -> None:
    with pidfd.Handle(read_identity(child)) as handle:
        assert not handle.wait(0)
        handle.signal(signal.SIGTERM)
        assert handle.wait(PATIENCE)
        assert handle.exit_code() == -signal.SIGTERM
        assert child.wait() == -signal.SIGTERM
        with pytest.raises(Gone):
            handle.signal(signal.SIGTERM)


def test_has_ended_waits_for_the_end(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = read_identity(child)
    assert not pidfd.has_ended(target, 0.01)
    child.kill()
    assert pidfd.has_ended(target, PATIENCE)
    child.wait()
    assert pidfd.has_ended(target, 0.0)

    def refuse(pid: int) -> int:
        raise PermissionError(1, "refused")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert not pidfd.has_ended(target, 0.0)  # we cannot tell


def test_the_exit_code_before_and_after_the_end_and_the_reaping(
    child: subprocess.Popen[bytes],
) -> None:
    with pidfd.Handle(read_identity(child)) as handle:
        assert handle.exit_code() is None  # alive: no code, not 0
        send_code(child, 7)
        assert handle.wait(PATIENCE)
        assert handle.exit_code() == 7  # a zombie's status
        child.wait()
        expected = 7 if pidfd.has_exit_info() else None
        assert handle.exit_code() == expected  # reaped: the kernel's exit info, or unknown


def test_without_exit_info_the_code_is_unknown_and_never_0(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without exit info the kernel answers with the mask bit clear and the code 0."""
    import fcntl

    def silent(_fd: int, _request: int, buffer: bytearray) -> int:
        buffer[:] = bytes(len(buffer))
        return 0

    def refused(_fd: int, _request: int, _buffer: bytearray) -> int:
        raise OSError(25, "Inappropriate ioctl for device")

    with pidfd.Handle(read_identity(child)) as handle:
        send_code(child, 7)
        child.wait()
        for answer in (silent, refused):
            monkeypatch.setattr(fcntl, "ioctl", answer)
            assert handle.exit_code() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_signal_to_another_users_process_is_forbidden(child: subprocess.Popen[bytes]) -> None:
    target = read_identity(child)
    other = os.fork()
    if other == 0:
        code = 1
        try:
            os.setresuid(65534, 65534, 65534)
            with pidfd.Handle(target) as handle:
                handle.signal(signal.SIGKILL)
        except Forbidden:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0
    assert child.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_zombie_has_no_exit_code(child: subprocess.Popen[bytes]) -> None:
    target = read_identity(child)
    send_code(child, 7)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    other = os.fork()
    if other == 0:
        code = 1
        try:
            os.setresuid(65534, 65534, 65534)
            zombie = proc.find_process(target)
            has_no_code = zombie is not None and pidfd.read_zombie_exit_code(zombie) is None
            code = 0 if has_no_code else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0


@pytest.mark.parametrize(("status", "code"), [(0, 0), (7 << 8, 7), (9, -9), (0x8B, -11)])
def test_a_wait_status_is_decoded(status: int, code: int) -> None:
    assert pidfd.decode_wait_status(status) == code  # 0x80: with a core dump


def test_a_zombie_reaped_after_the_look_has_no_exit_code() -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "exit 3"])
    until(lambda: proc.read_process(child.pid, proc.read_boot_id()).state == "Z", "a zombie")
    zombie, unread = (proc.read_process(child.pid, proc.read_boot_id()) for _ in range(2))
    assert pidfd.read_zombie_exit_code(zombie) == 3
    child.wait()
    assert pidfd.read_zombie_exit_code(unread) is None
