"""The demo agent: a real program with native files of its own."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.testing.player import start_ticks
from tests.fakes.demo import DemoStage
from tests.running import SOURCES
from tests.waiting import until
from tests.worktrees.repository import Repository


class Running:
    """One demo agent at work on a script."""

    def __init__(self, home: Path, *words: str) -> None:
        self.home = home
        self.child = subprocess.Popen(
            [sys.executable, "-m", "agentctl.demo.agent", *words],
            env={
                "DEMO_AGENT_HOME": str(home),
                "PYTHONPATH": SOURCES,
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.child.stdout is not None
        self.session = self.child.stdout.readline().strip()
        self.live = home / "live" / f"{self.child.pid}.json"

    def records(self) -> list[dict[str, Any]]:
        path = self.home / "sessions" / f"{self.session}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def turns(self) -> list[str]:
        return [r.get("how", r["state"]) for r in self.records() if r["type"] == "turn"]

    def signal(self, number: signal.Signals) -> None:
        with Handle(proc.read_process(self.child.pid, proc.read_boot_id()).identity) as handle:
            handle.signal(number)

    def end(self) -> tuple[int, str]:
        _, err = self.child.communicate(timeout=20)
        return self.child.returncode, err


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    agents: list[Running] = []

    def starter(*words: str) -> Running:
        agents.append(Running(tmp_path, *words))
        return agents[-1]

    yield starter
    for agent in agents:
        agent.child.kill()
        agent.child.communicate()


@pytest.mark.parametrize(
    ("script", "code", "turns"),
    [
        ("work 0.1", 0, ["working", "completed"]),
        ("work 0.1, exit 0", 0, ["working", "completed"]),
        ("work 0.1, exit 3", 3, ["working", "failed"]),
        ("fail", 1, ["working", "failed"]),
    ],
)
def test_it_does_what_its_prompt_says(start: Start, script: str, code: int, turns: list[str]) -> None:
    agent = start(script)
    assert agent.end() == (code, "")
    assert agent.turns() == turns
    assert not agent.live.exists()  # a clean end takes the record back


def test_its_native_files(start: Start, tmp_path: Path) -> None:
    agent = start("work 0.1, rest")
    until(lambda: "completed" in agent.turns(), "its turn is over")
    record = json.loads(agent.live.read_text())
    identity = proc.read_process(agent.child.pid, proc.read_boot_id()).identity
    assert record == {
        "pid": agent.child.pid, "procStart": str(identity.start), "session": agent.session,
        "namespace": proc.pid_namespace(),
    }  # fmt: skip
    types = [r["type"] for r in agent.records()]
    assert types == ["session", "say", "turn", "say", "usage", "turn"]
    assert agent.records()[1]["text"] == "work 0.1, rest"
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or path == agent.live, path
    assert Path(f"/proc/{agent.child.pid}/comm").read_text() == "demo-agent\n"
    assert start_ticks() > 0


@pytest.mark.parametrize(
    ("step", "before", "after"), [("ask", "waiting", "working"), ("rest", "completed", "")]
)
def test_a_person_wakes_it(start: Start, step: str, before: str, after: str) -> None:
    agent = start(f"work 0.1, {step}, exit 0")
    until(lambda: agent.turns()[-1:] == [before], f"it is {before}")
    agent.signal(signal.SIGUSR1)  # at whatever moment: an answer is never lost
    assert agent.end() == (0, "")
    assert agent.turns() == ["working", before, *([after, "completed"] if after else [])]


def test_an_answer_before_the_question_does_not_count(start: Start) -> None:
    agent = start("work 1, ask, exit 0")
    agent.signal(signal.SIGUSR1)
    until(lambda: agent.turns()[-1:] == ["waiting"], "it waits")
    assert not _has_ended(agent)
    agent.signal(signal.SIGUSR1)
    assert agent.end() == (0, "")


def _has_ended(agent: Running) -> bool:
    with Handle(proc.read_process(agent.child.pid, proc.read_boot_id()).identity) as handle:
        return handle.wait(0.3)


def test_a_signal_does_not_wake_one_that_hangs(start: Start) -> None:
    agent = start("hang, exit 0")
    until(lambda: agent.turns() == ["working"], "its turn is open")
    agent.signal(signal.SIGUSR1)
    assert not _has_ended(agent)


@pytest.mark.parametrize(
    ("number", "code", "last"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "working"),
        (signal.SIGHUP, 129, "working"),
        (signal.SIGKILL, -9, "working"),
    ],
)
def test_signals(start: Start, number: signal.Signals, code: int, last: str) -> None:
    agent = start("work 600")
    until(lambda: agent.turns() == ["working"], "it works")
    agent.signal(number)
    assert agent.end() == (code, "")
    assert agent.turns()[-1] == last
    assert agent.live.exists() == (number == signal.SIGKILL)  # that one says no goodbye


@pytest.mark.parametrize("script", ["dance", "work a lot", "work 0.1, dance"])
def test_a_step_it_does_not_know(start: Start, script: str) -> None:
    agent = start(script)
    code, err = agent.end()
    assert code == 2
    assert err.startswith("demo-agent: no such step: ")
    assert "Traceback" not in err
    assert not agent.live.exists()


def test_a_record_that_another_process_removed(start: Start) -> None:
    agent = start("ask")
    until(lambda: agent.turns()[-1:] == ["waiting"], "it waits")
    agent.live.unlink()
    agent.signal(signal.SIGTERM)
    assert agent.end() == (143, "")


def test_resume_goes_on_with_a_session(start: Start) -> None:
    first = start("work 0.1")
    first.end()
    again = start("work 0.1, exit 0", "--resume", first.session)
    assert again.end() == (0, "")
    assert again.session == first.session
    assert [r["type"] for r in again.records()].count("session") == 1
    assert again.turns() == ["working", "completed"] * 2


def test_it_writes_and_commits(tmp_path: Path) -> None:
    repo, stage = Repository(tmp_path / "project"), DemoStage(tmp_path)
    puppet = stage.start(repo.path)
    try:
        for step in ("write new.txt two words", "write new.txt 3", "commit", "write new.txt 4"):
            puppet.do(step)
    finally:
        stage.close()
    assert repo.git("show", "HEAD:new.txt") == "two words\n3"
    assert repo.git("log", "--format=%an") == "Demo Agent"
    assert repo.git("status", "--porcelain") == "M new.txt"
