"""OpenCode's processes: a server and its clients, one inside the other, and what becomes of a pid."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.actor import Actor
    from tests.real.lab import Lab


def client_quits(lab: Lab) -> None:
    """A server with sessions of two directories; one client, which only listens, is killed."""
    server = lab.headless("", form=lambda _: ["serve", "--port", "0"])
    url = _address(lab.root / "out0")
    server.is_now("idle")
    server.unsettled()  # from now on it is known by its sessions
    first, second = (_attach(lab, server, url, where) for where in ("here", "there"))
    client = lab.actors[1]
    client.signal(signal.SIGTERM)
    until(lambda: client.died_at is not None, "the client quits")
    for worker in (first, second):
        worker.is_now("running", since=client.died_at)
    first.opens()
    first.has_answer()
    second.is_now("running")
    second.opens()
    second.has_answer()
    for worker in (first, second):
        worker.unsettled()
    server.signal(signal.SIGKILL)
    for worker in (first, second):
        worker.is_gone(outcome="completed")


def _attach(lab: Lab, server: Actor, url: str, name: str) -> Actor:
    """A session that the server runs for a client."""
    where = str(lab.repository(lab.root / name))
    client = lab.headless(
        "[[gate=%]] count",
        form=lambda prompt: ["run", "--attach", url, "--dir", where, "--format", "json", prompt],
    )
    worker = lab.enters(server.process, client.mark)
    worker.is_held()
    return worker


def _address(output: Path) -> str:
    urls: list[str] = []

    def is_there() -> bool:
        urls[:] = re.findall(r"listening on (http://\S+)", output.read_text())
        return bool(urls)

    until(is_there, "the server listens", 60.0)
    return urls[0]
