"""`agentctl fuse`: set, shown, extended, cancelled, and burned down by the daemon that it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctl import paths
from agentctl.cli import completion
from agentctl.cli.verbs import fuse
from agentctl.state import journal
from tests.daemon.serving import daemon_of
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import Ran, agentctl_of
from tests.waiting import until


def alone(stage: DemoStage, *words: str) -> Ran:
    """Without a daemon."""
    return agentctl_of(stage, "fuse", *words, AGENTCTL_NO_DAEMON="1")


def told(stage: DemoStage) -> list[str]:
    return [e.type for e in journal.after(paths.notes_file(stage.environ["AGENTCTL_HOME"]), 0)]


@pytest.fixture
def work(stage: DemoStage) -> str:
    stage.work.mkdir(parents=True, exist_ok=True)
    return str(stage.work.resolve())


def test_from_set_to_cancelled(stage: DemoStage, work: str) -> None:
    assert alone(stage).out == "no fuse burns; agentctl fuse list --all shows what has\n"
    made = alone(stage, "set", work, "--in", "10m", "--emit", "late", "--label", "tidy")
    assert made.code == 0, made.err
    assert made.out.endswith(f" set, on {work}: in 10m emit late\n")
    assert "nobody burns it down until a daemon runs: agentctl daemon start" in made.err
    fuse_id = made.out.split()[0]
    header, row = alone(stage).lines
    assert header.split() == ["FUSE", "BURNS", "ON", "DOES", "LABEL"]
    assert row.startswith(f"{fuse_id}  in 10m")
    assert row.endswith("emit late  tidy")
    assert ": in 15m emit late" in alone(stage, "extend", work, "--by", "5m").out
    assert ": in 60s emit late" in alone(stage, "extend", fuse_id[:5], "--in", "1m").out
    assert alone(stage, "cancel", work).out == f"{fuse_id} cancelled, on {work}\n"
    assert alone(stage).out.startswith("no fuse burns")
    assert "cancelled by a person" in alone(stage, "--all").out
    assert told(stage) == ["fuse.set", "fuse.extended", "fuse.extended", "fuse.cancelled"]


def test_json(stage: DemoStage, work: str) -> None:
    (made,) = alone(stage, "set", work, "--in", "1h", "--stop", "--json").json()["fuses"]
    assert (made["directory"], made["state"], made["actions"]) == (work, "burning", [{"do": "stop"}])
    (shown,) = alone(stage, "list", "--json").json()["fuses"]
    assert shown["id"] == made["id"]
    (longer,) = alone(stage, "extend", made["id"], "--by", "1h", "--json").json()["fuses"]
    assert longer["left_seconds"] > 3600
    (gone,) = alone(stage, "cancel", made["id"], "--json").json()["fuses"]
    assert (gone["state"], gone["reason"]) == ("cancelled", "cancelled by a person")


def test_several_on_one_directory(stage: DemoStage, work: str) -> None:
    for _ in range(2):
        alone(stage, "set", work, "--in", "1h", "--stop")
    refused = alone(stage, "cancel", work)
    assert (refused.code, refused.out) == (3, "")
    assert "could be 2 fuses" in refused.err
    assert len(alone(stage, "cancel", work, "--all").lines) == 2


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("light", "."), 2, "fuse knows no 'light'"),
        (("set",), 2, "set what?"),
        (("set", ".", "--stop"), 2, "when?"),
        (("set", ".", "--in", "1m"), 2, "a fuse that does nothing"),
        (("set", ".", "x", "--in", "1m", "--stop"), 2, "one at a time"),
        (("set", ".", "--in", "0", "--stop"), 2, "over at once"),
        (("set", "./nosuch", "--in", "1m", "--stop"), 2, "not a directory"),
        (("set", "nosuch", "--in", "1m", "--stop"), 3, "no session 'nosuch'"),
        (("set", ".", "--in", "1m", "--stop", "--by", "1m"), 2, "fuse set takes no --by"),
        (("list", "--in", "1m"), 2, "fuse list takes no --in"),
        (("list", "x"), 2, "fuse list takes no 'x'"),
        (("cancel", ".", "--no-daemon"), 2, "fuse cancel takes no --no-daemon"),
        (("cancel", "nosuch"), 3, "no fuse burns on 'nosuch'"),
        (("extend", "."), 2, "by how much?"),
        (("extend", ".", "--in", "1m", "--by", "1m"), 2, "by how much?"),
    ],
)
def test_words_that_do_not_fit(stage: DemoStage, words: tuple[str, ...], code: int, why: str) -> None:
    ran = alone(stage, *words)
    assert (ran.code, ran.out) == (code, "")
    assert why in ran.err


def test_a_database_that_cannot_be_read_is_no_empty_list(stage: DemoStage) -> None:
    state = Path(stage.environ["AGENTCTL_HOME"])
    state.mkdir(parents=True, exist_ok=True)
    (state / "state.db").write_text("no database" * 100)
    ran = alone(stage)
    assert (ran.code, ran.out) == (1, "")
    assert "not a database" in ran.err


def test_it_starts_the_daemon_which_burns_it_down(stage: DemoStage, work: str) -> None:
    ran = agentctl_of(stage, "fuse", "set", work, "--in", "0.3s", "--run", "pwd > here")
    assert (ran.code, ran.err) == (0, "")
    until(lambda: "fuse.fired" in told(stage), "it fires")
    assert (Path(work) / "here").read_text() == f"{work}\n"
    (shown,) = agentctl_of(stage, "fuse", "--all", "--json").json()["fuses"]
    assert (shown["state"], shown["results"][0]["code"]) == ("fired", 0)


def test_the_daemon_killed_the_next_one_fires_what_is_overdue_once(stage: DemoStage, work: str) -> None:
    agentctl_of(stage, "fuse", "set", work, "--in", "1h", "--run", "echo x >> ran")
    kill(daemon_of(stage))
    alone(stage, "extend", work, "--in", "0.01")
    assert "overdue" in alone(stage).out
    assert "nobody burns it down" in alone(stage).err
    daemon_of(stage)
    until(lambda: "fuse.fired" in told(stage), "it fires")
    assert (Path(work) / "ran").read_text() == "x\n"


def test_a_session_is_ended_with_a_proof(stage: DemoStage, work: str) -> None:
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", work)
    session_id = ran.out.strip()
    agentctl_of(stage, "fuse", "set", session_id[:8], "--in", "0.1", "--stop")
    until(lambda: "fuse.fired" in told(stage), "it fires")
    assert stage.survey().sessions == []
    (shown,) = alone(stage, "--all", "--json").json()["fuses"]
    (proof,) = shown["results"][0]["stopped"]
    assert (proof["id"], proof["survivors"], proof["ended"]) == (session_id, [], 1)


def test_a_timeout_is_listed_and_extended_by_its_session(stage: DemoStage, work: str) -> None:
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", work, "--timeout", "3h")
    session_id = ran.out.strip()
    (shown,) = alone(stage, "--json").json()["fuses"]
    assert (shown["session_id"], shown["label"]) == (session_id, "timeout")
    assert shown["launch_id"] is not None
    longer = alone(stage, "extend", session_id[:8], "--by", "1h")
    assert (longer.code, longer.err) == (0, ""), "its shim needs no daemon"
    assert ": in 4h stop" in longer.out
    agentctl_of(stage, "stop", session_id)
    until(lambda: "fuse.cancelled" in told(stage), "it burns no more")
    assert alone(stage).out.startswith("no fuse burns")


def test_a_launch_in_the_directory_cancels_it_as_configured(stage: DemoStage, work: str) -> None:
    alone(stage, "set", work, "--in", "1h", "--stop")
    kept = {"AGENTCTL_FUSES_ON_LAUNCH": "keep"}
    one = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", work, **kept)
    assert len(alone(stage, "--json").json()["fuses"]) == 1
    agentctl_of(stage, "stop", one.out.strip())
    agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", work)
    assert alone(stage, "--json").json()["fuses"] == []
    assert "began there" in alone(stage, "--all").out


def test_completion_knows_every_deed() -> None:
    assert set(completion.ARGUMENTS["fuse"]) == set(fuse.DEEDS)
