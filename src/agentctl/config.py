"""Settings: a flag of the call, else the environment, else `config.toml`, else what is built in. Each
value remembers which of them said it.

    settings = config.load(os.environ)
    cwd = settings.defaults.cwd.over(arguments.cwd).value
    model = settings.of("pi").model.over(arguments.model).value
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from agentctl import paths
from agentctl.adapters.registry import registered
from agentctl.config_keys import ADAPTER_KEYS, KEYS, Key, checked
from agentctl.errors import UsageError

Source = Literal["flag", "environment", "file", "default"]
T = TypeVar("T")


class Setting(NamedTuple, Generic[T]):
    value: T
    source: Source = "default"
    where: str = ""  # the variable, or the file and line

    def over(self, flag: T | None) -> Setting[T]:
        """This, unless the call says otherwise."""
        return self if flag is None else Setting(flag, "flag")


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


class Config(NamedTuple):
    file: str | None  # where it is or would be; None: no home is known
    defaults: Defaults
    ttl: Setting[float]
    settle: Setting[float]
    worktrees: Setting[str | None]
    agents: Mapping[str, Agent]  # by adapter, every one that there is

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
    """Raises UsageError for a setting that makes no sense, SourceError for an unreadable file."""
    state = paths.state_directory(environ)
    file = paths.config_file(state) if state is not None else None
    adapters = tuple(known.name for known in registered())
    said = _Said(file, environ, adapters)
    common = {name: said.setting(name, key) for name, key in KEYS.items()}
    of_defaults = Defaults(*(common[f"defaults.{field}"] for field in Defaults._fields))
    agents = {adapter: said.agent(adapter) for adapter in adapters}
    if of_defaults.adapter.value not in (None, *adapters):
        named = of_defaults.adapter
        raise UsageError(
            f"{named.where}: no adapter named {named.value!r}", f"known adapters: {', '.join(adapters)}"
        )
    ttl, settle = common["launches.ttl"], common["launches.settle"]
    return Config(file, of_defaults, ttl, settle, common["worktrees.directory"], agents)


class _Said:
    """What environment and file say, asked key by key."""

    def __init__(self, file: str | None, environ: Mapping[str, str], adapters: tuple[str, ...]) -> None:
        self._environ = environ
        self._file = file
        self._entries: Mapping[tuple[str, ...], Any] = {}
        if file is not None and os.path.lexists(file):
            from agentctl.config_file import entries  # with tomllib, which most calls do not need

            known = [tuple(name.split(".")) for name in KEYS]
            known += [("adapters", adapter, name) for adapter in adapters for name in ADAPTER_KEYS]
            self._entries = entries(file, known)

    def agent(self, adapter: str) -> Agent:
        middle = "".join(c if c.isalnum() else "_" for c in adapter.upper())
        return Agent(
            *(
                self.setting(f"adapters.{adapter}.{name}", key, ("adapters", adapter, name), middle)
                for name, key in ((field, ADAPTER_KEYS[field]) for field in Agent._fields)
            )
        )

    def setting(self, name: str, key: Key, path: tuple[str, ...] = (), middle: str = "") -> Setting[Any]:
        variable = key.variable.format(middle)
        given = self._environ.get(variable)
        if given:
            return Setting(self._checked(given, key, variable), "environment", variable)
        entry = self._entries.get(path or tuple(name.split(".")))
        if entry is None:
            return Setting(key.default)
        where = f"{self._file}:{entry.line}" if entry.line else f"{self._file}"
        return Setting(self._checked(entry.value, key, f"{where}: {name}"), "file", where)

    def _checked(self, value: object, key: Key, what: str) -> object:
        try:
            return checked(value, key, self._environ)
        except UsageError as error:
            raise UsageError(f"{what}: {error}", error.hint) from error


def _stronger(mine: Setting[T], common: Setting[T]) -> Setting[T]:
    """The environment before the file; what is said of one adapter before what is said of all."""
    strength = ("default", "file", "environment", "flag").index
    return mine if strength(mine.source) >= strength(common.source) else common
