"""The messages of a session, read lazily; an adapter's error is a problem."""

from collections.abc import Iterator

import pytest

from agentctl.adapters import registry
from agentctl.errors import Forbidden
from agentctl.sessions.messages import Conversation
from agentctl.truth.look import Look
from agentctl.truth.model import Message, Observation

OBSERVATION = Observation("some", "s", ())


class _Adapter:
    """Yields ten messages, newest first, and then the odd message and the error."""

    def __init__(self, error: Exception | None = None, last: Message | None = None) -> None:
        self.read = 0
        self._error = error
        self._last = last

    def messages(self, observation: Observation, look: Look) -> Iterator[Message]:
        for number in range(9, -1, -1):
            self.read += 1
            yield Message(str(number), "assistant", f"line {number}")
        if self._last is not None:
            yield self._last
        if self._error is not None:
            raise self._error


def _conversation(monkeypatch: pytest.MonkeyPatch, adapter: _Adapter) -> Conversation:
    monkeypatch.setattr(registry, "load", lambda _: adapter)
    return Conversation(OBSERVATION)


def _texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def test_the_last_messages_come_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = _Adapter()
    conversation = _conversation(monkeypatch, adapter)
    assert _texts(conversation.last(2)) == ["line 8", "line 9"]
    assert adapter.read <= 3  # only as much of the file as needed
    assert len(conversation.last(None)) == 10


def test_messages_after_one_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = _conversation(monkeypatch, _Adapter())
    assert _texts(conversation.after("7")) == ["line 8", "line 9"]
    assert conversation.after("9") == []
    assert len(conversation.after(None)) == 10


@pytest.mark.parametrize(
    ("error", "kind"),
    [(Forbidden("/x", "permission denied"), "forbidden"), (KeyError("role"), "broken")],
)
def test_messages_before_an_error_are_kept_and_the_error_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str
) -> None:
    conversation = _conversation(monkeypatch, _Adapter(error))
    assert len(conversation.last(None)) == 10  # those before the error are kept
    assert [(p.adapter, p.kind) for p in conversation.problems] == [("some", kind)]


def test_a_message_of_odd_types_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Message("k", "alien", 7, "yesterday", 8)  # type: ignore[arg-type]
    conversation = _conversation(monkeypatch, _Adapter(last=odd))
    assert conversation.last(None)[0] == Message("k", "system", "7", None, "8")
    assert conversation.problems == []
