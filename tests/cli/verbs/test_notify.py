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
command = 'echo "$AGENTCTL_TEXT" >> messages'
on = ["failed"]
adapters = ["pi"]
"""


@pytest.fixture
def messages(stage: DemoStage) -> Path:
    """Configure two targets; return the file that the second one writes."""
    home = Path(stage.environ["AGENTCTL_HOME"])
    home.mkdir()
    (home / "config.toml").write_text(SETTINGS)
    program = stage.root / "bin" / "notify-send"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$5" > "$HOME/shown"\n')
    program.chmod(0o755)
    stage.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
    return stage.home / "messages"


def test_list_shows_the_targets(stage: DemoStage, messages: Path) -> None:
    notes = f"{stage.environ['AGENTCTL_HOME']}/state.db"
    data = {"data": {"target": "desk", "why": "you are there"}}
    journal.append_events(notes, [Event("notify.quiet", 1.0, body=data)])
    ran = agentctl_of(stage, "notify")
    assert ran.code == 0
    assert ran.lines[0].split() == ["NAME", "HOW", "ON", "ONLY", "LAST"]
    assert ran.lines[1].startswith("desk  desktop")
    assert ran.lines[1].endswith("ago: you are there")
    assert "failed" in ran.lines[2]
    assert (
        ran.err == "agentctl: notifications are sent only while the daemon runs: agentctl daemon start\n"
    )
    assert agentctl_of(stage, "notify", "list").lines[0] == ran.lines[0]


def test_json(stage: DemoStage, messages: Path) -> None:
    shape = agentctl_of(stage, "notify", "--json").json()
    assert [(t["name"], t["way"], t["last"]) for t in shape["targets"]] == [
        ("desk", "desktop", None),
        ("mine", "command", None),
    ]


def test_a_test_of_every_target(stage: DemoStage, messages: Path) -> None:
    ran = agentctl_of(stage, "notify", "test")
    assert (ran.code, ran.err) == (0, "")
    assert [line.partition(",")[0] for line in ran.lines] == ["desk: sent", "mine: sent"]
    assert messages.read_text() == "This is a test: agentctl can reach you.\n"
    assert (stage.home / "shown").read_text() == messages.read_text()


def test_a_test_of_one_target(stage: DemoStage, messages: Path) -> None:
    assert agentctl_of(stage, "notify", "test", "desk").code == 0
    assert not messages.exists()


def test_a_failed_test_exits_with_1(stage: DemoStage, messages: Path) -> None:
    ran = agentctl_of(stage, "notify", "test", PATH="/usr/bin:/bin")
    assert ran.code == 1
    assert ran.lines[0].startswith("desk: FAILED: notify-send is not on the PATH")
    shape = agentctl_of(stage, "notify", "test", "--json", PATH="/usr/bin:/bin").json()
    assert [(one["name"], one["ok"]) for one in shape["tests"]] == [("desk", False), ("mine", True)]


def test_without_a_target_nothing_can_be_tested(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "notify")
    assert (ran.code, ran.err) == (0, "")
    assert "no notification target is configured" in ran.out
    assert agentctl_of(stage, "notify", "test").code == 3


@pytest.mark.parametrize(
    ("words", "code"), [(("test", "phone"), 3), (("tset",), 2), (("list", "desk"), 2)]
)
def test_wrong_usage(stage: DemoStage, messages: Path, words: tuple[str, ...], code: int) -> None:
    ran = agentctl_of(stage, "notify", *words)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("agentctl: ")


def test_the_daemon_notifies_of_an_agent_that_asks(stage: DemoStage, messages: Path) -> None:
    """Agent, daemon, outbox and program are all real."""
    daemon_of(stage)
    ran = agentctl_of(stage, "notify")
    assert ran.err == ""
    puppet = stage.start(prompt="paint the shed")
    puppet.do("work")
    puppet.do("ask")
    notification = stage.home / "shown"
    until(lambda: notification.exists() and "question" in notification.read_text(), "it is shown")
    assert notification.read_text().splitlines() == [
        "demo in work has a question for you.",
        "paint the shed",
    ]
    history = stage.environ["AGENTCTL_HOME"] + "/state.db"
    until(lambda: _types(history, puppet.session_id) >= {"notify.delivered"}, "the delivery is recorded")
    puppet.kill()
    until(lambda: "session.stopped" in _types(history, puppet.session_id), "its end is seen")
    until(lambda: "killed" in notification.read_text(), "its end is shown")


def _types(notes: str, session: str | None) -> set[str]:
    return {event.type for event in journal.read_about(notes, session or "")}
