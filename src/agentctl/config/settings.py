"""Settings: a flag of the call, else the environment, else `config.toml`, else what is built in. Each
value remembers which of them said it.

    settings = config.load(os.environ)
    cwd = settings.defaults.cwd.over(arguments.cwd).value
    model = settings.of("pi").model.over(arguments.model).value
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agentctl import paths
from agentctl.adapters.registry import registered
from agentctl.config.keys import ADAPTER_KEYS, KEYS
from agentctl.config.sources import Said, Setting, Source
from agentctl.errors import UsageError
from agentctl.system.private import present

if TYPE_CHECKING:
    from agentctl.config.targets import Notify, Webhook

__all__ = ["Agent", "Config", "Defaults", "Metrics", "Setting", "Source", "load"]
T = TypeVar("T")


class Defaults(NamedTuple):
    adapter: Setting[str | None]
    model: Setting[str | None]
    permission_mode: Setting[str | None]
    cwd: Setting[str | None]
    name: Setting[str | None]
    group: Setting[str | None]
    timeout: Setting[float | None]
    on_create: Setting[str | None]
    on_complete: Setting[str | None]


class Agent(NamedTuple):
    """What is set for one adapter."""

    binary: Setting[str | None]
    model: Setting[str | None]
    permission_mode: Setting[str | None]
    args: Setting[tuple[str, ...]]


class Metrics(NamedTuple):
    address: Setting[str]
    port: Setting[int]
    users: Setting[tuple[str, ...]]
    off: Setting[bool]


class Config(NamedTuple):
    file: str | None  # where it is or would be; None: no home is known
    defaults: Defaults
    ttl: Setting[float]
    settle: Setting[float]
    worktrees: Setting[str | None]
    agents: Mapping[str, Agent]  # by adapter, every one that there is
    metrics: Metrics
    journal_keep: Setting[float]
    journal_max_size: Setting[int]  # bytes
    daemon_auto: Setting[bool]
    webhooks: Mapping[str, Webhook]  # by name
    notify: Mapping[str, Notify]  # by name
    fuses_on_launch: Setting[str]

    def of(self, adapter: str) -> Agent:
        """What to launch this adapter with. A default model is a word of the default adapter's: another
        one does not get it."""
        mine, common = self.agents[adapter], self.defaults
        if common.adapter.value not in (None, adapter):
            return mine
        return mine._replace(
            model=_stronger(mine.model, common.model),
            permission_mode=_stronger(mine.permission_mode, common.permission_mode),
        )


def load(environ: Mapping[str, str]) -> Config:
    """Raises UsageError for a setting that makes no sense, SourceError for an unreadable file, or one
    that others may write to."""
    state = paths.state_directory(environ)
    file = paths.config_file(state) if state is not None else None
    adapters = tuple(known.name for known in registered())
    if file is not None and os.path.lexists(file):
        present(file)
    said = Said(file, environ, adapters)
    common = {name: said.setting(tuple(name.split(".")), key) for name, key in KEYS.items()}
    of_defaults = Defaults(*(common[f"defaults.{field}"] for field in Defaults._fields))
    if of_defaults.adapter.value not in (None, *adapters):
        named = of_defaults.adapter
        raise UsageError(
            f"{named.where}: no adapter named {named.value!r}", f"known adapters: {', '.join(adapters)}"
        )
    return Config(
        file,
        of_defaults,
        ttl=common["launches.ttl"],
        settle=common["launches.settle"],
        worktrees=common["worktrees.directory"],
        agents={adapter: _agent(said, adapter) for adapter in adapters},
        metrics=Metrics(*(common[f"metrics.{field}"] for field in Metrics._fields)),
        journal_keep=common["journal.keep"],
        journal_max_size=common["journal.max_size"],
        daemon_auto=common["daemon.auto"],
        webhooks=_webhooks(said, environ),
        notify=_notify(said),
        fuses_on_launch=common["fuses.on_launch"],
    )


def _agent(said: Said, adapter: str) -> Agent:
    middle = "".join(c if c.isalnum() else "_" for c in adapter.upper())
    return Agent(
        *(
            said.setting(("adapters", adapter, name), ADAPTER_KEYS[name], middle)
            for name in Agent._fields
        )
    )


def _webhooks(said: Said, environ: Mapping[str, str]) -> dict[str, Webhook]:
    if not environ.get("AGENTCTL_WEBHOOK_URL") and not said.names("webhooks"):
        return {}
    from agentctl.config.targets import webhooks  # most calls have none

    return webhooks(said)


def _notify(said: Said) -> dict[str, Notify]:
    if not said.names("notify"):
        return {}
    from agentctl.config.targets import notify

    return notify(said)


def _stronger(mine: Setting[T], common: Setting[T]) -> Setting[T]:
    """The environment before the file; what is said of one adapter before what is said of all."""
    strength = ("default", "file", "environment", "flag").index
    return mine if strength(mine.source) >= strength(common.source) else common
