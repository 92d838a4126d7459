"""Law 2: absent, unreadable, malformed, stale, late or broken: none of it turns a live agent into a
stopped one, and the fault of one source hides nobody else."""

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
from agentctl.truth.survey import Survey, Wanted, survey
from tests.fakes import badly
from tests.fakes.badly import Adapter, Bad
from tests.fakes.demo import DemoStage
from tests.fakes.stages import stages
from tests.fakes.stranger import Stranger
from tests.law.asking import LIVE, agentctl_json, environ_of, working

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
TELLING = ("a FIFO", "a directory", "a link to itself", "no UTF-8")  # nobody writes such things


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_record_that_is(stage: Stage, damage: str) -> None:
    puppet, session_id = working(stage)
    other, other_id = working(stage, stage.root / "elsewhere")
    intact = stage.session(other_id).verdict[:5]
    for path in stage.records(puppet):
        if path not in stage.records(other):  # one database may hold both
            DAMAGES[damage](path)
    row = stage.row_of(puppet)
    assert row is not None, "a live agent is not listed"
    assert row.verdict.status in NOT_STOPPED
    assert_never_stopped(stage.survey(Wanted()), session_id)
    assert stage.session(other_id).verdict[:5] == intact, "another session's verdict changed"


def test_a_broken_record_is_told(stage: Stage) -> None:
    for damage in TELLING:
        puppet, _ = working(stage)
        records = stage.records(puppet)
        for path in records:
            DAMAGES[damage](path)
        found = stage.survey(Wanted())
        kinds = {problem.kind for problem in found.problems}
        assert kinds & {"malformed", "unsupported", "forbidden"}, (damage, found.problems)
        puppet.kill()
        for path in records:
            discard(path)


def test_a_stale_record_is_told_and_binds_nobody(tmp_path: Path) -> None:
    """The demo agent's record names the start tick, which makes a stale one provable."""
    stage = DemoStage(tmp_path)
    try:
        puppet, session_id = working(stage)
        record = stage.records(puppet)[0]
        said = json.loads(record.read_bytes())
        record.write_text(json.dumps({**said, "procStart": "1"}))
        row = stage.row_of(puppet)
        assert row is not None
        assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")
        assert row.seen.session_id is None
        assert "stale" in {problem.kind for problem in stage.survey().problems}
        assert_never_stopped(stage.survey(Wanted()), session_id)
    finally:
        stage.close()


@pytest.mark.parametrize("record", ['{"procStart": "START"}', '{"procStart": "START", "session": 7}'])
def test_a_record_without_its_session_costs_only_itself(tmp_path: Path, record: str) -> None:
    stage = DemoStage(tmp_path)
    try:
        puppet, _ = working(stage)
        other, _ = working(stage)
        start = str(puppet.identity.start)
        stage.records(puppet)[0].write_text(record.replace("START", start))
        assert stage.row_of(puppet) is not None
        row = stage.row_of(other)
        assert row is not None
        assert (row.seen.session_id, row.verdict.activity) == (other.session_id, "working")
    finally:
        stage.close()


@pytest.mark.parametrize("field", ["cwd", "model", "version", "at", "id"])
@pytest.mark.parametrize("value", ["7", "NaN", "1e999", "[]", '{"a": 1}', '"yesterday"', "true"])
def test_a_fact_of_the_wrong_type_ends_nobodys_list(tmp_path: Path, field: str, value: str) -> None:
    stage = DemoStage(tmp_path)
    try:
        puppet, session_id = working(stage)
        journal = stage.records(puppet)[1]
        lines = journal.read_text().splitlines()
        first = {**json.loads(lines[0]), field: "VALUE"}
        lines[0] = json.dumps(first).replace('"VALUE"', value)
        journal.write_text("\n".join(lines) + "\n")
        answer = agentctl_json(stage, "list", "-a")
        assert [(s["id"], s["status"]) for s in answer["sessions"]] == [(session_id, "running")]
    finally:
        stage.close()


@pytest.mark.parametrize("adapter", [each.adapter for each in stages()])
def test_what_is_forbidden_is_not_dead(adapter: str, tmp_path: Path) -> None:
    """Mode 000. Root reads on regardless, so root gives up just that privilege for the scene."""
    without: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv(1): root reads a file of mode 000 all the same")
        without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    outside = DemoStage(tmp_path / "outside")  # for its environment alone
    done = subprocess.run(
        [*without, sys.executable, "-m", "tests.law.forbid", adapter, str(tmp_path / "inside")],
        env=environ_of(outside),
        capture_output=True,
        timeout=100,
        check=False,
    )
    said = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, said
    assert said.splitlines()[-1] == "forbidden is not dead"


# Seconds. Beside an adapter that loops, each read of another one waits 5 ms for the interpreter: the
# whole look of the demo adapter takes half a second, and its import as long again.
DEADLINE_OF_LATE = 5.0


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[DemoStage]:
    stage = DemoStage(tmp_path)
    yield stage
    stage.close()


@pytest.mark.parametrize("deed", badly.DEEDS)
def test_an_adapter_that(scene: DemoStage, deed: str) -> None:
    puppet, session_id = working(scene)
    bad, good = Bad("bad", deed), Adapter("good", "good-agent")
    try:
        with (
            Stranger("bad-agent", scene.environ, scene.work) as first,
            Stranger("bad-agent", scene.environ, scene.work) as second,
            Stranger("good-agent", scene.environ, scene.work) as third,
        ):
            found = ask(scene, bad, good, deadline=DEADLINE_OF_LATE if deed in badly.LATE else 20.0)
            rows = {s.seen.owner.pid: s for s in found.sessions if s.seen.owner is not None}
            assert set(rows) == {first.pid, second.pid, third.pid, puppet.pid}
            for pid in (first.pid, second.pid):
                verdict = rows[pid].verdict
                assert (verdict.status, verdict.activity) == ("running", "unknown")
            assert rows[third.pid].verdict.activity == "working"
            assert rows[third.pid].seen.session_id == f"{third.pid} of good"
            assert rows[puppet.pid].seen.session_id == session_id
            assert rows[puppet.pid].verdict.activity == "working"
            kind = "late" if deed in badly.LATE else "broken"
            assert [(p.adapter, p.kind) for p in found.problems] == [("bad", kind)]
            old = [s.seen.session_id for s in found.sessions if s.verdict.status == "stopped"]
            assert old == ["an old one of good"]
    finally:
        bad.release()


def test_a_process_that_owns_chokes_on_hides_no_other(scene: DemoStage) -> None:
    bad = Bad("bad", "chokes on every process but the first")
    with (
        Stranger("bad-agent", scene.environ, scene.work) as first,
        Stranger("bad-agent", scene.environ, scene.work) as second,
    ):
        found = ask(scene, bad)
        listed = {s.seen.owner.pid for s in found.sessions if s.seen.owner is not None}
        assert len(listed & {first.pid, second.pid}) == 1
        assert [p.kind for p in found.problems] == ["broken"]


def ask(scene: DemoStage, *adapters: Adapter, deadline: float = 20.0) -> Survey:
    from agentctl.adapters.registry import registered

    others = [badly.registered(adapter) for adapter in adapters]
    look = Look.take(scene.environ)
    return survey(look, [*others, *registered(["demo"])], Wanted(), deadline=deadline)


def assert_never_stopped(found: Survey, session_id: str) -> None:
    rows: list[Session] = [s for s in found.sessions if s.seen.session_id == session_id]
    assert all(row.verdict.status != "stopped" for row in rows), rows


def discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
