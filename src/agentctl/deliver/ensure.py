"""Sees to it that whoever is to be told of events will be: the daemon delivers, so it has to run."""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.config.settings import Config
from agentctl.config.targets import ENVIRONMENT
from agentctl.daemon_client import start
from agentctl.daemon_client.client import Client
from agentctl.errors import AgentctlError, NoDaemon
from agentctl.state import targets

OTHER_ENVIRONMENT = (
    "the running daemon was started without AGENTCTL_WEBHOOK_URL, so it sends nothing there;"
    " run `agentctl daemon restart` in this shell"
)


def ready(state: str, settings: Config) -> list[str]:
    """Write down the targets, and start the daemon unless the settings forbid it. Returns warnings: a
    failure stops nothing, because what is to be delivered waits in the outbox."""
    try:
        targets.sync(paths.notes_file(state), settings.webhooks, settings.notify)
        if not settings.daemon_auto.value or not start.allowed(os.environ):
            return []  # as wanted: no word about it
        with start.ensure(os.environ) as client:
            return _differences(client, settings)
    except NoDaemon as error:
        return [f"nobody is told of events while no daemon runs: {error}"]
    except AgentctlError as error:
        return [f"webhooks and notifications may be late: {error}"]


def _differences(client: Client, settings: Config) -> list[str]:
    """A variable that we have, and the daemon that runs has not, cannot be delivered to."""
    if ENVIRONMENT not in settings.webhooks:
        return []
    told = client.call("daemon.status")
    parts = {part.get("name"): part for part in told.get("parts", [])}
    targets_of = parts.get("courier", {}).get("targets")
    if targets_of and ENVIRONMENT not in targets_of.get("webhook", []):
        return [OTHER_ENVIRONMENT]
    return []
