"""`agentctl logs`, mainly with -f: the messages that follow, until the session ends."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from agentctl.testing import Puppet
from agentctl.wire.session import MESSAGE_FIELDS
from tests.cli import hostile
from tests.cli.children import count_context_switches, list_open_files
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, read_until, started
from tests.waiting import until


def _say(stage: DemoStage, puppet: Puppet, text: str) -> None:
    with stage.records(puppet)[1].open("a") as file:
        file.write(json.dumps({"type": "say", "at": 1.0, "role": "assistant", "text": text}) + "\n")


def test_all_messages_are_printed(stage: DemoStage) -> None:
    puppet = stage.start(prompt="paint\n\tthe shed")
    _say(stage, puppet, "yes")
    ran = agentctl_of(stage, "logs", puppet.session_id or "")
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d user\n  paint\n      the shed\n00:00:01 assistant\n  yes\n", ran.out
    )


def test_n_selects_the_last_messages(stage: DemoStage) -> None:
    puppet = stage.start()
    for number in range(5):
        _say(stage, puppet, f"line {number}")
    ran = agentctl_of(stage, "logs", puppet.session_id or "", "-n", "2")
    assert [line for line in ran.lines if line.startswith("  ")] == ["  line 3", "  line 4"]


def test_json_is_one_message_per_line(stage: DemoStage) -> None:
    puppet = stage.start(prompt="a prompt")
    _say(stage, puppet, hostile.ALL)
    ran = agentctl_of(stage, "logs", puppet.session_id or "", "--json")
    messages = [json.loads(line) for line in ran.lines]
    assert [message["text"] for message in messages] == ["a prompt", hostile.ALL]
    assert list(messages[0]) == [name for name, _, _ in MESSAGE_FIELDS]
    assert messages[1]["at"] == "1970-01-01T00:00:01.000Z"
    assert messages[1]["tool"] is None


def test_hostile_messages_are_harmless(stage: DemoStage) -> None:
    puppet = stage.start()
    _say(stage, puppet, hostile.ALL)
    ran = agentctl_of(stage, "logs", puppet.session_id or "")
    assert "\\x1b[31mred" in ran.out
    assert hostile.harmful(ran.out) == []


def _is_asleep(child: subprocess.Popen[bytes]) -> bool:
    stat = Path(f"/proc/{child.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("clean", [True, False], ids=["clean end", "kill -9"])
def test_follow_prints_what_comes_next_and_ends_with_the_session(stage: DemoStage, clean: bool) -> None:
    puppet = stage.start(prompt="begin")
    puppet.do("work")
    with started(stage, "logs", "-f", puppet.session_id or "") as child:
        read_until(child, b"  begin\n")
        for text in ("one", "two"):
            _say(stage, puppet, text)
            assert read_until(child, f"  {text}\n".encode()).count(b"assistant") == 1
        _say(stage, puppet, "last words")
        if clean:
            puppet.finish()
        else:
            puppet.kill()
        out, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (0, b"")
    assert out.decode().splitlines() == ["00:00:01 assistant", "  last words"]


def test_follow_sleeps_while_nothing_happens(stage: DemoStage) -> None:
    """No polling: between two messages the process is not scheduled even once."""
    puppet = stage.start(prompt="begin")
    puppet.do("work")
    other = stage.start(environ={"DEMO_AGENT_HOME": str(stage.root / "elsewhere")})
    with started(stage, "logs", "-f", puppet.session_id or "") as child:
        read_until(child, b"  begin\n")
        _say(stage, puppet, "one")
        read_until(child, b"  one\n")
        until(lambda: _is_asleep(child), "it sleeps")
        before = count_context_switches(child)
        for _ in range(20):  # time passes, measured by another agent's steps
            other.do("work 0.05")
            other.do("rest")
        assert count_context_switches(child) - before <= 1


def test_follow_as_json(stage: DemoStage) -> None:
    puppet = stage.start(prompt="begin")
    with started(stage, "logs", "--json", "-f", puppet.session_id or "") as child:
        read_until(child, b"\n")
        _say(stage, puppet, "two\nlines")
        assert json.loads(read_until(child, b"\n"))["text"] == "two\nlines"


def test_follow_of_an_ended_session_ends_at_once(stage: DemoStage) -> None:
    puppet = stage.start(prompt="begin")
    puppet.kill()
    ran = agentctl_of(stage, "logs", "-f", puppet.session_id or "")
    assert (ran.code, ran.err) == (0, "")
    assert "  begin" in ran.lines


def test_follow_prints_the_first_message_once(stage: DemoStage) -> None:
    """There was no message before; with -n 1 none is printed twice."""
    puppet = stage.start()
    stage.records(puppet)[1].write_text("")
    with started(stage, "logs", "-f", "-n", "1", f"pid:{puppet.pid}") as child:
        until(lambda: "anon_inode:inotify" in list_open_files(child), "it watches")
        _say(stage, puppet, "first")
        _say(stage, puppet, "second")
        out = read_until(child, b"  second\n")
        assert out.count(b"  first\n") == 1


def test_a_process_without_a_session_cannot_be_followed(stage: DemoStage) -> None:
    puppet = stage.start()
    stage.records(puppet)[0].unlink()  # a process that no session is bound to
    ran = agentctl_of(stage, "logs", "-f", f"pid:{puppet.pid}")
    assert (ran.code, ran.out) == (5, "")
    assert "cannot follow it" in ran.err
