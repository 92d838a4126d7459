"""What was said in a session, read lazily and behind a fence."""

from collections.abc import Iterator

import pytest

from agentctl.adapters import registry
from agentctl.errors import Forbidden
from agentctl.sessions import messages as said
from agentctl.text import width
from agentctl.truth.look import Look
from agentctl.truth.model import Message, Observation
from tests.cli import hostile

SEEN = Observation("some", "s", ())


class _Adapter:
    """Ten messages, newest first, and then whatever is to go wrong."""

    def __init__(self, error: Exception | None = None, last: Message | None = None) -> None:
        self.read = 0
        self._error = error
        self._last = last

    def messages(self, seen: Observation, look: Look) -> Iterator[Message]:
        for number in range(9, -1, -1):
            self.read += 1
            yield Message(str(number), "assistant", f"line {number}")
        if self._last is not None:
            yield self._last
        if self._error is not None:
            raise self._error


def _conversation(monkeypatch: pytest.MonkeyPatch, adapter: _Adapter) -> said.Conversation:
    monkeypatch.setattr(registry, "load", lambda _: adapter)
    return said.Conversation(SEEN)


def _texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def test_the_last_ones_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = _Adapter()
    conversation = _conversation(monkeypatch, adapter)
    assert _texts(conversation.last(2)) == ["line 8", "line 9"]
    assert adapter.read <= 3  # no more of the file than that takes
    assert len(conversation.last(None)) == 10


def test_those_after_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = _conversation(monkeypatch, _Adapter())
    assert _texts(conversation.after("7")) == ["line 8", "line 9"]
    assert conversation.after("9") == []
    assert len(conversation.after(None)) == 10


@pytest.mark.parametrize(
    ("error", "kind"),
    [(Forbidden("/x", "permission denied"), "forbidden"), (KeyError("role"), "broken")],
)
def test_what_goes_wrong_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str
) -> None:
    conversation = _conversation(monkeypatch, _Adapter(error))
    assert len(conversation.last(None)) == 10  # what was read before it is kept
    assert [(p.adapter, p.kind) for p in conversation.problems] == [("some", kind)]


def test_a_message_of_odd_types_is_made_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Message("k", "alien", 7, "yesterday", 8)  # type: ignore[arg-type]
    conversation = _conversation(monkeypatch, _Adapter(last=odd))
    assert conversation.last(None)[0] == Message("k", "system", "7", None, "8")
    assert conversation.problems == []


def test_lines_of_a_message() -> None:
    message = Message("k", "tool", "a\n\tb\x1b[0m", 3661.0, "bash")
    assert said.lines(message) == ["01:01:01 tool bash", "  a", "      b\\x1b[0m"]
    assert said.lines(Message("k", "user", "")) == ["user"]


def test_lines_can_be_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    message = Message("k", "user", "\n".join(["a long line"] * 5))
    shown = said.lines(message, most=3)
    assert shown == ["user", "  a long…", "  a long…", "  a long…", "  … 2 more lines"]
    assert said.lines(Message("k", "user", "1\n2"), most=1)[-1] == "  … 1 more line"


def test_lines_are_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    message = Message("k", "tool", hostile.ALL, 0.0, hostile.ALL)
    for shown in (said.lines(message), said.lines(message, most=4)):
        assert [hostile.harmful(line) for line in shown] == [[]] * len(shown)
    assert all(width(line) <= 30 for line in said.lines(message, most=4)[1:])
