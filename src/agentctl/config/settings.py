"""Settings: a flag of the call, else the environment, else `config.toml`, else the default. Each value
knows which of them set it. `config/keys.py` lists every setting.

    settings = config.load(os.environ)
    cwd = settings.defaults.cwd.override(arguments.cwd).value
    model = settings.for_adapter("pi").model.override(arguments.model).value
"""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.adapters.registry import find_adapters
from agentctl.config.keys import (
    ADAPTER_KEYS,
    ENVIRONMENT,
    KEYS,
    NOTIFY_KEYS,
    SECTIONS,
    WEBHOOK_KEYS,
    Agent,
    Daemon,
    Defaults,
    Fuses,
    Journal,
    Key,
    Launches,
    Metrics,
    Notify,
    Section,
    Setting,
    Source,
    Webhook,
    Worktrees,
    keys_of,
)
from agentctl.config.values import check_value
from agentctl.errors import UsageError
from agentctl.light_typing import Any, Iterator, Mapping, NamedTuple, TypeVar
from agentctl.system.permissions import is_trusted_file

__all__ = ["Config", "Setting", "Source", "Sources", "load", "read_notify", "read_webhooks"]
WAYS = ("desktop", "url", "command")
T = TypeVar("T")


class Config(NamedTuple):
    """All settings. `settings.journal.keep` is the setting `journal.keep`."""

    file: str | None  # its path, whether it exists or not; None: there is no home directory
    defaults: Defaults
    launches: Launches
    worktrees: Worktrees
    fuses: Fuses
    daemon: Daemon
    journal: Journal
    metrics: Metrics
    agents: Mapping[str, Agent]  # by adapter; every adapter has an entry
    webhooks: Mapping[str, Webhook]  # by name
    notify: Mapping[str, Notify]  # by name

    def for_adapter(self, adapter: str) -> Agent:
        """Return the settings to launch this adapter with. The default model and permission mode are
        words of the default adapter: another adapter does not get them."""
        agent, common = self.agents[adapter], self.defaults
        if common.adapter.value not in (None, adapter):
            return agent
        stronger = {
            "model": _stronger(agent.model, common.model),
            "permission_mode": _stronger(agent.permission_mode, common.permission_mode),
        }
        return Agent({**vars(agent), **stronger})

    def list_settings(self) -> Iterator[tuple[str, Setting[Any], Key[Any]]]:
        """Yield every setting with its full name and its key, in the order of `config/keys.py`."""
        sections: dict[str, Section] = {name: getattr(self, name) for name in SECTIONS}
        sections |= {f"adapters.{adapter}": agent for adapter, agent in self.agents.items()}
        sections |= {f"webhooks.{name}": webhook for name, webhook in self.webhooks.items()}
        sections |= {f"notify.{name}": target for name, target in self.notify.items()}
        for prefix, section in sections.items():
            for name, key in keys_of(type(section)).items():
                yield f"{prefix}.{name}", getattr(section, name), key


def load(environ: Mapping[str, str]) -> Config:
    """Read all settings. Raises UsageError for a wrong value, SourceError for a file that cannot be read
    or that other users may write to."""
    state = paths.state_directory(environ)
    file = paths.config_file(state) if state is not None else None
    adapters = tuple(adapter.name for adapter in find_adapters())
    if file is not None and os.path.lexists(file):
        is_trusted_file(file)
    sources = Sources(file, environ, adapters)
    sections: dict[str, Any] = {
        name: section({word: sources.read((name, word), key) for word, key in keys_of(section).items()})
        for name, section in SECTIONS.items()
    }
    default: Setting[str | None] = sections["defaults"].adapter
    if default.value not in (None, *adapters):
        raise UsageError(
            f"{default.where}: no adapter named {default.value!r}",
            f"known adapters: {', '.join(adapters)}",
        )
    return Config(
        file,
        **sections,
        agents={adapter: _read_agent(sources, adapter) for adapter in adapters},
        webhooks=read_webhooks(sources),
        notify=read_notify(sources),
    )


