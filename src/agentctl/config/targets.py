"""Who is to be told of events: `[webhooks.NAME]` and `[notify.NAME]`, each NAME a person's choice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agentctl.config.keys import NOTIFY_KEYS, WEBHOOK_KEYS
from agentctl.config.sources import Said, Setting
from agentctl.config.values import Key
from agentctl.errors import UsageError

ENVIRONMENT = "environment"  # the webhook that the variables make
WAYS = ("desktop", "url", "command")
_NAME = re.compile(r"[\w-][\w.-]{0,63}", re.ASCII)


class Webhook(NamedTuple):
    name: str
    url: Setting[str]
    secret: Setting[str | None]
    events: Setting[tuple[str, ...]]  # patterns
    adapters: Setting[tuple[str, ...]]  # none: all
    groups: Setting[tuple[str, ...]]  # none: all


class Notify(NamedTuple):
    """One of `desktop`, `url` and `command` is set."""

    name: str
    desktop: Setting[bool]
    url: Setting[str | None]
    command: Setting[str | None]
    on: Setting[tuple[str, ...]]  # waiting, finished, failed
    adapters: Setting[tuple[str, ...]]  # none: all
    groups: Setting[tuple[str, ...]]  # none: all
    title: Setting[str | None]
    priority: Setting[str | None]
    token: Setting[str | None]


def webhooks(said: Said) -> dict[str, Webhook]:
    """Those of the file, and the one of the environment. Raises UsageError."""
    found = {}
    for name, where in _names(said, "webhooks"):
        if name == ENVIRONMENT:
            raise UsageError(
                f"{where}: 'environment' is the name of the webhook in AGENTCTL_WEBHOOK_URL",
                "give it another name",
            )
        told = _told(said, "webhooks", name, WEBHOOK_KEYS)
        if told["url"].value is None:
            raise UsageError(
                f"{where}: webhooks.{name} has no url", f"url = {WEBHOOK_KEYS['url'].example}"
            )
        found[name] = Webhook(name, **told)
    url = said.of_environment(WEBHOOK_KEYS["url"])
    if url is not None:
        found[ENVIRONMENT] = _of_environment(said, url)
    return found


def _of_environment(said: Said, url: Setting[str]) -> Webhook:
    secret = said.of_environment(WEBHOOK_KEYS["secret"]) or Setting(None)
    rest = (Setting(WEBHOOK_KEYS[name].default) for name in ("events", "adapters", "groups"))
    return Webhook(ENVIRONMENT, url, secret, *rest)


def notify(said: Said) -> dict[str, Notify]:
    """Raises UsageError."""
    found = {}
    for name, where in _names(said, "notify"):
        told = _told(said, "notify", name, NOTIFY_KEYS)
        ways = [way for way in WAYS if told[way].value]
        if len(ways) != 1:
            much = f"has {' and '.join(ways)}" if ways else "says not how"
            raise UsageError(
                f"{where}: notify.{name} {much}", "one of: desktop = true, url = …, command = …"
            )
        found[name] = Notify(name, **told)
    return found


def _names(said: Said, section: str) -> Iterator[tuple[str, str]]:
    for name, where in said.names(section).items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{where}: {name!r} cannot be the name of a target",
                "letters, digits, - _ and . make one",
            )
        yield name, where


def _told(said: Said, section: str, name: str, keys: Mapping[str, Key]) -> dict[str, Setting[Any]]:
    known = {**keys, "adapters": keys["adapters"]._replace(choices=said.adapters)}
    return {word: said.of_file((section, name, word), key) for word, key in known.items()}
