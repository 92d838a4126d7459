"""The one line that warns of daemon parts that do not do their work, or do it late.

On standard error, and without a change of the exit code: what was asked for is done.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentctl.daemon_client import client as rpc
from agentctl.daemon_client.client import Client
from agentctl.errors import AgentctlError, NoDaemon
from agentctl.text import one_line

Part = Mapping[str, Any]

STATES = ("failed", "failing", "degraded")  # in `daemon status`
PATIENCE = 1.0  # seconds: a warning is not worth more
NOT_FOR_AGENTS = ("metrics",)  # a launch and a fuse do without


def warn(client: Client, besides: Collection[str] = ()) -> None:
    """Of parts other than those. Raises AgentctlError where the daemon does not answer."""
    told = client.call("daemon.status")
    show(told.get("parts") if isinstance(told, dict) else None, besides)


def warn_of_running(home: str) -> None:
    """Of the daemon of this home, if one runs. For whoever needs no daemon."""
    try:
        with Client(home, PATIENCE) as client:
            warn(client, NOT_FOR_AGENTS)
    except NoDaemon:
        pass
    except AgentctlError as error:
        _print(f"{error}; events, fuses and webhooks wait for it: {rpc.RESTART}")


def show(parts: object, besides: Collection[str] = ()) -> None:
    known = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    text = warning(known, besides)
    if text is not None:
        _print(text)


def warning(parts: Sequence[Part], besides: Collection[str] = ()) -> str | None:
    """None where all of them work."""
    groups: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        state, name = str(part.get("state")), str(part.get("name"))
        if state in STATES and name not in besides:
            groups.setdefault((state, str(part.get("problem"))), []).append(name)
    told = [f"{', '.join(names)} {state}: {why}" for (state, why), names in groups.items()]
    return f"daemon: {'; '.join(told)}" if told else None


def _print(text: str) -> None:
    print(f"agentctl: {one_line(text)}", file=sys.stderr)
