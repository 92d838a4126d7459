"""A message of a session as lines of text."""

from __future__ import annotations

from agentctl import text
from agentctl.system.clock import format_rfc3339
from agentctl.truth.model import Message
from agentctl.view.table import Screen

COLOURS = {"user": "bold", "assistant": "", "tool": "dim", "system": "dim"}


def message_lines(message: Message, screen: Screen, *, most: int | None = None) -> list[str]:
    """Return a headline and the text. With `most`: only so many lines, cut to the screen."""
    on = screen.colour
    speaker = f"{message.role} {message.tool}" if message.tool else message.role
    when = (format_rfc3339(message.at) or "")[11:19]
    body = text.clean_lines(message.text)
    lines = body if most is None else [text.cut(line, screen.columns - 2) for line in body[:most]]
    hidden = len(body) - len(lines)
    return [
        text.paint(text.clean_line(f"{when} {speaker}".strip()), "dim", on=on),
        *("  " + text.paint(line, COLOURS[message.role], on=on) for line in lines),
        *([_more_line(hidden, on=on)] if hidden else []),
    ]


def _more_line(count: int, *, on: bool) -> str:
    return text.paint(f"  {text.ELLIPSIS} {count} more line{'s' if count != 1 else ''}", "dim", on=on)
