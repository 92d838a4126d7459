"""Law 2, for agents in containers: their own files speak for them, and nobody else's do; what cannot be
read in there ends nobody."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.testing import Puppet, Stage
from agentctl.truth.model import Session
from agentctl.truth.survey import Wanted
from tests.fakes.container import HIDDEN_HOME, VISIBLE_HOME, agent_of, contained, start_inside
from tests.fakes.opencode import OpenCodeStage
from tests.fakes.stages import stages
from tests.law.asking import LIVE, agentctl_json, environ_of
from tests.waiting import until

HOMES = {"hidden": HIDDEN_HOME, "visible": VISIBLE_HOME}


@pytest.fixture(params=HOMES)
def alone(kind: type[Stage], request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    stage = contained(kind, tmp_path, HOMES[request.param])
    yield stage
    stage.close()


@pytest.fixture(params=stages(), ids=lambda stage: stage.adapter)
def kind(request: pytest.FixtureRequest) -> type[Stage]:
    found: type[Stage] = request.param
    return found


def paths_in(session: Session) -> list[str]:
    """Every path that the evidence names, without the place in the file."""
    verdict = session.verdict
    found = [e.address for e in (*verdict.used, *verdict.overruled)]
    found += [session.seen.transcript or "", session.seen.tied_by]
    return [a.partition("#")[0].rpartition("@")[0] or a.partition("#")[0] for a in found if a[:1] == "/"]


def only(stage: Stage, puppet: Puppet) -> Session:
    (row,) = [s for s in stage.survey(Wanted()).sessions if s.seen.session_id == puppet.session_id]
    return row


def test_its_own_files_speak_for_it(alone: Stage) -> None:
    puppet = alone.start(prompt="paint the shed")
    puppet.do("work")
    assert not list(alone.home.iterdir()), "its files were to be in its own home"
    row = only(alone, puppet)
    assert (row.verdict.status, row.verdict.activity) == ("running", "working")
    assert row.seen.owner is not None
    assert row.seen.owner.pid == agent_of(puppet)
    assert row.seen.facts.prompt == "paint the shed"
    puppet.do("rest")
    row = only(alone, puppet)
    assert row.verdict.status == "idle"
    assert row.seen.facts.model is not None
    assert [p for p in alone.survey(Wanted()).problems if p.kind != "stale"] == []


def test_every_address_can_be_looked_up(alone: Stage) -> None:
    puppet = alone.start()
    puppet.do("work")
    row = only(alone, puppet)
    paths = paths_in(row)
    assert len(paths) > 1
    assert [path for path in paths if not os.path.exists(path)] == []
    assert not any(path.startswith(str(alone.home)) for path in paths), "these are not its files"
    told = agentctl_json(alone, "why", puppet.session_id or "")
    (shown,) = told["sessions"]
    addresses = [e["address"] for e in shown["evidence"] if e["address"].startswith("/")]
    assert addresses
    printed = subprocess.run(
        [sys.executable, "-m", "agentctl", "why", puppet.session_id or ""],
        env=environ_of(alone),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert all(address in printed for address in addresses)


def test_the_files_of_the_same_name_outside_do_not(kind: type[Stage], tmp_path: Path) -> None:
    """Two homes of one path, an agent in each: each is judged by its own files, and when one is killed
    the other does not stand in for it."""
    stage = kind(tmp_path)
    try:
        outside = stage.start(stage.work)
        inside = start_inside(stage, HIDDEN_HOME, stage.work)
        for puppet in (outside, inside):
            puppet.do("work")
        assert only(stage, outside).verdict.activity == "working"
        assert only(stage, inside).verdict.activity == "working"
        outside.kill()
        dead, alive = only(stage, outside).verdict, only(stage, inside)
        assert (dead.status, dead.outcome) == ("stopped", "killed"), dead
        assert (alive.verdict.status, alive.verdict.activity) == ("running", "working")
        assert alive.seen.owner is not None
        assert alive.seen.owner.pid == agent_of(inside)
        inside.do("rest")
        assert only(stage, inside).verdict.status == "idle"
        inside.kill()  # the wrapper; the agent ends with it, a moment later
        until(lambda: not stage.survey().sessions, "nobody is left")
    finally:
        stage.close()


@pytest.mark.parametrize("place", ["same", "other"])
def test_a_shared_home_is_one_home(kind: type[Stage], tmp_path: Path, place: str) -> None:
    """One row for each session, whichever way its files are reached."""
    stage = kind(tmp_path)
    mounted = str(stage.home) if place == "same" else str(tmp_path / "elsewhere")
    script = f'mkdir -p {mounted} && mount --bind {stage.home} {mounted} && export HOME="{mounted}"'
    try:
        outside = stage.start(stage.work)
        inside = start_inside(stage, script, stage.root / "inside")
        for puppet in (outside, inside):
            puppet.do("work")
        rows = stage.survey(Wanted()).sessions
        assert sorted(str(s.seen.session_id) for s in rows) == sorted(
            [str(outside.session_id), str(inside.session_id)]
        )
        assert {s.verdict.activity for s in rows} == {"working"}
        for path in [path for row in rows for path in paths_in(row)]:
            assert path.startswith(str(stage.root)), "a second name for it"
        outside.kill()
        assert only(stage, outside).verdict.status == "stopped"
        assert only(stage, inside).verdict.activity == "working"
    finally:
        stage.close()


def test_a_database_that_cannot_be_copied_ends_nobody(tmp_path: Path) -> None:
    stage = contained(OpenCodeStage, tmp_path, HIDDEN_HOME)
    try:
        puppet = stage.start()
        puppet.do("work")
        within = f"/proc/{agent_of(puppet)}/root{stage.home}/.local/share/opencode/opencode.db"
        os.truncate(within, 300 << 20)
        found = stage.survey(Wanted())
        (row,) = found.sessions
        assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")
        said = [p.message for p in found.problems if p.source == within]
        assert any("in another mount namespace, too large to copy" in text for text in said), said
    finally:
        stage.close()


STRANGER = """
import json, sys
from agentctl.adapters.registry import registered
from agentctl.truth.look import Look
from agentctl.truth.survey import Wanted, survey
found = survey(Look.take({"HOME": sys.argv[2]}), registered([sys.argv[1]]), Wanted(), deadline=60)
rows = [(s.seen.owner.pid if s.seen.owner else None, s.seen.session_id, s.verdict.status)
        for s in found.sessions]
print(json.dumps({"rows": rows, "problems": [p[1:] for p in found.problems]}))
"""


def test_one_that_we_may_not_enter_is_listed(alone: Stage) -> None:
    """By its process alone, and with the reason."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv(1), to look as somebody else")
    puppet = alone.start()
    puppet.do("work")
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", STRANGER,
         alone.adapter, str(alone.home)],
        env=environ_of(alone), cwd="/", capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    mine = [row for row in told["rows"] if row[0] == agent_of(puppet)]
    assert [row[2] in LIVE for row in mine] == [True]
    assert [row for row in told["rows"] if row[1] == puppet.session_id and row[2] == "stopped"] == []
    reasons = [p[1] for p in told["problems"] if p[2].startswith(f"proc:{agent_of(puppet)}@")]
    assert any("in another mount namespace" in reason for reason in reasons), told["problems"]
