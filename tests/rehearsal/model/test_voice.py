"""What all voices have in common: parts in order, and the same answer streamed and whole."""

import pytest

from agentctl.rehearsal.model.anthropic import AnthropicVoice
from agentctl.rehearsal.model.chat import ChatVoice
from agentctl.rehearsal.model.request import Tool
from agentctl.rehearsal.model.responses import ResponsesVoice
from agentctl.rehearsal.model.voice import Voice, make_frame

VOICES = (AnthropicVoice, ResponsesVoice, ChatVoice)


def test_a_frame() -> None:
    assert make_frame({"type": "ping"}, "ping") == 'event: ping\ndata: {"type": "ping"}\n\n'
    assert make_frame({"a": "x\ny"}) == 'data: {"a": "x\\ny"}\n\n'


@pytest.mark.parametrize("kind", VOICES)
def test_a_voice_remembers_what_it_said(kind: type[Voice]) -> None:
    voice = kind("m")
    for frames in (
        voice.begin(),
        voice.think("hm"),
        voice.say("one "),
        voice.say("two"),
        voice.call(Tool("bash"), {"command": "ls"}),
        voice.call(Tool("bash"), {"command": "pwd"}),
        voice.finish(""),
    ):
        assert frames.endswith("\n\n")
    assert (voice.thought, voice.text) == ("hm", "one two")
    assert [part.arguments for part in voice.calls] == ['{"command": "ls"}', '{"command": "pwd"}']
    assert len({part.id for part in voice.calls}) == 2


@pytest.mark.parametrize("kind", VOICES)
def test_two_answers_have_different_names(kind: type[Voice]) -> None:
    assert kind("m").whole_answer()["id"] != kind("m").whole_answer()["id"]
