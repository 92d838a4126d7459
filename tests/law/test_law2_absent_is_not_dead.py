"""Law 2: a source that is absent, unreadable, malformed, stale, late or broken makes no live agent
stopped, and hides no session of another source."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentctl.testing import Stage
from agentctl.truth.look import Look
from agentctl.truth.model import Session
from agentctl.truth.survey import HistoryQuery, Survey, survey
from tests.fakes import badly
from tests.fakes.badly import Adapter, Bad
from tests.fakes.demo import DemoStage
from tests.fakes.stages import stages
from tests.fakes.stranger import Stranger
from tests.law.asking import LIVE, agentctl_json, environ_of, start_agent

NOT_STOPPED = (*LIVE, "unknown")


def remove(path: Path) -> None:
    path.unlink()


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def make_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def fill(data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def outgrow(path: Path) -> None:
    os.truncate(path, 5 << 30)  # sparse


DAMAGES: dict[str, Callable[[Path], None]] = {
    "absent": remove,
    "a FIFO": make_fifo,
    "a directory": make_directory,
    "a dangling link": make_dangling,
    "a link to itself": make_loop,
    "empty": fill(b""),
    "NULs": fill(b"\0" * 4096),
    "cut in half": halve,
    "no UTF-8": fill(b"\xff\xfe\xfd\n" * 100),
    "another JSON": fill(b"[1, 2, 3]\n"),
    "an empty object": fill(b"{}\n"),
    "deeply nested": fill(b"[" * 100_000 + b"\n"),
    "5 GB": outgrow,
}
REPORTED = ("a FIFO", "a directory", "a link to itself", "no UTF-8")  # no agent writes such records


@pytest.mark.few(8)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_stops_no_live_session(stage: Stage, damage: str) -> None:
    puppet, session_id = start_agent(stage)
    other, other_id = start_agent(stage, stage.root / "elsewhere")
    intact = stage.session(other_id).verdict[:5]
    for path in stage.records(puppet):
        if path not in stage.records(other):  # one database may hold both
            DAMAGES[damage](path)
    row = stage.find_row(puppet)
    assert row is not None, "a live agent is not listed"
    assert row.verdict.status in NOT_STOPPED
    assert_never_stopped(stage.survey(HistoryQuery()), session_id)
    assert stage.session(other_id).verdict[:5] == intact, "another session's verdict changed"


def test_a_broken_record_is_reported(stage: Stage) -> None:
    for damage in REPORTED:
        puppet, _ = start_agent(stage)
        records = stage.records(puppet)
        for path in records:
            DAMAGES[damage](path)
        survey = stage.survey(HistoryQuery())
        kinds = {problem.kind for problem in survey.problems}
        assert kinds & {"malformed", "unsupported", "forbidden"}, (damage, survey.problems)
        puppet.kill()
        for path in records:
            discard(path)


def test_a_stale_record_is_reported_and_binds_no_process(tmp_path: Path) -> None:
    """The demo agent's record names the start tick, which makes a stale one provable."""
    stage = DemoStage(tmp_path)
    try:
        puppet, session_id = start_agent(stage)
        record = stage.records(puppet)[0]
        body = json.loads(record.read_bytes())
        record.write_text(json.dumps({**body, "procStart": "1"}))
        row = stage.find_row(puppet)
        assert row is not None
        assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")
        assert row.observation.session_id is None
        assert "stale" in {problem.kind for problem in stage.survey().problems}
        assert_never_stopped(stage.survey(HistoryQuery()), session_id)
    finally:
        stage.close()


@pytest.mark.parametrize("record", ['{"procStart": "START"}', '{"procStart": "START", "session": 7}'])
def test_a_record_without_its_session_costs_only_itself(tmp_path: Path, record: str) -> None:
    stage = DemoStage(tmp_path)
    try:
        puppet, _ = start_agent(stage)
        other, _ = start_agent(stage)
        start = str(puppet.identity.start)
        stage.records(puppet)[0].write_text(record.replace("START", start))
        assert stage.find_row(puppet) is not None
        row = stage.find_row(other)
        assert row is not None
        assert (row.observation.session_id, row.verdict.activity) == (other.session_id, "working")
    finally:
        stage.close()


