"""The notifications to systemd."""

import os
import socket
from pathlib import Path

import pytest

from agentctl.daemon.systemd import notify


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_notified_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, abstract: bool
) -> None:
    name = f"@agentctl-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name[1:] if abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify("READY=1")
        assert listener.recv(100) == b"READY=1"
        assert "NOTIFY_SOCKET" not in os.environ, "what we start must not speak for us"
        notify("READY=1")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(100)


def test_a_socket_without_a_listener_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
