"""What `launch` promises, on the real agent that this run is about."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentctl.adapters.environment import marker_names
from agentctl.rehearsal import recipe
from tests.real.actor import PATIENCE, make_prompt
from tests.real.desk import AT_ONCE, Desk, Launch
from tests.real.facts import facts_of
from tests.real.pins import chosen
from tests.real.tmux import Terminal
from tests.running import SOURCES, Ran
from tests.waiting import until

PIN = chosen()
FAILING = facts_of(PIN).failing if PIN else {}
PLANTED = "planted"
LINE = "the quick brown fox jumps over the lazy dog, and so on\n"
BIG = 200 * 1024


def test_launch_prints_the_agents_own_id_and_lists_it(desk: Desk) -> None:
    launched = desk.launches("[[gate=%]] count", "--name", "checkout")
    [row] = desk.agentctl("list", "--json").json()["sessions"]
    assert (row["id"], row["status"], row["adapter"]) == (launched.id, "running", desk.adapter)
    assert (row["cwd"], row["launch"]["name"]) == (str(desk.work), "checkout")
    desk.wait_for_gate(launched)
    desk.opens(launched)
    assert desk.agentctl("wait", launched.id).code == 0
    assert desk.native_id(launched) == launched.id
    desk.check_room_is_empty()


def test_launch_with_json_cwd_model_and_wait(desk: Desk) -> None:
    """All at once, from elsewhere: the id, where it worked, on which model, and how it ended."""
    elsewhere = desk.directory()
    mark, prompt = make_prompt("[[tool=pwd -P > where]] [[say=done]]")
    ran = desk.agentctl(
        *("launch", desk.adapter, "-p", prompt, "--json", "--wait", "--cwd", str(elsewhere)),
        *("--model", desk.facts.model, *desk.facts.unasked),
    )
    assert ran.code == 0, ran.err
    [row] = ran.json()["sessions"]
    assert row["id"] == desk.native_id(Launch("", mark))
    assert (row["status"], row["outcome"], row["exit_code"]) == ("stopped", "completed", 0)
    assert (elsewhere / "where").read_text() == f"{elsewhere}\n"
    assert row["model"].rpartition("/")[2] == desk.facts.model.rpartition("/")[2]


@pytest.mark.parametrize("through", ["a file", "standard input"])
def test_a_prompt_of_200_kb_arrives_whole(desk: Desk, through: str) -> None:
    """The model obeys the last words of the prompt, so it has all of it."""
    mark, prompt = make_prompt(f"{LINE * (BIG // len(LINE) + 1)}[[say=end of %]]")
    file = desk.work / "task.md"
    file.write_text(prompt)
    source = ("-",) if through == "standard input" else ("--prompt-file", str(file))
    ran = desk.agentctl(
        "launch", desk.adapter, *source, "--wait", stdin=prompt if source == ("-",) else ""
    )
    assert ran.code == 0, ran.err
    assert desk.native_id(Launch("", mark)) == ran.lines[0]
    messages = desk.agentctl("peek", ran.lines[0], "-n", "2", "--json").json()["messages"]
    assert f"end of {mark}" in messages[-1]["text"]
    logs = desk.agentctl("logs", ran.lines[0], "--json").out
    assert logs.count(LINE.strip()) == prompt.count(LINE.strip())


def test_a_group_of_the_same_agent_side_by_side(desk: Desk) -> None:
    mark, prompt = make_prompt("[[gate=%]] count")
    group, ran = _pair(desk, prompt)
    rows = ran.json()["sessions"]
    assert len({row["id"] for row in rows}) == 2
    assert len({row["cwd"] for row in rows} - {str(desk.work)}) == 2
    living = desk.agentctl("list", "--json").json()["sessions"]
    assert {row["id"] for row in living} == {row["id"] for row in rows}
    assert {row["status"] for row in living} == {"running"}
    desk.lab.model.open(mark)
    waited = desk.agentctl("wait", "--group", group)
    assert (waited.code, len(waited.lines)) == (0, 2), waited
    stopped = desk.agentctl("stop", "--group", group)
    assert (stopped.code, stopped.out.count("had stopped already")) == (0, 2), stopped
    desk.check_room_is_empty()


def _pair(desk: Desk, prompt: str) -> tuple[str, Ran]:
    """Launch a pair; again where the agent says that the other one was in its way."""
    slots = ("--adapter", desk.adapter) * 2
    words = ("--worktree", str(desk.work), "--json", *desk.facts.unasked, "-p", prompt)
    for group in ("pair", "again", "thrice"):
        ran = desk.agentctl("launch", *slots, *words, "--group", group, environ=AT_ONCE)
        collided = desk.facts.collides is not None and desk.facts.collides in ran.err
        if ran.code == 0 or not collided:
            break
        desk.agentctl("stop", "--group", group)
    assert ran.code == 0, ran.err
    return group, ran


def test_it_outlives_the_terminal_that_it_was_launched_from(desk: Desk) -> None:
    mark, prompt = make_prompt("[[gate=%]] count")
    environ = {**desk.lab.environ, "PYTHONPATH": SOURCES}
    words = [sys.executable, "-m", "agentctl", "launch", desk.adapter, "-p", prompt, "--wait"]
    terminal = Terminal(desk.lab.root / "tmux", words, environ, str(desk.work))
    desk.wait_for_gate(Launch("", mark))
    [row] = desk.agentctl("list", "--json").json()["sessions"]
    terminal.shows(row["id"])
    terminal.close()
    desk.lab.model.open(mark)
    ran = desk.agentctl("wait", row["id"])
    assert ran.lines == [f"{row['id']} stopped (completed, exit code 0)"], ran
    assert desk.native_id(Launch("", mark)) == row["id"]


@pytest.mark.parametrize("why", FAILING)
def test_a_start_that_fails_shows_the_agents_message(desk: Desk, why: str) -> None:
    case, before = FAILING[why], desk.launch_folders()
    ran = desk.agentctl("launch", desk.adapter, "-p", "hello", *case.words, without=case.without)
    assert ran.code == 1, ran
    assert case.says in ran.err
    _check_nothing_is_left(desk, before)


def test_a_missing_program_is_named(desk: Desk) -> None:
    before, name = desk.launch_folders(), desk.adapter.upper().replace("-", "_")
    chosen_binary = {f"AGENTCTL_ADAPTER_{name}_BINARY": "/nowhere/no-such-agent"}
    ran = desk.agentctl("launch", desk.adapter, "-p", "hello", environ=chosen_binary)
    assert ran.code == 1, ran
    assert "no-such-agent" in ran.err
    _check_nothing_is_left(desk, before)


def test_the_markers_of_other_agents_are_removed(desk: Desk) -> None:
    """Launched from another agent's shell, it is no part of that agent, and keeps its usual records."""
    marks = dict.fromkeys(marker_names(), PLANTED)
    launched = desk.launches("[[gate=%]] count", "--env", "PROBE=mine", environ=marks)
    desk.wait_for_gate(launched)
    pid = desk.process(launched.id).pid
    environ = Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert not [pair for pair in environ if pair.endswith(f"={PLANTED}")]
    assert {f"HOME={desk.lab.home}", "PROBE=mine"} <= {*environ}
    assert desk.row(launched.id)["activity"] == ("unknown" if desk.facts.late else "working")
    desk.opens(launched)
    assert desk.agentctl("wait", launched.id).code == 0
    assert desk.native_id(launched) == launched.id


