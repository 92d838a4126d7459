"""`agentctl peek`."""

import json
import time

from agentctl.text import measure_width
from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, agentctl_on_a_terminal


def _say(stage: DemoStage, session_id: str | None, *texts: object) -> None:
    path = stage.home / ".demo-agent" / "sessions" / f"{session_id}.jsonl"
    with path.open("a") as file:
        for text in texts:
            record = {"type": "say", "at": time.time(), "role": "assistant", "text": text}
            file.write(json.dumps(record) + "\n")


def test_the_last_messages_are_printed(stage: DemoStage) -> None:
    puppet = stage.start(prompt="paint the shed")
    puppet.do("work")
    _say(stage, puppet.session_id, *(f"line {n}" for n in range(9)))
    ran = agentctl_of(stage, "peek", puppet.session_id or "")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0] == f"{puppet.session_id}  demo  running"
    assert [line.strip() for line in ran.lines[3::2]] == [f"line {n}" for n in range(4, 9)]
    ran = agentctl_of(stage, "peek", puppet.session_id or "", "-n", "2")
    assert [line.strip() for line in ran.lines[3::2]] == ["line 7", "line 8"]
    ran = agentctl_of(stage, "peek", puppet.session_id or "", "-n", "99")
    assert "  paint the shed" in ran.lines


def test_long_messages_are_cut_to_a_few_lines_that_fit(stage: DemoStage) -> None:
    puppet = stage.start()
    _say(stage, puppet.session_id, "\n".join("漢字" * 90 for _ in range(7)))
    ran = agentctl_on_a_terminal(stage, "peek", puppet.session_id or "", NO_COLOR="1", columns=40)
    body = ran.lines[-7:]
    assert all(measure_width(line) <= 40 for line in body)
    assert body[-1] == "  … 1 more line"


def test_a_session_without_messages(stage: DemoStage) -> None:
    puppet = stage.start()
    stage.records(puppet)[1].write_text("")
    ran = agentctl_of(stage, "peek", puppet.session_id or "")
    assert ran.code == 0
    assert ran.lines[-1] == "no message yet"


def test_hostile_messages_are_harmless(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    hostile.poison(stage, puppet)
    ran = agentctl_of(stage, "peek", puppet.session_id or "")
    assert ran.code == 0
    assert hostile.harmful(ran.out) == []
    shape = agentctl_of(stage, "peek", puppet.session_id or "", "--json").json()
    assert [message["text"] for message in shape["messages"]] == [hostile.ALL] * 2
    assert list(shape) == ["version", "sessions", "problems", "messages"]


def test_odd_records_are_a_problem_and_no_traceback(stage: DemoStage) -> None:
    puppet = stage.start()
    path = stage.records(puppet)[1]
    _say(stage, puppet.session_id, 7, None, ["x"])
    with path.open("a") as file:
        file.write(
            '{"type": "say"}\n{"type": "say", "role": "alien", "text": "hi", "at": "now"}\nrubbish\n'
        )
    for words in (("peek", puppet.session_id or ""), ("logs", puppet.session_id or "")):
        ran = agentctl_of(stage, *words)
        assert ran.code == 0, ran
        assert "Traceback" not in ran.err
        assert "agentctl: demo: " in ran.err
        assert "  hi" in ran.lines
