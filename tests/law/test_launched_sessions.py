"""The law holds for what we launched ourselves: our notes may be deleted, our processes killed, and the
answer stays true. Each agent is launched by the real command line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from agentctl.state import launch_writes, launches
from agentctl.system.proc import Process
from agentctl.testing import Stage
from agentctl.truth.look import Look
from tests.ending import kill
from tests.launched import Launched
from tests.law.asking import agentctl_json
from tests.running import agentctl_of
from tests.waiting import until

# What our notes alone know. Pi erases its arguments: that it runs headless is known by our having
# started it so.
LABELS = ("launch", "entry_point")
# How it ended when nobody was left to wait for it. The code is known only where the first of all
# processes has not reaped it yet: a zombie tells.
KILLED = (("killed", None), ("killed", -9))
# What may differ between two true answers: when we looked.
MOMENTS = ("last_activity_at", "evidence", "tokens", "cost_usd")


def launched(stage: Stage, prompt: str, *words: str) -> dict[str, Any]:
    stage.install()
    directory = stage.work / "launched"
    directory.mkdir(exist_ok=True)
    answer = agentctl_json(
        stage, "launch", stage.adapter, "-p", prompt, "--cwd", str(directory), "--name", "mine", *words
    )
    (session,) = answer["sessions"]
    assert session["id"]
    assert session["launch"]["name"] == "mine"
    # an id may be known before a word is written; killed at that moment, nothing of it is on disk
    until(lambda: _has_written(row(stage, session["id"])), "it has written something")
    return row(stage, session["id"])


def _has_written(session: dict[str, Any]) -> bool:
    """On a slow machine a short one is over before anybody looks."""
    return bool(session["activity"] != "unknown" or session["status"] == "stopped")


def row(stage: Stage, session_id: str) -> dict[str, Any]:
    (session,) = agentctl_json(stage, "status", session_id)["sessions"]
    told: dict[str, Any] = session
    return told


def lasting(session: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in session.items() if key not in (*MOMENTS, *LABELS)}


def shims(stage: Stage) -> list[Process]:
    return [process for process in stage.processes() if process.comm == "agentctl-shim"]


def owner(stage: Stage, session: dict[str, Any]) -> Process:
    return next(p for p in stage.processes() if p.pid == session["pid"])


def state(stage: Stage) -> Path:
    return Path(stage.environ["AGENTCTL_HOME"])


def until_stopped(stage: Stage, session_id: str) -> dict[str, Any]:
    until(lambda: row(stage, session_id)["status"] == "stopped", "it has stopped")
    return row(stage, session_id)


def test_what_launch_says_is_what_list_says(stage: Stage) -> None:
    session = launched(stage, "work 600")
    (listed,) = agentctl_json(stage, "list")["sessions"]
    assert lasting(listed) == lasting(row(stage, session["id"]))
    assert (listed["id"], listed["status"]) == (session["id"], "running")


def test_without_our_state_only_labels_are_gone(stage: Stage) -> None:
    session = launched(stage, "work 600")
    before = row(stage, session["id"])
    shutil.rmtree(state(stage))
    after = row(stage, session["id"])
    assert lasting(after) == lasting(before)
    assert after["launch"] is None
    kill(owner(stage, session).identity)
    until(lambda: shims(stage) == [], "the shim has nothing left to do")
    ended = row(stage, session["id"])
    assert (ended["status"], ended["outcome"], ended["exit_code"]) == ("stopped", "killed", None)
    assert not (state(stage) / "launches").exists()  # nothing comes back


def test_the_exit_code_is_owned(stage: Stage) -> None:
    session = launched(stage, "work 1, exit 3")
    ended = until_stopped(stage, session["id"])
    assert (ended["outcome"], ended["exit_code"]) == ("failed", 3)


def test_the_agent_killed(stage: Stage) -> None:
    session = launched(stage, "work 600")
    kill(owner(stage, session).identity)
    ended = until_stopped(stage, session["id"])
    assert ended["outcome"] == "killed"
    until(lambda: row(stage, session["id"])["exit_code"] in (-9, 137), "its code is noted")


def test_the_shim_killed(stage: Stage) -> None:
    """The agent lives on, and how it ends is then not known: never 0."""
    session = launched(stage, "work 600")
    before = row(stage, session["id"])
    for shim in shims(stage):
        kill(shim.identity)
    assert lasting(row(stage, session["id"])) == lasting(before)
    kill(owner(stage, session).identity)
    ended = until_stopped(stage, session["id"])
    assert (ended["outcome"], ended["exit_code"]) in KILLED


def test_everything_killed(stage: Stage) -> None:
    session = launched(stage, "work 600")
    for process in (*shims(stage), owner(stage, session)):
        kill(process.identity)
    ended = until_stopped(stage, session["id"])
    assert (ended["outcome"], ended["exit_code"]) in KILLED
    assert agentctl_json(stage, "list")["sessions"] == []


def test_an_exit_code_is_not_believed_of_a_later_owner(stage: Stage) -> None:
    """Somebody else goes on with the session: how our process ended is no word on theirs."""
    session = launched(stage, "work 1, exit 3")
    until_stopped(stage, session["id"])
    until(lambda: shims(stage) == [], "the finishing work is done")
    puppet = stage.start(stage.work / "launched", resume=session["id"])
    puppet.do("work")
    puppet.do("rest")
    puppet.finish()
    after = row(stage, session["id"])
    assert (after["outcome"], after["exit_code"]) == ("completed", None)
    assert [e["trusted"] for e in after["evidence"] if e["claim"] == "exited"] == [False]


def test_launched_where_we_cannot_look_it_is_not_called_dead(stage: Stage) -> None:
    """In a container that shares our home: not seeing its process proves nothing."""
    session = launched(stage, "work 600")
    kill(owner(stage, session).identity)
    until_stopped(stage, session["id"])
    until(lambda: shims(stage) == [], "the finishing work is done")
    notes = f"{state(stage)}/state.db"
    (note,) = launches.recorded(notes)
    for path in (state(stage) / "launches").glob("*/exit"):
        path.unlink()
    elsewhere = note._replace(ended=None, namespace="pid:[1]")
    launch_writes.forget(notes, [note.id])
    launch_writes.begin(notes, elsewhere)
    after = row(stage, session["id"])
    assert (after["status"], after["outcome"]) == ("unknown", None)
    assert "another pid namespace" in after["reason"]
    launch_writes.begin(
        notes, elsewhere._replace(identity=note.identity._replace(boot="another")), force=True
    )
    assert row(stage, session["id"])["status"] == "stopped"  # no process outlives a boot


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", ["elsewhere", "launched"])
def test_how_it_ended_is_known_whatever_else_runs(stage: Stage, when: str, where: str) -> None:
    """An agent that sits at its prompt may run any ended session, as far as its own files tell. Not the
    one whose end our shim recorded."""
    if when == "before":
        stage.start(stage.work / where)
    session = launched(stage, "work 1, exit 0")
    if when == "after":
        stage.start(stage.work / where)
    ended = until_stopped(stage, session["id"])
    assert (ended["outcome"], ended["exit_code"]) == ("completed", 0)
    told = [each for each in ended["evidence"] if each["claim"] == "ended"]
    assert [(each["authority"], each["decided"]) for each in told] == [("kernel", True)]
    assert f"launch:{ended['launch']['id']}" in told[0]["note"]
    waited = agentctl_of(stage, "wait", session["id"])
    assert (waited.code, "completed, exit code 0" in waited.out) == (0, True), waited


def test_a_stop_answers_what_list_answers_beside_an_idle_agent(stage: Stage) -> None:
    stage.start(stage.work / "elsewhere")
    session = launched(stage, "work 600")
    stopped = agentctl_of(stage, "stop", session["id"])
    assert stopped.code == 0, stopped
    ended = row(stage, session["id"])
    assert ended["exit_code"] is not None
    assert f"stopped ({ended['outcome']}, " in stopped.out


def test_without_any_file_its_note_is_the_row(stage: Stage) -> None:
    """As of a Pi that dies in its first turn, or where somebody deleted the transcript."""
    session = launched(stage, "work 1, exit 3", "--group", "night")
    until_stopped(stage, session["id"])
    until(lambda: shims(stage) == [], "the finishing work is done")
    shutil.rmtree(stage.home)
    stage.home.mkdir()
    ended = row(stage, session["id"])
    assert (ended["status"], ended["outcome"], ended["exit_code"]) == ("stopped", "failed", 3)
    assert (ended["prompt"], ended["cwd"]) == ("work 1, exit 3", session["cwd"])
    assert (ended["launch"]["name"], ended["launch"]["group"]) == ("mine", "night")
    assert [each["claim"] for each in ended["evidence"]] == ["ended", "exited"]
    assert agentctl_json(stage, "list", "-a")["sessions"] == [ended]
    assert agentctl_json(stage, "list", "-a", "--since", "1h")["sessions"] == [ended]
    assert agentctl_json(stage, "list")["sessions"] == []
    (compared,) = agentctl_json(stage, "compare", "night")["slots"]
    assert (compared["id"], compared["outcome"], compared["exit_code"]) == (session["id"], "failed", 3)
    assert agentctl_of(stage, "wait", session["id"]).code == 1
    assert agentctl_of(stage, "wait", "--group", "night").code == 1
    assert "had stopped already (failed, exit code 3)" in agentctl_of(stage, "stop", session["id"]).out
    shutil.rmtree(state(stage))
    assert agentctl_json(stage, "list", "-a")["sessions"] == []


def test_without_any_file_and_without_a_shim_only_that_it_ended_is_known(stage: Stage) -> None:
    session = launched(stage, "work 600")
    process = owner(stage, session)
    for each in (*shims(stage), process):
        kill(each.identity)
    until(lambda: process.pid not in {p.pid for p in stage.processes()}, "it has ended")
    shutil.rmtree(stage.home)
    stage.home.mkdir()
    ended = row(stage, session["id"])
    assert (ended["status"], ended["outcome"], ended["exit_code"]) == ("stopped", "unknown", None)
    (told,) = ended["evidence"]
    assert (told["claim"], told["address"]) == ("ended", process.identity.address)


@pytest.mark.parametrize("version", ["", "0.73"])
def test_without_our_state_it_keeps_its_id_and_its_directory(stage: Stage, version: str) -> None:
    """Its shim tells which session it is. A Pi of before 0.99 has no file in its first turn, and nothing
    else tells."""
    if version and stage.adapter != "pi":
        pytest.skip(f"{stage.adapter} has a file from the start")
    stage.environ["PUPPET_PI"] = version
    agents = Launched(stage)
    session_id = agents.launch("work 600")
    before = agents.told(session_id)
    shutil.rmtree(state(stage))
    after = agents.told(session_id)
    assert (after["pid"], after["status"]) == (before["pid"], "running")
    assert after["launch"] is None
    assert [each["id"] for each in agentctl_json(stage, "list")["sessions"]] == [session_id]
    refused = agents.try_to_launch("work 600")
    assert (refused.code, session_id in refused.err) == (4, True), refused
    (lock,) = agentctl_json(stage, "locks")["locks"]
    assert (lock["directory"], lock["session_id"]) == (str(stage.work), session_id)
    assert agents.call("unlock", "--force", str(stage.work)).code == 4
    other = agents.launch("work 600", "--force")
    assert agents.told(session_id)["pid"] == before["pid"]
    assert agents.told(other)["pid"] != before["pid"]
    stopped = agents.call("stop", session_id, other)
    assert (stopped.code, stopped.out.count(" ended, 0 survivors")) == (0, 2), stopped
    assert agentctl_json(stage, "locks")["locks"] == []


@pytest.mark.parametrize("notes", ["kept", "lost"])
def test_what_it_starts_is_not_the_session_that_was_launched(stage: Stage, notes: str) -> None:
    """As one that starts another of its kind. All that is below it has its shim for an ancestor."""
    agents = Launched(stage)
    session_id = agents.launch("tool, work 600")
    agents.runs_a_tool()
    look = Look.take(stage.environ).scoped(stage.adapter)
    if notes == "kept":
        look.notes = {n.identity: n for n in launches.recorded(f"{state(stage)}/state.db")}
    (tool,), agent = agents.tools(), agents.owner(session_id)
    look.owned = (look.table[agent.pid], look.table[tool.pid])
    assert [(tie.session_id, tie.process.pid) for tie in look.noted()] == [(session_id, agent.pid)]


@pytest.mark.parametrize("notes", ["kept", "lost"])
@pytest.mark.parametrize("way", ["exec", "call"])
def test_through_a_wrapper_under_another_name(stage: Stage, way: str, notes: str) -> None:
    """The agent is what we started, and what that runs, whatever its program is called."""
    interpreter = stage.masked("elsewhere", "another-name")
    stage.masked = lambda *_: interpreter  # type: ignore[method-assign]
    program = stage.install()
    if way == "call":
        program.write_text(program.read_text().replace("\nexec ", "\n") + "exit $?\n")
    agents = Launched.__new__(Launched)
    agents.stage = stage
    session_id = agents.launch("work 600")
    told = agents.told(session_id)
    assert told["status"] == "running"
    if notes == "lost":
        shutil.rmtree(state(stage))
    assert [each["id"] for each in agentctl_json(stage, "list")["sessions"]] == [session_id]
    assert agents.told(session_id)["pid"] == told["pid"]
    stopped = agents.call("stop", session_id)
    assert (stopped.code, " 0 survivors" in stopped.out) == (0, True), stopped
    until(lambda: not [p for p in stage.processes() if p.comm != "agentctl-shim"], "all are gone")