def test_two_at_once_in_an_empty_home(desk: Desk) -> None:
    """If an agent makes a database on its first start, the second launch waits for the first."""
    home = desk.lab.root / f"{desk.work.name}.home"
    home.mkdir()
    places = [desk.directory(), desk.directory()]
    trusted = (str(places[1]),)
    place = recipe.Place(str(home), str(places[0]), desk.lab.model.url, trusted)
    environ = {**recipe.make_environment(desk.lab.recipe, place, desk.lab.path), **AT_ONCE}
    mark, prompt = make_prompt("[[gate=%]] count")
    with ThreadPoolExecutor(2) as pool:
        words = ("launch", desk.adapter, "-p", prompt, *desk.facts.unasked)
        ran = list(pool.map(lambda cwd: desk.agentctl(*words, cwd=cwd, environ=environ), places))
    assert [each.code for each in ran] == [0, 0], ran
    ids = {each.lines[0] for each in ran}
    rows = desk.agentctl("list", "--json", environ=environ).json()["sessions"]
    assert {(row["id"], row["status"]) for row in rows} == {(id_, "running") for id_ in ids}
    desk.lab.model.open(mark)
    assert desk.agentctl("wait", *ids, environ=environ).code == 0
    desk.check_room_is_empty()


def test_id_and_directory_survive_the_loss_of_our_state(desk: Desk) -> None:
    launched = desk.launches("[[gate=%]] count", "--timeout", "1h")
    desk.wait_for_gate(launched)
    before = desk.process(launched.id)
    shutil.rmtree(desk.lab.home / ".agentctl")
    [row] = desk.agentctl("list", "--json").json()["sessions"]
    assert (row["id"], row["pid"], row["status"]) == (launched.id, before.pid, "running")
    refused = desk.agentctl("launch", desk.adapter, "-p", "me too")
    assert (refused.code, launched.id in refused.err) == (4, True), refused
    with desk.follows("wait", launched.id) as waiting:
        stopped = desk.agentctl("stop", launched.id)
        assert (stopped.code, "0 survivors" in stopped.out) == (0, True), stopped
        waiting.says(launched.id)
    assert desk.locked_directories() == []
    desk.check_room_is_empty()


