"""Tells systemd that we are ready, where it waits for that (`Type=notify`)."""

from __future__ import annotations

import os
import socket


def notify(word: str) -> None:
    """What we start later must not be able to speak for us: the variable goes."""
    place = os.environ.pop("NOTIFY_SOCKET", "")
    if not place:
        return
    address = "\0" + place[1:] if place.startswith("@") else place
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as spoken:
        try:
            spoken.sendto(word.encode(), address)
        except OSError:  # it has stopped listening
            pass
