"""One round, played to a client that only listens: what is sent, what is noted, and in which order."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentctl.rehearsal.model import anthropic
from agentctl.rehearsal.model.gates import Gates, Stopped
from agentctl.rehearsal.model.journal import Journal
from agentctl.rehearsal.model.performance import ClientLeft, ConnectionCut, Performance, Tally
from agentctl.rehearsal.model.request import Request, Tool
from tests.rehearsal.model.events import events

BASH = {"Bash": Tool("Bash", {"properties": {"command": {}}})}


@dataclass
class Listener:
    """A client: keeps what it got, and can go away."""

    frames: str = ""
    status: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    closed: bool = False
    away: bool = False
    broken: bool = False

    def open(self) -> None:
        self.status = 200

    def send(self, frames: str) -> None:
        if self.broken:
            raise BrokenPipeError
        self.frames += frames

    def close(self) -> None:
        self.closed = True

    def reply(self, status: int, body: dict[str, Any]) -> None:
        self.status, self.body = status, body

    def is_gone(self) -> bool:
        return self.away


class Theatre:
    def __init__(self) -> None:
        self.journal, self.gates, self.tally = Journal(), Gates(), Tally()
        self.line = Listener()

    def play(
        self,
        text: str,
        results: int = 0,
        *,
        streaming: bool = True,
        tools: dict[str, Tool] = BASH,
        model: str = "m",
        talk: str = "c",
    ) -> Listener:
        self.line = Listener(broken=self.line.broken)
        helper = not tools
        request = Request(text, results, tools, streaming, helper, model=model, conversation=talk)
        Performance(
            request,
            anthropic.AnthropicVoice(model),
            anthropic.make_error,
            self.line,
            gates=self.gates,
            journal=self.journal,
            tally=self.tally,
        ).play()
        return self.line

    def start(self, text: str, **more: Any) -> Callable[[], list[BaseException]]:
        """Play in a thread. Return a function that waits for its end and returns what it raised."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                self.play(text, **more)
            except (Stopped, ClientLeft, ConnectionCut, ConnectionError) as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()

        def end() -> list[BaseException]:
            thread.join(20)
            assert not thread.is_alive()
            return raised

        return end

    @property
    def kinds(self) -> list[str]:
        return [note.kind for note in self.journal.notes()]

    @property
    def text(self) -> str:
        deltas = [event.get("delta", {}) for event in events(self.line.frames)]
        return "".join(delta.get("text", "") for delta in deltas)


@pytest.fixture
def theatre() -> Theatre:
    return Theatre()


def test_a_plain_answer(theatre: Theatre) -> None:
    line = theatre.play("hello")
    assert line.closed
    assert theatre.text == "ok: hello"
    assert theatre.kinds == ["asked", "began", "answered"]


def test_a_gate_streams_words_until_it_is_opened(theatre: Theatre) -> None:
    end = theatre.start("[[gate=g]][[say=done]]")
    assert theatre.journal.wait("held").gate == "g"
    assert theatre.kinds == ["asked", "began", "held"]
    theatre.gates.open("g")
    assert end() == []
    assert theatre.text.startswith("word1 ")
    assert theatre.text.endswith("done")
    assert theatre.kinds[-1] == "answered"


def test_silence_comes_after_the_first_event_and_muteness_before(theatre: Theatre) -> None:
    end = theatre.start("[[silent=s]] x")
    theatre.journal.wait("held")
    assert [event["type"] for event in events(theatre.line.frames)] == ["message_start", "ping"]
    theatre.gates.open("s")
    assert end() == []
    end = theatre.start("[[silent=s]][[mute=m]] y")
    theatre.journal.wait("held", gate="m")
    assert (theatre.line.status, theatre.line.frames) == (0, "")
    theatre.gates.open("m")
    assert end() == []
    assert theatre.text == "ok: y"


def test_a_hang_ends_only_with_the_server(theatre: Theatre) -> None:
    end = theatre.start("[[hang]] x")
    theatre.journal.wait("began")
    theatre.gates.stop()
    assert isinstance(end()[0], Stopped)
    assert theatre.text == "word1 "
    assert theatre.kinds == ["asked", "began", "dropped"]


@pytest.mark.parametrize(
    "text", ["[[gate=g]]", "[[silent=g]]", "[[mute=g]]", "[[hang]]", "[[stream=9999]]"]
)
@pytest.mark.parametrize("streaming", [True, False])
def test_every_wait_ends_when_the_client_has_gone(theatre: Theatre, text: str, streaming: bool) -> None:
    end = theatre.start(text, streaming=streaming)
    theatre.journal.wait("asked")
    theatre.line.away = True
    assert isinstance(end()[0], ClientLeft)
    assert theatre.kinds[-1] == "left"


