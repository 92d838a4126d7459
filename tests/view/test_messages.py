"""One message as lines of text."""

from agentctl.text import measure_width
from agentctl.truth.model import Message
from agentctl.view.messages import message_lines
from agentctl.view.table import Screen
from tests.cli import hostile

SCREEN = Screen(80, colour=False, home=None, now=0.0)


def test_a_message_has_a_headline_and_its_text() -> None:
    message = Message("k", "tool", "a\n\tb\x1b[0m", 3661.0, "bash")
    assert message_lines(message, SCREEN) == ["01:01:01 tool bash", "  a", "      b\\x1b[0m"]
    assert message_lines(Message("k", "user", ""), SCREEN) == ["user"]


def test_lines_can_be_limited() -> None:
    screen = SCREEN._replace(columns=10)
    message = Message("k", "user", "\n".join(["a long line"] * 5))
    lines = message_lines(message, screen, most=3)
    assert lines == ["user", "  a long…", "  a long…", "  a long…", "  … 2 more lines"]
    assert message_lines(Message("k", "user", "1\n2"), screen, most=1)[-1] == "  … 1 more line"


def test_lines_are_harmless() -> None:
    screen = SCREEN._replace(columns=30)
    message = Message("k", "tool", hostile.ALL, 0.0, hostile.ALL)
    for lines in (message_lines(message, screen), message_lines(message, screen, most=4)):
        assert [hostile.harmful(line) for line in lines] == [[]] * len(lines)
    assert all(measure_width(line) <= 30 for line in message_lines(message, screen, most=4)[1:])
