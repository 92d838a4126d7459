"""The law holds for what we launched ourselves: when our notes are deleted or our processes killed, the
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

# What only our notes say. Pi erases its arguments: without a note we cannot tell that it runs headless.
LABELS = ("launch", "entry_point")
# The outcome and exit code of an agent whose parent is gone. We can read the code only while the agent
# is a zombie, until init reaps it.
KILLED = (("killed", None), ("killed", -9))
# What may differ between two true answers, as we looked at different times.
MOMENTS = ("last_activity_at", "evidence", "tokens", "cost_usd")


def launch(stage: Stage, prompt: str, *words: str) -> dict[str, Any]:
    stage.install()
    directory = stage.work / "launched"
    directory.mkdir(exist_ok=True)
    answer = agentctl_json(
        stage, "launch", stage.adapter, "-p", prompt, "--cwd", str(directory), "--name", "mine", *words
    )
    (session,) = answer["sessions"]
    assert session["id"]
    assert session["launch"]["name"] == "mine"
    # an id may be known before the agent writes: an agent killed at that moment has nothing on disk
    until(lambda: _has_written(read_row(stage, session["id"])), "it has written something")
    return read_row(stage, session["id"])


def _has_written(session: dict[str, Any]) -> bool:
    """On a slow machine a short session is over before we look."""
    return bool(session["activity"] != "unknown" or session["status"] == "stopped")


def read_row(stage: Stage, session_id: str) -> dict[str, Any]:
    row: dict[str, Any]
    (row,) = agentctl_json(stage, "status", session_id)["sessions"]
    return row


def select_lasting(session: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in session.items() if key not in (*MOMENTS, *LABELS)}


def find_shims(stage: Stage) -> list[Process]:
    return [process for process in stage.processes() if process.comm == "agentctl-shim"]


def find_owner(stage: Stage, session: dict[str, Any]) -> Process:
    return next(p for p in stage.processes() if p.pid == session["pid"])


def state_directory(stage: Stage) -> Path:
    return Path(stage.environ["AGENTCTL_HOME"])


def wait_until_stopped(stage: Stage, session_id: str) -> dict[str, Any]:
    until(lambda: read_row(stage, session_id)["status"] == "stopped", "it has stopped")
    return read_row(stage, session_id)


def test_launch_and_list_agree(stage: Stage) -> None:
    session = launch(stage, "work 600")
    (listed,) = agentctl_json(stage, "list")["sessions"]
    assert select_lasting(listed) == select_lasting(read_row(stage, session["id"]))
    assert (listed["id"], listed["status"]) == (session["id"], "running")


def test_without_our_state_only_labels_are_lost(stage: Stage) -> None:
    session = launch(stage, "work 600")
    before = read_row(stage, session["id"])
    shutil.rmtree(state_directory(stage))
    after = read_row(stage, session["id"])
    assert select_lasting(after) == select_lasting(before)
    assert after["launch"] is None
    kill(find_owner(stage, session).identity)
    until(lambda: find_shims(stage) == [], "the shim has nothing left to do")
    final = read_row(stage, session["id"])
    assert (final["status"], final["outcome"], final["exit_code"]) == ("stopped", "killed", None)
    assert not (state_directory(stage) / "launches").exists()  # nothing comes back


def test_the_exit_code_is_recorded(stage: Stage) -> None:
    session = launch(stage, "work 1, exit 3")
    final = wait_until_stopped(stage, session["id"])
    assert (final["outcome"], final["exit_code"]) == ("failed", 3)


def test_a_killed_agent_has_its_exit_code(stage: Stage) -> None:
    session = launch(stage, "work 600")
    kill(find_owner(stage, session).identity)
    final = wait_until_stopped(stage, session["id"])
    assert final["outcome"] == "killed"
    until(lambda: read_row(stage, session["id"])["exit_code"] in (-9, 137), "its code is noted")


def test_an_agent_without_its_shim_lives_on(stage: Stage) -> None:
    """Its exit code is then unknown: never 0."""
    session = launch(stage, "work 600")
    before = read_row(stage, session["id"])
    for shim in find_shims(stage):
        kill(shim.identity)
    assert select_lasting(read_row(stage, session["id"])) == select_lasting(before)
    kill(find_owner(stage, session).identity)
    final = wait_until_stopped(stage, session["id"])
    assert (final["outcome"], final["exit_code"]) in KILLED


def test_an_agent_killed_with_its_shim_is_killed(stage: Stage) -> None:
    session = launch(stage, "work 600")
    for process in (*find_shims(stage), find_owner(stage, session)):
        kill(process.identity)
    final = wait_until_stopped(stage, session["id"])
    assert (final["outcome"], final["exit_code"]) in KILLED
    assert agentctl_json(stage, "list")["sessions"] == []


def test_an_exit_code_is_not_trusted_for_a_later_owner(stage: Stage) -> None:
    """Another process goes on with the session: our exit code says nothing about that one."""
    session = launch(stage, "work 1, exit 3")
    wait_until_stopped(stage, session["id"])
    until(lambda: find_shims(stage) == [], "the finishing work is done")
    puppet = stage.start(stage.work / "launched", resume=session["id"])
    puppet.do("work")
    puppet.do("rest")
    puppet.finish()
    after = read_row(stage, session["id"])
    assert (after["outcome"], after["exit_code"]) == ("completed", None)
    assert [e["trusted"] for e in after["evidence"] if e["claim"] == "exited"] == [False]


def test_a_launch_in_another_pid_namespace_is_unknown(stage: Stage) -> None:
    """As in a container that shares our home: not to see its process proves nothing."""
    session = launch(stage, "work 600")
    kill(find_owner(stage, session).identity)
    wait_until_stopped(stage, session["id"])
    until(lambda: find_shims(stage) == [], "the finishing work is done")
    notes = f"{state_directory(stage)}/state.db"
    (note,) = launches.read_launches(notes)
    for path in (state_directory(stage) / "launches").glob("*/exit"):
        path.unlink()
    elsewhere = note._replace(exit=None, namespace="pid:[1]")
    launch_writes.forget_launches(notes, [note.id])
    launch_writes.begin_launch(notes, elsewhere)
    after = read_row(stage, session["id"])
    assert (after["status"], after["outcome"]) == ("unknown", None)
    assert "another pid namespace" in after["reason"]
    launch_writes.begin_launch(
        notes, elsewhere._replace(identity=note.identity._replace(boot="another")), force=True
    )
    assert read_row(stage, session["id"])["status"] == "stopped"  # no process outlives a boot


@pytest.mark.few(2)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", ["elsewhere", "launched"])
def test_the_outcome_is_known_beside_an_idle_agent(stage: Stage, when: str, where: str) -> None:
    """By its own files alone, an agent at its prompt may run any ended session. Not one whose end
    our shim recorded."""
    if when == "before":
        stage.start(stage.work / where)
    session = launch(stage, "work 1, exit 0")
    if when == "after":
        stage.start(stage.work / where)
    final = wait_until_stopped(stage, session["id"])
    assert (final["outcome"], final["exit_code"]) == ("completed", 0)
    pieces = [each for each in final["evidence"] if each["claim"] == "ended"]
    assert [(each["authority"], each["decided"]) for each in pieces] == [("kernel", True)]
    assert f"launch:{final['launch']['id']}" in pieces[0]["note"]
    waited = agentctl_of(stage, "wait", session["id"])
    assert (waited.code, "completed, exit code 0" in waited.out) == (0, True), waited


def test_stop_and_status_agree_beside_an_idle_agent(stage: Stage) -> None:
    stage.start(stage.work / "elsewhere")
    session = launch(stage, "work 600")
    stop = agentctl_of(stage, "stop", session["id"])
    assert stop.code == 0, stop
    final = read_row(stage, session["id"])
    assert final["exit_code"] is not None
    assert f"stopped ({final['outcome']}, " in stop.out


def test_a_session_without_files_is_listed_from_its_launch_note(stage: Stage) -> None:
    """As with a Pi that dies in its first turn, or a deleted transcript."""
    session = launch(stage, "work 1, exit 3", "--group", "night")
    wait_until_stopped(stage, session["id"])
    until(lambda: find_shims(stage) == [], "the finishing work is done")
    shutil.rmtree(stage.home)
    stage.home.mkdir()
    final = read_row(stage, session["id"])
    assert (final["status"], final["outcome"], final["exit_code"]) == ("stopped", "failed", 3)
    assert (final["prompt"], final["cwd"]) == ("work 1, exit 3", session["cwd"])
    assert (final["launch"]["name"], final["launch"]["group"]) == ("mine", "night")
    assert [each["claim"] for each in final["evidence"]] == ["ended", "exited"]
    assert agentctl_json(stage, "list", "-a")["sessions"] == [final]
    assert agentctl_json(stage, "list", "-a", "--since", "1h")["sessions"] == [final]
    assert agentctl_json(stage, "list")["sessions"] == []
    (compared,) = agentctl_json(stage, "compare", "night")["slots"]
    assert (compared["id"], compared["outcome"], compared["exit_code"]) == (session["id"], "failed", 3)
    assert agentctl_of(stage, "wait", session["id"]).code == 1
    assert agentctl_of(stage, "wait", "--group", "night").code == 1
    assert "had stopped already (failed, exit code 3)" in agentctl_of(stage, "stop", session["id"]).out
    shutil.rmtree(state_directory(stage))
    assert agentctl_json(stage, "list", "-a")["sessions"] == []


def test_a_session_without_files_and_shim_has_an_unknown_outcome(stage: Stage) -> None:
    session = launch(stage, "work 600")
    process = find_owner(stage, session)
    for each in (*find_shims(stage), process):
        kill(each.identity)
    until(lambda: process.pid not in {p.pid for p in stage.processes()}, "it has ended")
    shutil.rmtree(stage.home)
    stage.home.mkdir()
    final = read_row(stage, session["id"])
    assert (final["status"], final["outcome"], final["exit_code"]) == ("stopped", "unknown", None)
    (piece,) = final["evidence"]
    assert (piece["claim"], piece["address"]) == ("ended", process.identity.address)


@pytest.mark.parametrize("version", ["", "0.73"])
def test_without_our_state_a_session_keeps_its_id_and_directory(stage: Stage, version: str) -> None:
    """Its shim names the session. Nothing else does for a Pi before 0.99, without a file in turn one."""
    if version and stage.adapter != "pi":
        pytest.skip(f"{stage.adapter} has a file from the start")
    stage.environ["PUPPET_PI"] = version
    agents = Launched(stage)
    session_id = agents.launch("work 600")
    before = agents.read_session(session_id)
    shutil.rmtree(state_directory(stage))
    after = agents.read_session(session_id)
    assert (after["pid"], after["status"]) == (before["pid"], "running")
    assert after["launch"] is None
    assert [each["id"] for each in agentctl_json(stage, "list")["sessions"]] == [session_id]
    second = agents.try_to_launch("work 600")
    assert (second.code, session_id in second.err) == (4, True), second
    (lock,) = agentctl_json(stage, "locks")["locks"]
    assert (lock["directory"], lock["session_id"]) == (str(stage.work), session_id)
    assert agents.call("unlock", "--force", str(stage.work)).code == 4
    other = agents.launch("work 600", "--force")
    assert agents.read_session(session_id)["pid"] == before["pid"]
    assert agents.read_session(other)["pid"] != before["pid"]
    stop = agents.call("stop", session_id, other)
    assert (stop.code, stop.out.count(" ended, 0 survivors")) == (0, 2), stop
    assert agentctl_json(stage, "locks")["locks"] == []


@pytest.mark.parametrize("notes", ["kept", "lost"])
def test_a_child_of_the_agent_is_not_the_launched_session(stage: Stage, notes: str) -> None:
    """An agent may start another of its kind. All processes below it have its shim as an ancestor."""
    agents = Launched(stage)
    session_id = agents.launch("tool, work 600")
    agents.runs_a_tool()
    look = Look.take(stage.environ).scope_to(stage.adapter)
    if notes == "kept":
        look.notes = {
            n.identity: n for n in launches.read_launches(f"{state_directory(stage)}/state.db")
        }
    (tool,), agent = agents.tools(), agents.owner(session_id)
    look.own_processes = (look.table[agent.pid], look.table[tool.pid])
    assert [(tie.session_id, tie.process.pid) for tie in look.find_launch_ties()] == [
        (session_id, agent.pid)
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("notes", ["kept", "lost"])
@pytest.mark.parametrize("way", ["exec", "call"])
def test_an_agent_behind_a_renamed_wrapper_is_the_launched_session(
    stage: Stage, way: str, notes: str
) -> None:
    """The agent is the process that we started or a child of it, whatever its program is called."""
    interpreter = stage.rename_interpreter("elsewhere", "another-name")
    stage.rename_interpreter = lambda *_: interpreter  # type: ignore[method-assign]
    program = stage.install()
    if way == "call":
        program.write_text(program.read_text().replace("\nexec ", "\n") + "exit $?\n")
    agents = Launched.__new__(Launched)
    agents.stage = stage
    session_id = agents.launch("work 600")
    before = agents.read_session(session_id)
    assert before["status"] == "running"
    if notes == "lost":
        shutil.rmtree(state_directory(stage))
    assert [each["id"] for each in agentctl_json(stage, "list")["sessions"]] == [session_id]
    assert agents.read_session(session_id)["pid"] == before["pid"]
    stop = agents.call("stop", session_id)
    assert (stop.code, " 0 survivors" in stop.out) == (0, True), stop
    until(lambda: not [p for p in stage.processes() if p.comm != "agentctl-shim"], "all are gone")
