"""The status of a running daemon, and a warning about parts that do not work, or work late."""

from __future__ import annotations

from agentctl import paths
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import lock_file
from agentctl.daemon_client.client import Client
from agentctl.errors import AgentctlError, Fault, NoDaemon, SourceError, Unreachable
from agentctl.light_typing import Any, Collection, Mapping, Sequence
from agentctl.state import journal

Part = Mapping[str, Any]

STATES = ("failed", "failing", "degraded")  # states to warn about
PATIENCE = 1.0  # seconds: a command waits no longer for a warning
NOT_FOR_AGENTS = ("metrics",)  # parts that a launch and a fuse do not need


def read_status(home: str) -> dict[str, Any] | None:
    """Return what the daemon says of itself; None if none runs. Raises Unreachable if a daemon runs and
    does not answer as expected."""
    try:
        with rpc.connect(home) as client:
            status = client.call("daemon.status")
    except NoDaemon:
        holder = lock_file.find_proven(home)
        if holder is None:
            return None
        raise Unreachable(
            f"the daemon does not answer: {holder.label}", "agentctl daemon restart"
        ) from None
    except Fault as error:
        raise Unreachable(f"the daemon refuses: {error}", "agentctl daemon logs") from error
    if not isinstance(status, dict):
        raise Unreachable("the daemon's status is of an unknown shape", rpc.RESTART)
    return {**status, "seq": _last_event(home, status.get("seq"))}


def _last_event(home: str, seq: object) -> int | None:
    try:
        return max(journal.read_last_seq(paths.database_file(home)), seq if isinstance(seq, int) else 0)
    except SourceError:
        return None


def read_warning(client: Client, besides: Collection[str] = ()) -> str | None:
    """Ask for the parts. Raises AgentctlError if the daemon does not answer."""
    status = client.call("daemon.status")
    return parts_warning(status.get("parts") if isinstance(status, dict) else None, besides)


def running_warning(home: str) -> str | None:
    """Return a warning about the daemon of this home, if one runs, for a verb that does not need it."""
    try:
        with Client(home, PATIENCE) as client:
            return read_warning(client, NOT_FOR_AGENTS)
    except NoDaemon:
        return None
    except AgentctlError as error:
        return f"{error}; events, fuses and webhooks wait for it: {rpc.RESTART}"


def parts_warning(parts: object, besides: Collection[str] = ()) -> str | None:
    """Return one line about the parts that do not work; None: all do. `besides`: left out."""
    listed = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return _warning([part for part in listed if str(part.get("name")) not in besides])


def _warning(parts: Sequence[Part]) -> str | None:
    groups: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        if part.get("state") in STATES:
            key = str(part.get("state")), str(part.get("problem"))
            groups.setdefault(key, []).append(str(part.get("name")))
    lines = [f"{', '.join(names)} {state}: {why}" for (state, why), names in groups.items()]
    return f"daemon: {'; '.join(lines)}" if lines else None
