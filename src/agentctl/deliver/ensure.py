"""Make sure that events reach their targets: the daemon delivers them, so it has to run."""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.config.keys import ENVIRONMENT
from agentctl.config.settings import Config
from agentctl.daemon_client import start
from agentctl.daemon_client.client import Client
from agentctl.errors import AgentctlError, NoDaemon
from agentctl.state import outbox

OTHER_ENVIRONMENT = (
    "the running daemon was started without AGENTCTL_WEBHOOK_URL, so it sends nothing there;"
    " run `agentctl daemon restart` in this shell"
)


def ensure_delivery(state: str, settings: Config) -> list[str]:
    """Record the targets, and start the daemon unless the settings forbid it. Return warnings: a failure
    stops nothing, because deliveries wait in the outbox."""
    try:
        outbox.sync_targets(paths.database_file(state), settings.webhooks, settings.notify)
        if not settings.daemon.auto.value or not start.may_start(os.environ):
            return []  # the user wants it so: no warning
        with start.ensure_daemon(os.environ) as client:
            return _differences(client, settings)
    except NoDaemon as error:
        return [f"webhooks and notifications are sent only while the daemon runs: {error}"]
    except AgentctlError as error:
        return [f"webhooks and notifications may be late: {error}"]


def _differences(client: Client, settings: Config) -> list[str]:
    """Return a warning if this environment has a target that the daemon's does not have."""
    if ENVIRONMENT not in settings.webhooks:
        return []
    status = client.call("daemon.status")
    parts = {part.get("name"): part for part in status.get("parts", [])}
    has_variable = parts.get("courier", {}).get("environment_webhook", True)
    return [] if has_variable else [OTHER_ENVIRONMENT]
