"""`agentctl completion`."""

import json

import pytest

from agentctl import paths
from agentctl.cli.completion import SHELLS, script
from agentctl.cli.verbs.completion import is_plain
from agentctl.state import launch_writes
from agentctl.truth.model import Launch
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script(stage: DemoStage, shell: str) -> None:
    assert agentctl_of(stage, "completion", shell) == (0, script(shell), "")


def test_live_ids(stage: DemoStage) -> None:
    one, two, dead = stage.start(), stage.start(), stage.start()
    dead.kill()
    ran = agentctl_of(stage, "completion", "--ids")
    assert (ran.code, ran.err) == (0, "")
    assert set(ran.lines) == {one.session_id, two.session_id}


def test_ended_ids(stage: DemoStage) -> None:
    stage.start()
    dead = stage.start()
    dead.kill()
    assert agentctl_of(stage, "completion", "--ended") == (0, f"{dead.session_id}\n", "")


def test_no_ids(stage: DemoStage) -> None:
    assert agentctl_of(stage, "completion", "--ids") == (0, "", "")


def test_groups(stage: DemoStage) -> None:
    puppet = stage.start()
    path = paths.database_file(stage.environ["AGENTCTL_HOME"])
    for number, group in enumerate(("fix", "$(touch x)", None, "fix", "later")):
        note = Launch(str(number), puppet.identity, group=group, created_at=float(number))
        launch_writes.begin_launch(path, note)
    assert agentctl_of(stage, "completion", "--groups").lines == ["later", "fix"]


@pytest.mark.parametrize("session_id", ["$(touch x)", "`x`", "a b", "a\nb", "\x1b[31m", "é", "a;b", "*"])
def test_an_id_that_a_shell_would_expand_is_not_offered(stage: DemoStage, session_id: str) -> None:
    assert not is_plain(session_id)
    puppet = stage.start()
    live = stage.records(puppet)[0]
    live.write_text(json.dumps({**json.loads(live.read_text()), "session": session_id}))
    assert agentctl_of(stage, "completion", "--ids").out == ""


@pytest.mark.parametrize("session_id", ["4f2a81c0-1111-4222-8333-444444444444", "ses_0123ABCdef", "a-1"])
def test_plain_ids_are_offered(session_id: str) -> None:
    assert is_plain(session_id)
