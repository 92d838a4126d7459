"""What was said in a session, for `peek` and `logs`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agentctl import text
from agentctl.adapters import registry
from agentctl.errors import SourceError
from agentctl.system.clock import rfc3339
from agentctl.truth.look import Look
from agentctl.truth.model import Message, Observation, Problem

COLOURS = {"user": "bold", "assistant": "", "tool": "dim", "system": "dim"}


class Conversation:
    """One session's messages; keeps what could not be read."""

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self._adapter = registry.load(seen.adapter)
        self._look = Look({}, os.environ, 0.0).scoped(seen.adapter)

    @property
    def problems(self) -> list[Problem]:
        return self._look.problems

    def last(self, number: int | None) -> list[Message]:
        """The last so many, or all, oldest first. Reads only as much of the end as that takes."""
        found: list[Message] = []
        for message in self._newest_first():
            if number is not None and len(found) >= number:
                break
            found.append(message)
        return found[::-1]

    def after(self, key: str | None) -> list[Message]:
        """Those that came after the message of that key, oldest first."""
        found: list[Message] = []
        for message in self._newest_first():
            if message.key == key:
                break
            found.append(message)
        return found[::-1]

    def _newest_first(self) -> Iterator[Message]:
        """Behind a fence, as a survey's: one agent's odd record costs what it holds, no more."""
        try:
            for message in self._adapter.messages(self.seen, self._look):
                yield _sound(message)
        except SourceError as error:
            self._look.unreadable(error)
        except Exception as error:  # noqa: BLE001 - the fence
            self._look.problem("broken", f"{type(error).__name__}: {error}", self.seen.adapter)


def _sound(given: Message) -> Message:
    """The same, of the types that a message is made of."""
    at = given.at if isinstance(given.at, int | float) else None
    role = given.role if given.role in COLOURS else "system"
    tool = None if given.tool is None else str(given.tool)
    return given._replace(role=role, text=str(given.text), at=at, tool=tool)


def lines(message: Message, *, most: int | None = None) -> list[str]:
    """One message for a person; `most` cuts long ones."""
    on, columns = text.coloured(), text.columns()
    who = f"{message.role} {message.tool}" if message.tool else message.role
    when = (rfc3339(message.at) or "")[11:19]
    shown = [text.paint(text.one_line(f"{when} {who}".strip()), "dim", on=on)]
    body = text.many_lines(message.text)
    for line in body if most is None else body[:most]:
        kept = line if most is None else text.cut(line, columns - 2)
        shown.append("  " + text.paint(kept, COLOURS[message.role], on=on))
    if most is not None and len(body) > most:
        left = len(body) - most
        more = f"  {text.ELLIPSIS} {left} more line{'s' if left != 1 else ''}"
        shown.append(text.paint(more, "dim", on=on))
    return shown
