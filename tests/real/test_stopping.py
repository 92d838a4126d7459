"""What `stop` promises, on the real agent that this run is about: the room is empty afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentctl.system import proc
from agentctl.system.proc import Process
from tests.fakes.containers import UNSHARE
from tests.fakes.doomed import alive
from tests.real.actor import PATIENCE, make_prompt
from tests.real.desk import Desk
from tests.real.errand import Errand
from tests.running import SOURCES
from tests.waiting import until


def test_stopped_while_the_model_speaks(desk: Desk) -> None:
    launched = desk.launches("[[gate=%]] count")
    desk.wait_for_gate(launched)
    [planned] = desk.agentctl("stop", launched.id, "--dry-run", "--json").json()["planned"]
    assert planned["pid"] == desk.process(launched.id).pid  # it has got no signal yet
    ran = desk.agentctl("stop", launched.id, "--json")
    assert ran.code == 0, ran
    [proof] = ran.json()["stopped"]
    assert (proof["id"], proof["already"], proof["survivors"]) == (launched.id, False, [])
    assert proof["ended"] >= 1
    desk.check_room_is_empty()
    if not desk.facts.late:  # else it has written nothing, and there is no session
        assert desk.row(launched.id)["outcome"] == desk.facts.endings["stop"][0]


def test_stopped_while_a_command_runs(desk: Desk) -> None:
    """Two commands, one in a session of its own: both are ended. A second stop is no error."""
    errand, detached = desk.lab.errand(desk.work), desk.lab.errand(desk.work)
    command = f"setsid {detached.command} & {errand.command}"
    launched = desk.launches(f"[[tool={command}]] work")
    errand.has_begun()
    detached.has_begun()
    ran = desk.agentctl("stop", launched.id)
    assert ran.code == 0, ran
    outcome, _ = desk.facts.endings["stop"]
    assert ran.lines[0].startswith(f"{launched.id} stopped ({outcome}")
    assert "0 survivors" in ran.lines[0]
    assert not errand.runs
    assert not detached.runs
    desk.check_room_is_empty()
    again = desk.agentctl("stop", launched.id)
    assert again.code == 0
    assert again.lines == [f"{launched.id} had stopped already ({_how(ran.lines[0])})"]


def test_stopped_from_its_own_shell(desk: Desk) -> None:
    """The agent ends its commands, our stop among them: it survives that, and proves the stop."""
    errand, proof = desk.lab.errand(desk.work), desk.work / "proof"
    script = desk.work / "stop.sh"
    call = f"PYTHONPATH={SOURCES} exec {sys.executable} -m agentctl stop $(cat id) >proof"
    script.write_text(f"{errand.command}\n{call}\n")  # as a shell runs its last command
    launched = desk.launches("[[tool=sh stop.sh]] work")
    errand.has_begun()
    (desk.work / "id").write_text(launched.id)
    errand.finish()
    until(lambda: proof.exists() and "survivors" in proof.read_text(), "it is proven", PATIENCE)
    assert "0 survivors" in proof.read_text()
    desk.check_room_is_empty()
    row = desk.row(launched.id)
    assert (row["outcome"], row["exit_code"]) == desk.facts.endings["stop"]


def test_stopped_at_its_prompt_if_a_person_started_it(desk: Desk) -> None:
    actor = desk.lab.tui(cwd=desk.lab.work)
    actor.says("[[say=hello]]")
    actor.heard("answered")
    until(lambda: actor.who().session_id is not None, "it has written its session", PATIENCE)
    assert (
        desk.agentctl("wait", f"pid:{actor.process.pid}", "--for", "idle", "--timeout", "60s").code == 0
    )
    session_id = actor.who().session_id
    assert session_id is not None
    ran = desk.agentctl("stop", session_id)
    assert ran.code == 0, ran
    assert "0 survivors" in ran.lines[0]
    desk.check_room_is_empty(but="tmux")
    assert desk.row(session_id)["status"] == "stopped"


def test_stopped_beside_another_in_a_container_of_its_own(desk: Desk) -> None:
    """Both are process 1 in their container, and their commands name them by that number."""
    if desk.adapter != "opencode":
        pytest.skip("the commands of this agent know it by more than its pid")
    with _start_contained(desk) as (agent, errand), _start_contained(desk) as (neighbour, its_errand):
        assert agent.read_inner_pid() == neighbour.read_inner_pid() == 1
        ran = desk.agentctl("stop", f"pid:{agent.pid}")
        assert ran.code == 0, ran
        assert "0 survivors" in ran.out
        assert not alive(agent)
        assert not errand.runs
        assert alive(neighbour)
        assert its_errand.runs


@contextmanager
def _start_contained(desk: Desk) -> Iterator[tuple[Process, Errand]]:
    """A headless agent as process 1 of a container, once its command runs."""
    errand = desk.lab.errand(desk.work)
    _, prompt = make_prompt(f"[[tool={errand.command}]] work")
    process = subprocess.Popen(
        [*UNSHARE, desk.lab.program, *desk.lab.recipe.headless(prompt)],
        env={**desk.lab.environ, "PWD": str(desk.work)},
        cwd=desk.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        errand.has_begun()
        [agent] = [each for each in proc.read_table().values() if each.parent == process.pid]
        yield agent, errand
    finally:
        process.kill()
        process.wait()


def _how(line: str) -> str:
    return line.partition("(")[2].partition(")")[0]