@pytest.mark.few(7)
@pytest.mark.parametrize("field", ["cwd", "model", "version", "at", "id"])
@pytest.mark.parametrize("value", ["7", "NaN", "1e999", "[]", '{"a": 1}', '"yesterday"', "true"])
def test_a_fact_of_the_wrong_type_does_not_break_list(tmp_path: Path, field: str, value: str) -> None:
    stage = DemoStage(tmp_path)
    try:
        puppet, session_id = start_agent(stage)
        journal = stage.records(puppet)[1]
        lines = journal.read_text().splitlines()
        first = {**json.loads(lines[0]), field: "VALUE"}
        lines[0] = json.dumps(first).replace('"VALUE"', value)
        journal.write_text("\n".join(lines) + "\n")
        answer = agentctl_json(stage, "list", "-a")
        assert [(s["id"], s["status"]) for s in answer["sessions"]] == [(session_id, "running")]
    finally:
        stage.close()


@pytest.mark.few(2)
@pytest.mark.parametrize("adapter", [each.adapter for each in stages()])
def test_a_session_with_forbidden_records_is_not_dead(adapter: str, tmp_path: Path) -> None:
    """Root may read files of mode 000, so root gives up that privilege for this test."""
    without: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv(1): root reads a file of mode 000 all the same")
        without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    outside = DemoStage(tmp_path / "outside")  # for its environment alone
    run = subprocess.run(
        [*without, sys.executable, "-m", "tests.law.forbid", adapter, str(tmp_path / "inside")],
        env=environ_of(outside),
        capture_output=True,
        timeout=100,
        check=False,
    )
    output = run.stdout.decode() + run.stderr.decode()
    assert run.returncode == 0, output
    assert output.splitlines()[-1] == "forbidden is not dead"


# Seconds. Beside an adapter that loops, each read of another one waits 5 ms for the interpreter: the
# whole look of the demo adapter takes half a second, and its import as long again. An adapter that hangs
# delays no other.
LATE_DEADLINES = {"loops for ever": 5.0, "hangs": 2.0}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[DemoStage]:
    stage = DemoStage(tmp_path)
    yield stage
    stage.close()


# slow: an adapter that hangs is as late, at no cost
SLOW_LOOP = pytest.param("loops for ever", marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "fault", [SLOW_LOOP if fault in SLOW_LOOP.values else fault for fault in badly.FAULTS]
)
def test_a_faulty_adapter_hides_no_process(scene: DemoStage, fault: str) -> None:
    puppet, session_id = start_agent(scene)
    bad, good = Bad("bad", fault), Adapter("good", "good-agent")
    deadline = LATE_DEADLINES.get(fault, 20.0)
    try:
        with (
            Stranger("bad-agent", scene.environ, scene.work) as first,
            Stranger("bad-agent", scene.environ, scene.work) as second,
            Stranger("good-agent", scene.environ, scene.work) as third,
        ):
            result = survey_with(scene, bad, good, deadline=deadline)
            rows = {
                s.observation.owner.pid: s for s in result.sessions if s.observation.owner is not None
            }
            assert set(rows) == {first.pid, second.pid, third.pid, puppet.pid}
            for pid in (first.pid, second.pid):
                verdict = rows[pid].verdict
                assert (verdict.status, verdict.activity) == ("running", "unknown")
            assert rows[third.pid].verdict.activity == "working"
            assert rows[third.pid].observation.session_id == f"{third.pid} of good"
            assert rows[puppet.pid].observation.session_id == session_id
            assert rows[puppet.pid].verdict.activity == "working"
            kind = "late" if fault in badly.LATE else "broken"
            assert [(p.adapter, p.kind) for p in result.problems] == [("bad", kind)]
            old = [s.observation.session_id for s in result.sessions if s.verdict.status == "stopped"]
            assert old == ["an old one of good"]
    finally:
        bad.release()


def test_an_error_about_one_process_hides_no_other(scene: DemoStage) -> None:
    bad = Bad("bad", "chokes on every process but the first")
    with (
        Stranger("bad-agent", scene.environ, scene.work) as first,
        Stranger("bad-agent", scene.environ, scene.work) as second,
    ):
        result = survey_with(scene, bad)
        listed = {s.observation.owner.pid for s in result.sessions if s.observation.owner is not None}
        assert len(listed & {first.pid, second.pid}) == 1
        assert [p.kind for p in result.problems] == ["broken"]


def survey_with(scene: DemoStage, *adapters: Adapter, deadline: float = 20.0) -> Survey:
    from agentctl.adapters.registry import find_adapters

    others = [badly.make_entry(adapter) for adapter in adapters]
    look = Look.take(scene.environ)
    return survey(look, [*others, *find_adapters(["demo"])], HistoryQuery(), deadline=deadline)


def assert_never_stopped(survey: Survey, session_id: str) -> None:
    rows: list[Session] = [s for s in survey.sessions if s.observation.session_id == session_id]
    assert all(row.verdict.status != "stopped" for row in rows), rows


def discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
