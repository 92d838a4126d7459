"""`agentctl notify`."""

from pathlib import Path

import pytest

from agentctl.state import journal
from agentctl.truth.event import Event
from tests.daemon.serving import daemon_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import until

SETTINGS = """
[notify.desk]
desktop = true
[notify.mine]
command = 'echo "$AGENTCTL_TEXT" >> told'
on = ["failed"]
adapters = ["pi"]
"""


@pytest.fixture
def told(stage: DemoStage) -> Path:
    """Settings with two targets; where the second one writes."""
    home = Path(stage.environ["AGENTCTL_HOME"])
    home.mkdir()
    (home / "config.toml").write_text(SETTINGS)
    program = stage.root / "bin" / "notify-send"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$5" > "$HOME/shown"\n')
    program.chmod(0o755)
    stage.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
    return stage.home / "told"


def test_the_targets(stage: DemoStage, told: Path) -> None:
    notes = f"{stage.environ['AGENTCTL_HOME']}/state.db"
    data = {"data": {"target": "desk", "why": "you are there"}}
    journal.record(notes, [Event("notify.quiet", 1.0, body=data)])
    ran = agentctl_of(stage, "notify")
    assert ran.code == 0
    assert ran.lines[0].split() == ["NAME", "HOW", "ON", "ONLY", "LAST"]
    assert ran.lines[1].startswith("desk  desktop")
    assert ran.lines[1].endswith("ago: you are there")
    assert "failed" in ran.lines[2]
    assert ran.err == "agentctl: no daemon runs, so nobody is told: agentctl daemon start\n"
    assert agentctl_of(stage, "notify", "list").lines[0] == ran.lines[0]


def test_json(stage: DemoStage, told: Path) -> None:
    shape = agentctl_of(stage, "notify", "--json").json()
    assert [(t["name"], t["way"], t["last"]) for t in shape["targets"]] == [
        ("desk", "desktop", None),
        ("mine", "command", None),
    ]


def test_a_test_of_all(stage: DemoStage, told: Path) -> None:
    ran = agentctl_of(stage, "notify", "test")
    assert (ran.code, ran.err) == (0, "")
    assert [line.partition(",")[0] for line in ran.lines] == ["desk: told", "mine: told"]
    assert told.read_text() == "This is a test: agentctl can reach you.\n"
    assert (stage.home / "shown").read_text() == told.read_text()


def test_a_test_of_one(stage: DemoStage, told: Path) -> None:
    assert agentctl_of(stage, "notify", "test", "desk").code == 0
    assert not told.exists()


def test_a_test_that_fails(stage: DemoStage, told: Path) -> None:
    ran = agentctl_of(stage, "notify", "test", PATH="/usr/bin:/bin")
    assert ran.code == 1
    assert ran.lines[0].startswith("desk: FAILED: neither notify-send nor osascript is on the PATH")
    shape = agentctl_of(stage, "notify", "test", "--json", PATH="/usr/bin:/bin").json()
    assert [(one["name"], one["ok"]) for one in shape["tests"]] == [("desk", False), ("mine", True)]


def test_without_a_target(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "notify")
    assert (ran.code, ran.err) == (0, "")
    assert "nobody is told" in ran.out
    assert agentctl_of(stage, "notify", "test").code == 3


@pytest.mark.parametrize(
    ("words", "code"), [(("test", "phone"), 3), (("tset",), 2), (("list", "desk"), 2)]
)
def test_words_that_are_off(stage: DemoStage, told: Path, words: tuple[str, ...], code: int) -> None:
    ran = agentctl_of(stage, "notify", *words)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("agentctl: ")


def test_an_agent_that_asks_is_told_of_by_the_daemon(stage: DemoStage, told: Path) -> None:
    """All of it is real: the agent, the daemon that sees it wait, the outbox, the program."""
    daemon_of(stage)
    ran = agentctl_of(stage, "notify")
    assert ran.err == ""
    puppet = stage.start(prompt="paint the shed")
    puppet.do("work")
    puppet.do("ask")
    shown = stage.home / "shown"
    until(lambda: shown.exists() and "question" in shown.read_text(), "it is shown")
    assert shown.read_text().splitlines() == [
        "demo in work has a question for you.",
        "paint the shed",
    ]
    history = stage.environ["AGENTCTL_HOME"] + "/state.db"
    until(lambda: _types(history, puppet.session_id) >= {"notify.delivered"}, "that is told too")
    puppet.kill()
    until(lambda: "session.stopped" in _types(history, puppet.session_id), "its end is seen")
    until(lambda: "killed" in shown.read_text(), "its end is shown")


def _types(notes: str, session: str | None) -> set[str]:
    return {event.type for event in journal.of(notes, session or "")}
