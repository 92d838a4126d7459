"""Sessions selected by id or by group."""

import pytest

from agentctl import paths
from agentctl.errors import Ambiguous, NotFound, UsageError
from agentctl.sessions import select
from agentctl.sessions.select import Choices
from agentctl.state import launch_writes
from agentctl.testing import Puppet
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Launch, Observation, Session
from tests.fakes.demo import DemoStage


def session_ids(choices: Choices) -> list[str | None]:
    return [choice.session.observation.session_id for choice in choices.sessions]


def note_launch(stage: DemoStage, puppet: Puppet, group: str) -> None:
    note = Launch(f"l{puppet.pid}", puppet.identity, puppet.session_id, group=group, created_at=1.0)
    launch_writes.begin_launch(paths.database_file(stage.environ["AGENTCTL_HOME"]), note)


def test_each_session_is_selected_once(stage: DemoStage) -> None:
    one, two = stage.start(), stage.start()
    two.kill()
    ids = [one.session_id or "", two.session_id or ""]
    assert session_ids(select.select_by_ids([ids[0], ids[1][:12], f"pid:{one.pid}"])) == ids


def test_the_error_of_a_single_id_is_raised(stage: DemoStage) -> None:
    stage.start()
    with pytest.raises(NotFound):
        session_ids(select.select_by_ids(["nosuch"]))
    with pytest.raises(UsageError):
        session_ids(select.select_by_ids(["", "x"]))


@pytest.mark.slow
def test_an_ambiguous_prefix_is_refused(stage: DemoStage) -> None:
    for _ in range(17):  # the first digit of a uuid has 16 values
        stage.start()
    ids = [p.session_id or "" for p in stage.puppets]
    first = next(i[0] for i in ids if sum(other[0] == i[0] for other in ids) > 1)
    with pytest.raises(Ambiguous):
        session_ids(select.select_by_ids([first]))


def test_a_group_has_live_sessions_first(stage: DemoStage) -> None:
    puppets = [stage.start() for _ in range(4)]
    for puppet in puppets[:3]:
        note_launch(stage, puppet, "g")
    note_launch(stage, puppets[3], "another")
    puppets[0].kill()
    ids = session_ids(select.select_group("g"))
    assert set(ids) == {p.session_id for p in puppets[:3]}
    assert ids[-1] == puppets[0].session_id


def test_an_unknown_group_is_not_found(stage: DemoStage) -> None:
    puppet = stage.start()
    with pytest.raises(NotFound, match="no group 'g'") as caught:
        session_ids(select.select_group("g"))
    assert caught.value.hint == "no launch has a group yet"
    note_launch(stage, puppet, "another")
    with pytest.raises(NotFound) as caught:
        session_ids(select.select_group("g"))
    assert caught.value.hint == "groups: another"


def test_a_failed_id_does_not_affect_the_others(stage: DemoStage) -> None:
    puppet = stage.start()
    choices = select.select_by_ids(["nosuch", puppet.session_id or ""])
    assert session_ids(choices) == [puppet.session_id]
    [(text, error)] = choices.failures
    assert (text, type(error)) == ("nosuch", NotFound)


def session_of(*evidence: Evidence) -> Session:
    return Session(Observation("demo", "s", evidence), judge(evidence))


GONE, ALIVE = Evidence("gone", "/proc", "kernel"), Evidence("alive", "proc:1@1", "kernel")


@pytest.mark.parametrize(
    ("session", "code"),
    [
        (session_of(GONE, Evidence("idle", "/t", "journal", detail="completed")), 0),
        (session_of(GONE, Evidence("idle", "/t", "journal", detail="failed")), 1),
        (session_of(GONE, Evidence("idle", "/t", "journal", detail="interrupted")), 1),
        (session_of(GONE, Evidence("working", "/t", "journal")), 1),
        (session_of(GONE), 5),
        (session_of(), 5),
        (session_of(ALIVE, Evidence("idle", "/t", "journal")), 0),
        (session_of(ALIVE, Evidence("waiting", "/t", "journal", detail="permission")), 0),
    ],
)
def test_the_exit_code_follows_from_the_outcome(session: Session, code: int) -> None:
    assert select.outcome_code(session) == code