class Sources:
    """The environment and the file. Raises UsageError for a wrong value or an unknown setting,
    SourceError for a file that cannot be read."""

    def __init__(self, file: str | None, environ: Mapping[str, str], adapters: tuple[str, ...]) -> None:
        self.adapters = adapters
        self._environ = environ
        self._file = file
        self._entries: Mapping[tuple[str, ...], Any] = {}
        if file is not None and os.path.lexists(file):
            from agentctl.config.file import FREE, read_entries  # imports tomllib: only if needed

            allowed = [tuple(name.split(".")) for name in KEYS]
            allowed += [("adapters", adapter, name) for adapter in adapters for name in ADAPTER_KEYS]
            allowed += [("webhooks", FREE, name) for name in WEBHOOK_KEYS]
            allowed += [("notify", FREE, name) for name in NOTIFY_KEYS]
            self._entries = read_entries(file, allowed)

    def list_names(self, section: str) -> dict[str, str]:
        """Return the names that the user chose below this section, each with the place of its first
        line."""
        names: dict[str, str] = {}
        for path, entry in self._entries.items():
            if path[0] == section and path[1] not in names:
                names[path[1]] = self._place(entry)
        return names

    def read(self, path: tuple[str, ...], key: Key[T], middle: str = "") -> Setting[T]:
        """Return the setting of the environment, else of the file, else the default. `middle` completes
        the name of the variable."""
        return self.read_environment(key, middle) or self.read_file(path, key)

    def read_environment(self, key: Key[T], middle: str = "") -> Setting[T] | None:
        variable = key.variable.format(middle)
        value = self._environ.get(variable) if variable else None
        if not value:
            return None
        return Setting(self._check(value, key, variable), "environment", variable)

    def read_file(self, path: tuple[str, ...], key: Key[T]) -> Setting[T]:
        entry = self._entries.get(path)
        if entry is None:
            return Setting(key.default)
        where = self._place(entry)
        return Setting(self._check(entry.value, key, f"{where}: {'.'.join(path)}"), "file", where)

    def _place(self, entry: Any) -> str:
        return f"{self._file}:{entry.line}" if entry.line else f"{self._file}"

    def _check(self, value: object, key: Key[Any], place: str) -> Any:
        try:
            return check_value(value, key, self._environ)
        except UsageError as error:
            raise UsageError(f"{place}: {error}", error.hint) from error


def read_webhooks(sources: Sources) -> dict[str, Webhook]:
    """Return the webhooks of the file and the one of the environment. Raises UsageError."""
    webhooks = {}
    for name, where in _target_names(sources, "webhooks"):
        if name == ENVIRONMENT:
            raise UsageError(
                f"{where}: 'environment' is the name of the webhook in AGENTCTL_WEBHOOK_URL",
                "give it another name",
            )
        webhook = Webhook(name, _read_target(sources, "webhooks", name, WEBHOOK_KEYS))
        if webhook.url.value is None:
            raise UsageError(f"{where}: webhooks.{name} has no url", f"url = {Webhook.url.example}")
        webhooks[name] = webhook
    url = sources.read_environment(Webhook.url)
    if url is not None:
        values: dict[str, Setting[Any]] = {
            word: Setting(key.default) for word, key in WEBHOOK_KEYS.items()
        }
        secret = sources.read_environment(Webhook.secret) or values["secret"]
        webhooks[ENVIRONMENT] = Webhook(ENVIRONMENT, {**values, "url": url, "secret": secret})
    return webhooks


def read_notify(sources: Sources) -> dict[str, Notify]:
    """Return the targets of notifications. Raises UsageError."""
    targets = {}
    for name, where in _target_names(sources, "notify"):
        target = Notify(name, _read_target(sources, "notify", name, NOTIFY_KEYS))
        ways = [way for way in WAYS if getattr(target, way).value]
        if len(ways) != 1:
            problem = f"has {' and '.join(ways)}" if ways else "has no way to notify"
            raise UsageError(
                f"{where}: notify.{name} {problem}", "set one of: desktop = true, url = …, command = …"
            )
        targets[name] = target
    return targets


def _read_agent(sources: Sources, adapter: str) -> Agent:
    middle = "".join(c if c.isalnum() else "_" for c in adapter.upper())
    return Agent(
        {
            name: sources.read(("adapters", adapter, name), key, middle)
            for name, key in ADAPTER_KEYS.items()
        }
    )


def _target_names(sources: Sources, section: str) -> Iterator[tuple[str, str]]:
    import re  # most calls have no targets

    for name, where in sources.list_names(section).items():
        if not re.fullmatch(r"[\w-][\w.-]{0,63}", name, re.ASCII):
            raise UsageError(
                f"{where}: {name!r} cannot be the name of a target",
                "use letters, digits, - _ and .",
            )
        yield name, where


def _read_target(
    sources: Sources, section: str, name: str, keys: Mapping[str, Key[Any]]
) -> dict[str, Setting[Any]]:
    keys = {**keys, "adapters": keys["adapters"].with_choices(sources.adapters)}
    return {word: sources.read_file((section, name, word), key) for word, key in keys.items()}


def _stronger(agent: Setting[T], common: Setting[T]) -> Setting[T]:
    """Return the setting from the stronger source; on a tie the one of the agent."""
    strength = ("default", "file", "environment", "flag").index
    return agent if strength(agent.source) >= strength(common.source) else common
