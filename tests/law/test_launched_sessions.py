"""The law holds for what we launched ourselves: our notes may be deleted, our processes killed, and the
answer stays true. Each agent is launched by the real command line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from agentctl.store import launches, ledger
from agentctl.testing import Stage
from agentctl.truth.procfs import Process
from tests.ending import kill
from tests.law.asking import agentctl_json
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
    ledger.forget(notes, [note.id])
    ledger.begin(notes, elsewhere)
    after = row(stage, session["id"])
    assert (after["status"], after["outcome"]) == ("unknown", None)
    assert "another pid namespace" in after["reason"]
    ledger.begin(notes, elsewhere._replace(identity=note.identity._replace(boot="another")), force=True)
    assert row(stage, session["id"])["status"] == "stopped"  # no process outlives a boot