def test_a_client_that_breaks_off_while_we_send_has_left(theatre: Theatre) -> None:
    theatre.line.broken = True
    with pytest.raises(BrokenPipeError):
        theatre.play("hello")
    assert theatre.kinds == ["asked", "left"]


def test_a_connection_that_we_cut_ourselves_is_dropped(theatre: Theatre) -> None:
    theatre.line.broken = True
    theatre.gates.stop()
    with pytest.raises(BrokenPipeError):
        theatre.play("hello")
    assert theatre.kinds == ["asked", "dropped"]


def test_a_stream_of_a_given_length_ends_by_itself(theatre: Theatre) -> None:
    theatre.play("[[stream=0.05]][[say=done]]")
    assert theatre.text == "word1 done"


def test_rounds_follow_the_results(theatre: Theatre) -> None:
    text = "[[tool=ls]][[tools=a|b]][[say=done]]"
    for results, kind, calls in ((0, "called", 1), (1, "called", 2), (3, "answered", 0)):
        line = theatre.play(text, results)
        started = [event.get("content_block", {}).get("type") for event in events(line.frames)]
        assert started.count("tool_use") == calls
        assert theatre.kinds[-1] == kind
    assert [note.round for note in theatre.journal.notes() if note.kind == "asked"] == [0, 1, 2]
    assert theatre.text == "done"


def test_an_error_every_time(theatre: Theatre) -> None:
    for _ in range(3):
        assert theatre.play("[[error=529]]").status == 529
    assert theatre.kinds == ["asked", "refused"] * 3


def test_failures_the_first_times_are_counted_per_conversation_text_and_round(theatre: Theatre) -> None:
    def status(text: str, talk: str = "c", results: int = 0) -> int:
        return theatre.play(text, results, talk=talk).status

    text = "[[error=529x2]][[tool=ls]][[error=500x1]] x"
    assert [status(text) for _ in range(3)] == [529, 529, 200]
    assert [status(text, results=1) for _ in range(2)] == [500, 200]
    assert status(text, talk="another") == 529
    assert status(text + " y") == 529


def test_a_helper_does_not_use_up_an_error(theatre: Theatre) -> None:
    text = "[[gate=never]][[error=529x1]][[tool=ls]] x"
    assert theatre.play(text, tools={}).status == 200
    assert theatre.text == "A rehearsal"
    assert all(note.helper for note in theatre.journal.notes())
    theatre.gates.open("never")
    assert theatre.play(text).status == 529


def test_a_cut_once_then_the_answer(theatre: Theatre) -> None:
    with pytest.raises(ConnectionCut):
        theatre.play("[[cut=1]] x")
    assert not theatre.line.closed
    assert theatre.text
    theatre.play("[[cut=1]] x")
    assert theatre.kinds == ["asked", "began", "dropped", "asked", "began", "answered"]


def test_a_fault_is_an_event_in_the_stream(theatre: Theatre) -> None:
    line = theatre.play("[[fault]] x")
    assert events(line.frames)[-1]["type"] == "error"
    assert theatre.kinds == ["asked", "began", "refused"]


def test_without_streaming_all_comes_at_the_end(theatre: Theatre) -> None:
    end = theatre.start("[[gate=g]][[think]][[tool=ls]]", streaming=False)
    theatre.journal.wait("held")
    assert theatre.line.status == 0
    theatre.gates.open("g")
    assert end() == []
    assert [block["type"] for block in theatre.line.body["content"]] == ["thinking", "text", "tool_use"]
    assert theatre.line.frames == ""
    assert theatre.kinds == ["asked", "held", "began", "called"]


def test_failures_without_streaming(theatre: Theatre) -> None:
    assert theatre.play("[[fault]]", streaming=False).status == 500
    with pytest.raises(ConnectionCut):
        theatre.play("[[cut]]", streaming=False)
    assert theatre.line.status == 0


def test_a_big_answer_comes_in_pieces(theatre: Theatre) -> None:
    theatre.play("[[big=200000]]")
    assert len(theatre.text) == 200_000
    assert len(events(theatre.line.frames)) > 40


def test_a_model_that_is_not_there(theatre: Theatre) -> None:
    line = theatre.play("hello", model="no-such-model")
    assert (line.status, line.body["error"]["type"]) == (404, "not_found_error")
    assert theatre.kinds == ["asked", "refused"]


def test_a_bad_script_is_refused_with_its_reason(theatre: Theatre) -> None:
    line = theatre.play("[[gaet=a]]")
    assert line.status == 400
    assert "gaet" in line.body["error"]["message"]
    assert theatre.play("[[tool=ls]]", tools={"Read": Tool("Read")}).status == 400


def test_text_of_the_agent_itself_is_no_script(theatre: Theatre) -> None:
    """News of a sub-agent may quote its prompt."""
    theatre.play("<task-notification>{{hang}} [[hang]]</task-notification>")
    assert theatre.text == "ok"
