"""Notify systemd that the daemon is ready (`Type=notify`)."""

from __future__ import annotations

import os
import socket


def notify(message: str) -> None:
    """Send a message to systemd, if it waits. Remove NOTIFY_SOCKET from the environment: a program that
    the daemon starts must not speak for it."""
    path = os.environ.pop("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.sendto(message.encode(), address)
        except OSError:  # systemd has stopped listening
            pass
