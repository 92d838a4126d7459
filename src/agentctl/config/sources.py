"""What environment and file say, asked key by key; each answer remembers who gave it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from agentctl.config.keys import ADAPTER_KEYS, KEYS, NOTIFY_KEYS, WEBHOOK_KEYS
from agentctl.config.values import Key, checked
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


class Said:
    """Raises UsageError for what makes no sense, SourceError for an unreadable file."""

    def __init__(self, file: str | None, environ: Mapping[str, str], adapters: tuple[str, ...]) -> None:
        self.adapters = adapters
        self._environ = environ
        self._file = file
        self._entries: Mapping[tuple[str, ...], Any] = {}
        if file is not None and os.path.lexists(file):
            from agentctl.config.file import FREE, entries  # with tomllib, which most calls do not need

            known = [tuple(name.split(".")) for name in KEYS]
            known += [("adapters", adapter, name) for adapter in adapters for name in ADAPTER_KEYS]
            known += [("webhooks", FREE, name) for name in WEBHOOK_KEYS]
            known += [("notify", FREE, name) for name in NOTIFY_KEYS]
            self._entries = entries(file, known)

    def names(self, section: str) -> dict[str, str]:
        """The names that a person chose below it, each with the place of its first line."""
        found: dict[str, str] = {}
        for path, entry in self._entries.items():
            if path[0] == section and path[1] not in found:
                found[path[1]] = self._place(entry)
        return found

    def of_environment(self, key: Key, middle: str = "") -> Setting[Any] | None:
        variable = key.variable.format(middle)
        given = self._environ.get(variable) if variable else None
        if not given:
            return None
        return Setting(self._checked(given, key, variable), "environment", variable)

    def of_file(self, path: tuple[str, ...], key: Key) -> Setting[Any]:
        entry = self._entries.get(path)
        if entry is None:
            return Setting(key.default)
        where = self._place(entry)
        return Setting(self._checked(entry.value, key, f"{where}: {'.'.join(path)}"), "file", where)

    def setting(self, path: tuple[str, ...], key: Key, middle: str = "") -> Setting[Any]:
        return self.of_environment(key, middle) or self.of_file(path, key)

    def _place(self, entry: Any) -> str:
        return f"{self._file}:{entry.line}" if entry.line else f"{self._file}"

    def _checked(self, value: object, key: Key, what: str) -> object:
        try:
            return checked(value, key, self._environ)
        except UsageError as error:
            raise UsageError(f"{what}: {error}", error.hint) from error
