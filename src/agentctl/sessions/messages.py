"""The messages of a session."""

from __future__ import annotations

import os
from itertools import islice, takewhile

from agentctl.adapters import registry
from agentctl.errors import SourceError
from agentctl.light_typing import Iterable, Iterator
from agentctl.truth.look import Look
from agentctl.truth.model import Message, Observation, Problem

ROLES = ("user", "assistant", "tool", "system")


class Conversation:
    """The messages of one session. Problems collect what could not be read."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self._adapter = registry.load(observation.adapter)
        self._look = Look({}, os.environ, 0.0).scope_to(observation.adapter)

    @property
    def problems(self) -> list[Problem]:
        return self._look.problems

    def last(self, number: int | None) -> list[Message]:
        """Return the last messages, or all, oldest first. Reads no more of the file than necessary."""
        return _oldest_first(islice(self._newest_first(), number))

    def after(self, key: str | None) -> list[Message]:
        """Return the messages that came after the one of that key, oldest first."""
        return _oldest_first(takewhile(lambda message: message.key != key, self._newest_first()))

    def _newest_first(self) -> Iterator[Message]:
        """An error of an adapter becomes a problem: the messages that were read are shown."""
        try:
            for message in self._adapter.messages(self._observation, self._look):
                yield _repair_types(message)
        except SourceError as error:
            self._look.report_unreadable(error)
        except Exception as error:  # noqa: BLE001 - an adapter's fault must not end the verb
            name = self._observation.adapter
            self._look.report_problem("broken", f"{type(error).__name__}: {error}", name)


def _oldest_first(messages: Iterable[Message]) -> list[Message]:
    return list(messages)[::-1]


def _repair_types(message: Message) -> Message:
    """Return the message with fields of the declared types: it may be a third party's."""
    at = message.at if isinstance(message.at, int | float) else None
    role = message.role if message.role in ROLES else "system"
    tool = None if message.tool is None else str(message.tool)
    return message._replace(role=role, text=str(message.text), at=at, tool=tool)