def test_its_end_is_known_beside_an_idle_agent(desk: Desk) -> None:
    desk.lab.tui(cwd=desk.lab.work)
    until(lambda: bool(desk.agentctl("list", "--json").json()["sessions"]), "it is listed", PATIENCE)
    ran = desk.agentctl("launch", desk.adapter, "-p", "say hello", "--wait", *desk.facts.unasked)
    assert (ran.code, "completed, exit code 0" in ran.err) == (0, True), ran
    assert desk.row(ran.lines[0])["exit_code"] == 0


@pytest.mark.parametrize("way", ["exec", "call"])
def test_a_wrapper_that_runs_it_under_another_name(desk: Desk, way: str) -> None:
    """As Nix, Homebrew or a person's own script do. The program is a copy of the real one."""
    program = Path(os.path.realpath(desk.lab.program))
    if program.read_bytes()[:4] != b"\x7fELF":
        pytest.skip(f"{desk.adapter} is a script here: it has its interpreter's name anyway")
    renamed = desk.lab.root / "another-name"
    if not renamed.exists():
        shutil.copy2(program, renamed)
    wrapper = desk.work.parent / f"{desk.work.name}.wrapper"
    before = "exec " if way == "exec" else ""
    wrapper.write_text(f'#!/bin/sh\n{before}{renamed} "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    name = f"AGENTCTL_ADAPTER_{desk.adapter.upper().replace('-', '_')}_BINARY"
    launched = desk.launches("[[gate=%]] count", environ={name: str(wrapper)})
    desk.wait_for_gate(launched)
    [row] = desk.agentctl("list", "--json").json()["sessions"]
    assert (row["id"], row["status"]) == (launched.id, "running")
    desk.opens(launched)
    assert desk.agentctl("wait", launched.id).code == 0
    desk.check_room_is_empty()


def _check_nothing_is_left(desk: Desk, folders_before: set[str]) -> None:
    desk.check_room_is_empty()
    assert desk.launch_folders() == folders_before
    assert desk.locked_directories() == []
