"""Sees to it that whoever is to be told of events will be: the daemon delivers, so it has to run."""

from __future__ import annotations

import os
import sys

from agentctl import paths
from agentctl.cli import summon
from agentctl.cli.text import one_line
from agentctl.config import Config
from agentctl.config_targets import ENVIRONMENT
from agentctl.errors import AgentctlError, NoDaemon
from agentctl.store import targets
from agentctl.wire.rpc import Client


def ready(state: str, settings: Config) -> None:
    """Notes who is to be told, and starts the daemon unless that is not wanted. Whatever fails is one
    line to the person, and stops nothing: what is to be delivered waits in the outbox."""
    try:
        targets.sync(paths.notes_file(state), settings.webhooks, settings.notify)
        if not settings.daemon_auto.value or not summon.allowed(os.environ):
            return  # as wanted: no word about it
        with summon.ensure(os.environ) as client:
            _warn_of_another_environment(client, settings)
    except NoDaemon as error:
        _warn(f"nobody is told of events while no daemon runs: {error}")
    except AgentctlError as error:
        _warn(f"webhooks and notifications may be late: {error}")


def _warn_of_another_environment(client: Client, settings: Config) -> None:
    """A variable that we have, and the daemon that runs has not, cannot be delivered to."""
    if ENVIRONMENT not in settings.webhooks:
        return
    told = client.call("daemon.status")
    parts = {part.get("name"): part for part in told.get("parts", [])}
    targets_of = parts.get("courier", {}).get("targets")
    if targets_of and ENVIRONMENT not in targets_of.get("webhook", []):
        _warn(
            "the daemon that runs was started without AGENTCTL_WEBHOOK_URL, and tells nobody there;"
            " agentctl daemon restart, from here"
        )


def _warn(text: str) -> None:
    print(f"agentctl: {one_line(text)}", file=sys.stderr)
