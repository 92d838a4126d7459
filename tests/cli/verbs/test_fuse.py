"""`agentctl fuse`: set, list, extend, cancel; the daemon that it starts fires the fuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctl import paths
from agentctl.cli.verbs import fuse
from agentctl.state import journal
from agentctl.state.fuses import Action, Fuse
from tests.daemon.serving import daemon_of
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import Ran, agentctl_of
from tests.waiting import until


def without_daemon(stage: DemoStage, *words: str) -> Ran:
    return agentctl_of(stage, "fuse", *words, AGENTCTL_NO_DAEMON="1")


def event_types(stage: DemoStage) -> list[str]:
    return [e.type for e in journal.read_after(paths.database_file(stage.environ["AGENTCTL_HOME"]), 0)]


@pytest.fixture
def work(stage: DemoStage) -> str:
    stage.work.mkdir(parents=True, exist_ok=True)
    return str(stage.work.resolve())


def test_a_fuse_is_set_extended_and_cancelled(stage: DemoStage, work: str) -> None:
    assert without_daemon(stage).out == "no fuses are set; see past ones: agentctl fuse list --all\n"
    ran = without_daemon(stage, "set", work, "--in", "10m", "--emit", "late", "--label", "tidy")
    assert ran.code == 0, ran.err
    assert ran.out.endswith(f" set, on {work}: in 10m emit late\n")
    assert "fuses fire only while the daemon runs: agentctl daemon start" in ran.err
    fuse_id = ran.out.split()[0]
    header, row = without_daemon(stage).lines
    assert header.split() == ["FUSE", "DUE", "ON", "ACTION", "LABEL"]
    assert row.startswith(f"{fuse_id}  in 10m")
    assert row.endswith("emit late  tidy")
    assert ": in 15m emit late" in without_daemon(stage, "extend", work, "--by", "5m").out
    assert ": in 60s emit late" in without_daemon(stage, "extend", fuse_id[:5], "--in", "1m").out
    assert without_daemon(stage, "cancel", work).out == f"{fuse_id} cancelled, on {work}\n"
    assert without_daemon(stage).out.startswith("no fuses are set")
    assert "cancelled by a person" in without_daemon(stage, "--all").out
    assert event_types(stage) == ["fuse.set", "fuse.extended", "fuse.extended", "fuse.cancelled"]


def test_json(stage: DemoStage, work: str) -> None:
    (new,) = without_daemon(stage, "set", work, "--in", "1h", "--stop", "--json").json()["fuses"]
    assert (new["directory"], new["state"], new["actions"]) == (work, "burning", [{"do": "stop"}])
    (listed,) = without_daemon(stage, "list", "--json").json()["fuses"]
    assert listed["id"] == new["id"]
    (longer,) = without_daemon(stage, "extend", new["id"], "--by", "1h", "--json").json()["fuses"]
    assert longer["left_seconds"] > 3600
    (cancelled,) = without_daemon(stage, "cancel", new["id"], "--json").json()["fuses"]
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "cancelled by a person")


def test_several_fuses_are_cancelled_only_with_all(stage: DemoStage, work: str) -> None:
    for _ in range(2):
        without_daemon(stage, "set", work, "--in", "1h", "--stop")
    refused = without_daemon(stage, "cancel", work)
    assert (refused.code, refused.out) == (3, "")
    assert "matches 2 fuses" in refused.err
    assert len(without_daemon(stage, "cancel", work, "--all").lines) == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("light", "."), 2, "unknown command 'fuse light'"),
        (("set",), 2, "DIR|SESSION"),
        (("set", ".", "--stop"), 2, "missing --in DURATION"),
        (("set", ".", "--in", "1m"), 2, "missing action"),
        (("set", ".", "x", "--in", "1m", "--stop"), 2, "x"),
        (("set", ".", "--in", "0", "--stop"), 2, "--in must be more than 0"),
        (("set", "./nosuch", "--in", "1m", "--stop"), 2, "not a directory"),
        (("set", "nosuch", "--in", "1m", "--stop"), 3, "no session 'nosuch'"),
        (("set", ".", "--in", "1m", "--stop", "--by", "1m"), 2, "fuse set takes no --by"),
        (("list", "--in", "1m"), 2, "fuse list takes no --in"),
        (("list", "x"), 2, "x"),
        (("cancel", ".", "--no-daemon"), 2, "fuse cancel takes no --no-daemon"),
        (("cancel", "nosuch"), 3, "no fuse 'nosuch'"),
        (("extend", "."), 2, "missing --by or --in"),
        (("extend", ".", "--in", "1m", "--by", "1m"), 2, "exclude each other"),
    ],
)
def test_wrong_usage(stage: DemoStage, words: tuple[str, ...], code: int, message: str) -> None:
    ran = without_daemon(stage, *words)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_an_unreadable_database_is_not_an_empty_list(stage: DemoStage) -> None:
    state = Path(stage.environ["AGENTCTL_HOME"])
    state.mkdir(parents=True, exist_ok=True)
    (state / "state.db").write_text("no database" * 100)
    ran = without_daemon(stage)
    assert (ran.code, ran.out) == (1, "")
    assert "not a database" in ran.err


def test_set_starts_the_daemon_which_fires_the_fuse(stage: DemoStage, work: str) -> None:
    ran = agentctl_of(stage, "fuse", "set", work, "--in", "0.3s", "--run", "pwd > here")
    assert (ran.code, ran.err) == (0, "")
    until(lambda: "fuse.fired" in event_types(stage), "it fires")
    assert (Path(work) / "here").read_text() == f"{work}\n"
    (row,) = agentctl_of(stage, "fuse", "--all", "--json").json()["fuses"]
    assert (row["state"], row["results"][0]["code"]) == ("fired", 0)


def test_after_a_killed_daemon_the_next_fires_an_overdue_fuse_once(stage: DemoStage, work: str) -> None:
    agentctl_of(stage, "fuse", "set", work, "--in", "1h", "--run", "echo x >> ran")
    kill(daemon_of(stage))
    without_daemon(stage, "extend", work, "--in", "0.01")
    assert "overdue" in without_daemon(stage).out
    assert "fuses fire only while the daemon runs" in without_daemon(stage).err
    daemon_of(stage)
    until(lambda: "fuse.fired" in event_types(stage), "it fires")
    assert (Path(work) / "ran").read_text() == "x\n"


def test_a_session_is_stopped_with_proof(stage: DemoStage, work: str) -> None:
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", work)
    session_id = ran.out.strip()
    agentctl_of(stage, "fuse", "set", session_id[:8], "--in", "0.1", "--stop")
    until(lambda: "fuse.fired" in event_types(stage), "it fires")
    assert stage.survey().sessions == []
    (row,) = without_daemon(stage, "--all", "--json").json()["fuses"]
    (proof,) = row["results"][0]["stopped"]
    assert (proof["id"], proof["survivors"], proof["ended"]) == (session_id, [], 1)


def test_a_timeout_is_listed_and_extended_by_its_session(stage: DemoStage, work: str) -> None:
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", work, "--timeout", "3h")
    session_id = ran.out.strip()
    (row,) = without_daemon(stage, "--json").json()["fuses"]
    assert (row["session_id"], row["label"]) == (session_id, "timeout")
    assert row["launch_id"] is not None
    longer = without_daemon(stage, "extend", session_id[:8], "--by", "1h")
    assert (longer.code, longer.err) == (0, ""), "its shim needs no daemon"
    assert ": in 4h stop" in longer.out
    agentctl_of(stage, "stop", session_id)
    until(lambda: "fuse.cancelled" in event_types(stage), "the timeout is cancelled")
    assert without_daemon(stage).out.startswith("no fuses are set")


def test_a_launch_in_the_directory_cancels_it_as_configured(stage: DemoStage, work: str) -> None:
    without_daemon(stage, "set", work, "--in", "1h", "--stop")
    keep_fuses = {"AGENTCTL_FUSES_ON_LAUNCH": "keep"}
    one = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", work, **keep_fuses)
    assert len(without_daemon(stage, "--json").json()["fuses"]) == 1
    agentctl_of(stage, "stop", one.out.strip())
    agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", work)
    assert without_daemon(stage, "--json").json()["fuses"] == []
    assert "began there" in without_daemon(stage, "--all").out


def test_a_failed_fuse_is_described_in_one_line() -> None:
    set_fuse = Fuse(
        id="4f2a91c0",
        directory="/work",
        adapter=None,
        session_id=None,
        launch_id=None,
        label=None,
        actions=(Action("emit", "x"),),
        created_at=0.0,
        boot="",
        due_elapsed=0.0,
        due_at=0.0,
        state="burning",
    )
    success: dict[str, object] = {"id": "1a", "error": None, "survivors": []}
    refusal = {"id": "2b", "error": "not yours", "survivors": []}
    survival = {"id": None, "error": None, "survivors": [{"pid": 1, "why": "stuck"}]}
    results = (
        {"do": "stop", "ok": False, "stopped": [success, refusal, survival]},
        {"do": "run", "ok": False, "code": 3, "output": "/out"},
        {"do": "run", "ok": False, "code": None, "error": "took longer than 300 s"},
        {"do": "emit", "ok": True},
        None,
    )
    assert fuse.describe_result(set_fuse._replace(state="failed", results=results)) == (
        "stop failed: 2b: not yours, ?: some processes survive; "
        "run failed: exit code 3, see /out; run failed: took longer than 300 s"
    )
    assert fuse.describe_result(set_fuse) == "emit x"
    assert fuse.describe_result(set_fuse._replace(state="cancelled", reason="by hand")) == "by hand"
