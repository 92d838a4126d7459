"""How locks are shown, and who a person is by default."""

import os
import sqlite3

import pytest

from agentctl.cli import locking
from agentctl.state import launch_writes
from agentctl.truth.model import Launch
from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, agentctl_on_a_terminal


def _notes(stage: DemoStage) -> str:
    return f"{stage.environ['AGENTCTL_HOME']}/state.db"


def test_the_login_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    assert locking.login() == pwd.getpwuid(os.getuid()).pw_name

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.delenv("LOGNAME", raising=False)
    monkeypatch.setenv("USER", "me")
    assert locking.login() == "me"
    monkeypatch.delenv("USER")
    assert locking.login() == f"uid {os.getuid()}"


def test_an_agent_and_a_person_in_one_table(stage: DemoStage) -> None:
    puppet = stage.start()
    note = Launch("1a", puppet.identity, puppet.session_id, "the name", cwd=str(stage.work))
    launch_writes.begin(_notes(stage), note)
    (stage.home / "mine").mkdir()
    agentctl_of(
        stage, "lock", str(stage.home / "mine"), "--by", "me", "--reason", "a merge", "--ttl", "9h"
    )
    ran = agentctl_of(stage, "locks", COLUMNS="200")
    assert ran.lines[0].split() == ["DIRECTORY", "HELD", "BY", "SINCE", "UNTIL"]
    assert f"session {puppet.session_id} (the name), pid {puppet.pid}" in ran.lines[1]
    assert ran.lines[1].endswith("it ends")
    assert ran.lines[2].startswith("~/mine")
    assert "me (a merge)" in ran.lines[2]
    assert ran.lines[2].endswith("in 9h")
    puppet.kill()
    assert len(agentctl_of(stage, "locks").lines) == 2  # its directory is free at once


def test_an_owner_in_another_container_is_told(stage: DemoStage) -> None:
    puppet = stage.start()
    launch_writes.begin(_notes(stage), Launch("1a", puppet.identity, cwd=str(stage.work)))
    connection = sqlite3.connect(_notes(stage))
    with connection:
        connection.execute("update lock set namespace = 'pid:[1]'")
    connection.close()
    ran = agentctl_of(stage, "locks")
    assert f"launch 1a, pid {puppet.pid} in another container" in ran.lines[1]
    assert ran.lines[1].endswith("not known")


def test_hostile_names_are_harmless_and_fit(stage: DemoStage) -> None:
    odd = stage.work / "a\n\x1b[31m\u202e漢\udcff"
    odd.mkdir()
    took = agentctl_of(stage, "lock", str(odd), "--reason", "\x1b[2J\nx", "--by", "漢" * 50)
    assert took.code == 0
    refused = agentctl_of(stage, "lock", str(odd))
    assert refused.code == 4
    for ran in (took, refused, agentctl_of(stage, "locks")):
        assert hostile.harmful(ran.out + ran.err) == []
    shown = agentctl_on_a_terminal(stage, "locks", columns=60, NO_COLOR="1")
    assert max(map(len, shown.lines)) <= 60
    assert agentctl_of(stage, "unlock", str(odd)).code == 0


def test_a_name_that_is_no_text_is_refused(stage: DemoStage) -> None:
    for option in ("--by", "--reason"):
        ran = agentctl_of(stage, "lock", ".", option, "\udcff")
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert "not UTF-8" in ran.err


def test_locks_that_cannot_be_read_are_no_empty_answer(stage: DemoStage) -> None:
    state = stage.root / "state"
    state.mkdir()
    (state / "state.db").write_text("rubbish\n" * 500)
    ran = agentctl_of(stage, "locks")
    assert (ran.code, ran.out) == (1, "")
    assert "malformed" in ran.err
    shape = agentctl_of(stage, "locks", "--json")
    assert shape.code == 1
    assert [problem["kind"] for problem in shape.json()["problems"]] == ["malformed"]
