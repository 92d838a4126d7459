"""Law 2, for agents in containers: each is judged by its own files and by no others, and a file in there
that we cannot read stops no session."""

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
from agentctl.truth.survey import HistoryQuery
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
    kind: type[Stage] = request.param
    return kind


def paths_in(session: Session) -> list[str]:
    """Return every path that the evidence names, without the place in the file."""
    verdict = session.verdict
    addresses = [e.address for e in (*verdict.used, *verdict.overruled)]
    addresses += [session.observation.transcript or "", session.observation.owner_source]
    return [
        a.partition("#")[0].rpartition("@")[0] or a.partition("#")[0] for a in addresses if a[:1] == "/"
    ]


def find_session(stage: Stage, puppet: Puppet) -> Session:
    (row,) = [
        s for s in stage.survey(HistoryQuery()).sessions if s.observation.session_id == puppet.session_id
    ]
    return row


@pytest.mark.few(2)
def test_a_contained_agent_is_judged_by_its_own_files(alone: Stage) -> None:
    puppet = alone.start(prompt="paint the shed")
    puppet.do("work")
    assert not list(alone.home.iterdir()), "its files belong in its own home"
    row = find_session(alone, puppet)
    assert (row.verdict.status, row.verdict.activity) == ("running", "working")
    assert row.observation.owner is not None
    assert row.observation.owner.pid == agent_of(puppet)
    assert row.observation.facts.prompt == "paint the shed"
    puppet.do("rest")
    row = find_session(alone, puppet)
    assert row.verdict.status == "idle"
    assert row.observation.facts.model is not None
    assert [p for p in alone.survey(HistoryQuery()).problems if p.kind != "stale"] == []


@pytest.mark.few(2)
def test_every_address_exists_for_us(alone: Stage) -> None:
    puppet = alone.start()
    puppet.do("work")
    row = find_session(alone, puppet)
    paths = paths_in(row)
    assert len(paths) > 1
    assert [path for path in paths if not os.path.exists(path)] == []
    assert not any(path.startswith(str(alone.home)) for path in paths), "these are not its files"
    answer = agentctl_json(alone, "why", puppet.session_id or "")
    (session,) = answer["sessions"]
    addresses = [e["address"] for e in session["evidence"] if e["address"].startswith("/")]
    assert addresses
    printed = subprocess.run(
        [sys.executable, "-m", "agentctl", "why", puppet.session_id or ""],
        env=environ_of(alone),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert all(address in printed for address in addresses)


@pytest.mark.few(2)
def test_files_of_the_same_name_outside_do_not_count(kind: type[Stage], tmp_path: Path) -> None:
    """Two homes of one path, with an agent in each: each is judged by its own files, and when one is
    killed the other does not keep it alive."""
    stage = kind(tmp_path)
    try:
        outside = stage.start(stage.work)
        inside = start_inside(stage, HIDDEN_HOME, stage.work)
        for puppet in (outside, inside):
            puppet.do("work")
        assert find_session(stage, outside).verdict.activity == "working"
        assert find_session(stage, inside).verdict.activity == "working"
        outside.kill()
        dead, alive = find_session(stage, outside).verdict, find_session(stage, inside)
        assert (dead.status, dead.outcome) == ("stopped", "killed"), dead
        assert (alive.verdict.status, alive.verdict.activity) == ("running", "working")
        assert alive.observation.owner is not None
        assert alive.observation.owner.pid == agent_of(inside)
        inside.do("rest")
        assert find_session(stage, inside).verdict.status == "idle"
        inside.kill()  # this kills the wrapper; the agent ends a moment later
        until(lambda: not stage.survey().sessions, "both agents are gone")
    finally:
        stage.close()


@pytest.mark.few(2)
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
        rows = stage.survey(HistoryQuery()).sessions
        assert sorted(str(s.observation.session_id) for s in rows) == sorted(
            [str(outside.session_id), str(inside.session_id)]
        )
        assert {s.verdict.activity for s in rows} == {"working"}
        for path in [path for row in rows for path in paths_in(row)]:
            assert path.startswith(str(stage.root)), "a second name for it"
        outside.kill()
        assert find_session(stage, outside).verdict.status == "stopped"
        assert find_session(stage, inside).verdict.activity == "working"
    finally:
        stage.close()


def test_a_database_that_cannot_be_copied_stops_no_session(tmp_path: Path) -> None:
    stage = contained(OpenCodeStage, tmp_path, HIDDEN_HOME)
    try:
        puppet = stage.start()
        puppet.do("work")
        within = f"/proc/{agent_of(puppet)}/root{stage.home}/.local/share/opencode/opencode.db"
        os.truncate(within, 300 << 20)
        survey = stage.survey(HistoryQuery())
        (row,) = survey.sessions
        assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")
        messages = [p.message for p in survey.problems if p.source == within]
        assert any("in another mount namespace, too large to copy" in text for text in messages), (
            messages
        )
    finally:
        stage.close()


AS_STRANGER = """
import json, sys
from agentctl.adapters.registry import find_adapters
from agentctl.truth.look import Look
from agentctl.truth.survey import HistoryQuery, survey
look = Look.take({"HOME": sys.argv[2]})
result = survey(look, find_adapters([sys.argv[1]]), HistoryQuery(), deadline=60)
rows = [(o.owner.pid if o.owner else None, o.session_id, verdict.status)
        for o, verdict in ((s.observation, s.verdict) for s in result.sessions)]
print(json.dumps({"rows": rows, "problems": [p[1:] for p in result.problems]}))
"""


@pytest.mark.few(2)
def test_an_agent_in_a_namespace_closed_to_us_is_listed(alone: Stage) -> None:
    """Its process alone makes the row, and a problem says why."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv(1), to look as another user")
    puppet = alone.start()
    puppet.do("work")
    run = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
         sys.executable, "-c", AS_STRANGER, alone.adapter, str(alone.home)],
        env=environ_of(alone), cwd="/", capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr.decode()
    answer = json.loads(run.stdout)
    mine = [row for row in answer["rows"] if row[0] == agent_of(puppet)]
    assert [row[2] in LIVE for row in mine] == [True]
    assert [row for row in answer["rows"] if row[1] == puppet.session_id and row[2] == "stopped"] == []
    reasons = [p[1] for p in answer["problems"] if p[2].startswith(f"proc:{agent_of(puppet)}@")]
    assert any("in another mount namespace" in reason for reason in reasons), answer["problems"]
