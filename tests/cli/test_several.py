"""Several sessions by id or by group."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.cli.several import Answers, SeveralParser, asked, how_it_ended
from agentctl.errors import Ambiguous, NotFound, Refused, UsageError
from agentctl.state import launch_writes
from agentctl.testing import Puppet
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Launch, Observation, Problem, Session
from tests.ending import play_on
from tests.fakes.demo import DemoStage


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    play_on(made, monkeypatch)
    yield made
    made.close()


def words(*given: str) -> SeveralParser:
    parser = SeveralParser("stop", "", "")
    parser.add_argument("--force", action="store_true")
    return parser


def found(*given: str, answers: Answers | None = None) -> list[str | None]:
    arguments = words().parse_words([*given])
    arguments.deadline = None
    sessions = asked(arguments, answers or Answers())
    return [each.session.seen.session_id for each in sessions]


def noted(stage: DemoStage, puppet: Puppet, group: str) -> None:
    note = Launch(f"l{puppet.pid}", puppet.identity, puppet.session_id, group=group, created_at=1.0)
    launch_writes.begin(paths.notes_file(stage.environ["AGENTCTL_HOME"]), note)


def test_options_may_stand_between_the_ids() -> None:
    given = words().parse_words(["a", "--force", "b"])
    assert (given.id, given.force, given.group) == (["a", "b"], True, None)


@pytest.mark.parametrize("given", [[], ["a", "--group", "g"], ["--group", ""]])
def test_ids_or_a_group(given: list[str]) -> None:
    with pytest.raises(UsageError, match="which sessions"):
        words().parse_words(given)


def test_each_is_found_once_however_it_is_called(stage: DemoStage) -> None:
    one, two = stage.start(), stage.start()
    two.kill()
    ids = [one.session_id or "", two.session_id or ""]
    assert found(ids[0], ids[1][:12], f"pid:{one.pid}") == ids


def test_one_that_is_not_there_costs_the_others_nothing(
    stage: DemoStage, capsys: pytest.CaptureFixture[str]
) -> None:
    puppet, answers = stage.start(), Answers()
    assert found("nosuch", puppet.session_id or "", answers=answers) == [puppet.session_id]
    assert answers.code == NotFound.exit_code
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "agentctl: nosuch: no session 'nosuch'"
    assert told[1].startswith("  agentctl list -a")


def test_one_alone_fails_as_everywhere(stage: DemoStage) -> None:
    stage.start()
    with pytest.raises(NotFound):
        found("nosuch")
    with pytest.raises(UsageError):
        found("", "x")


def test_an_ambiguous_one(stage: DemoStage) -> None:
    for _ in range(17):  # the first digit of a uuid has 16 values
        stage.start()
    ids = [p.session_id or "" for p in stage.puppets]
    first = next(i[0] for i in ids if sum(other[0] == i[0] for other in ids) > 1)
    with pytest.raises(Ambiguous):
        found(first)


def test_all_of_a_group_the_living_first(stage: DemoStage) -> None:
    puppets = [stage.start() for _ in range(4)]
    for puppet in puppets[:3]:
        noted(stage, puppet, "g")
    noted(stage, puppets[3], "another")
    puppets[0].kill()
    ids = found("--group", "g")
    assert set(ids) == {p.session_id for p in puppets[:3]}
    assert ids[-1] == puppets[0].session_id


def test_a_group_that_is_none(stage: DemoStage) -> None:
    puppet = stage.start()
    with pytest.raises(NotFound, match="no group 'g'") as caught:
        found("--group", "g")
    assert caught.value.hint == "no launch has a group yet"
    noted(stage, puppet, "another")
    with pytest.raises(NotFound) as caught:
        found("--group", "g")
    assert caught.value.hint == "known: another"


def test_the_worst_code_is_kept_and_a_problem_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    answers = Answers()
    answers.failed("a", Refused("locked", "do\nthis"))
    answers.failed("b", NotFound("none"))
    assert answers.code == 4
    assert capsys.readouterr().err == "agentctl: a: locked\n  do this\nagentctl: b: none\n"
    for _ in range(2):
        answers.noticed([Problem("demo", "broken", "x")])
    assert len(answers.problems) == 1


@pytest.mark.parametrize(
    ("code", "ending", "expected"),
    [
        (0, "completed", "completed, exit code 0"),
        (-9, "", "killed, signal 9"),
        (None, "", "how is not known"),
        (None, "failed", "failed"),
    ],
)
def test_how_it_ended(code: int | None, ending: str, expected: str) -> None:
    evidence = [Evidence("gone", "/proc", "kernel")]
    if ending:
        evidence.append(Evidence("idle", "/t", "journal", detail=ending))
    if code is not None:
        evidence.append(Evidence("exited", "/e", "record", value=code))
    seen = Observation("demo", "s", tuple(evidence))
    assert how_it_ended(Session(seen, judge(evidence))) == expected


def test_of_a_living_one_its_status() -> None:
    evidence = (Evidence("alive", "proc:1@1", "kernel"),)
    assert how_it_ended(Session(Observation("demo", "s", evidence), judge(evidence))) == "running"
