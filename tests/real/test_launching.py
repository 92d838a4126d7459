"""What `launch` promises, on the real agent that this run is about."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentctl.adapters.markers import NAMES
from tests.real.actor import marked
from tests.real.desk import AT_ONCE, Desk, Launched
from tests.real.facts import facts_of
from tests.real.pins import chosen
from tests.real.tmux import Terminal
from tests.running import SOURCES, Ran

PIN = chosen()
FAILING = facts_of(PIN).failing if PIN else {}
PLANTED = "planted"
LINE = "the quick brown fox jumps over the lazy dog, and so on\n"
BIG = 200 * 1024


def test_the_id_is_the_agents_own_and_listed_when_launch_returns(desk: Desk) -> None:
    launched = desk.launches("[[gate=%]] count", "--name", "checkout")
    [row] = desk.agentctl("list", "--json").json()["sessions"]
    assert (row["id"], row["status"], row["adapter"]) == (launched.id, "running", desk.adapter)
    assert (row["cwd"], row["launch"]["name"]) == (str(desk.work), "checkout")
    desk.held(launched)
    desk.opens(launched)
    assert desk.agentctl("wait", launched.id).code == 0
    assert desk.native_id(launched) == launched.id
    desk.nobody_is_left()


def test_json_directory_model_and_waiting_for_the_end(desk: Desk) -> None:
    """All at once, from elsewhere: the id, where it worked, on which model, and how it ended."""
    elsewhere = desk.directory()
    mark, prompt = marked("[[tool=pwd -P > where]] [[say=done]]")
    ran = desk.agentctl(
        *("launch", desk.adapter, "-p", prompt, "--json", "--wait", "--cwd", str(elsewhere)),
        *("--model", desk.facts.model, *desk.facts.unasked),
    )
    assert ran.code == 0, ran.err
    [row] = ran.json()["sessions"]
    assert row["id"] == desk.native_id(Launched("", mark))
    assert (row["status"], row["outcome"], row["exit_code"]) == ("stopped", "completed", 0)
    assert (elsewhere / "where").read_text() == f"{elsewhere}\n"
    assert row["model"].rpartition("/")[2] == desk.facts.model.rpartition("/")[2]


@pytest.mark.parametrize("through", ["a file", "standard input"])
def test_a_prompt_of_200_kb_arrives_whole(desk: Desk, through: str) -> None:
    """The model obeys its last words, so it has them all."""
    mark, prompt = marked(f"{LINE * (BIG // len(LINE) + 1)}[[say=end of %]]")
    file = desk.work / "task.md"
    file.write_text(prompt)
    source = ("-",) if through == "standard input" else ("--prompt-file", str(file))
    ran = desk.agentctl(
        "launch", desk.adapter, *source, "--wait", stdin=prompt if source == ("-",) else ""
    )
    assert ran.code == 0, ran.err
    assert desk.native_id(Launched("", mark)) == ran.lines[0]
    messages = desk.agentctl("peek", ran.lines[0], "-n", "2", "--json").json()["messages"]
    assert f"end of {mark}" in messages[-1]["text"]
    asked = desk.agentctl("logs", ran.lines[0], "--json").out
    assert asked.count(LINE.strip()) == prompt.count(LINE.strip())


def test_a_group_of_the_same_agent_side_by_side(desk: Desk) -> None:
    mark, prompt = marked("[[gate=%]] count")
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
    desk.nobody_is_left()


def _pair(desk: Desk, prompt: str) -> tuple[str, Ran]:
    """Again, where the agent says that its like was in its way."""
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
    mark, prompt = marked("[[gate=%]] count")
    environ = {**desk.lab.environ, "PYTHONPATH": SOURCES}
    words = [sys.executable, "-m", "agentctl", "launch", desk.adapter, "-p", prompt, "--wait"]
    terminal = Terminal(desk.lab.root / "tmux", words, environ, str(desk.work))
    desk.held(Launched("", mark))
    [row] = desk.agentctl("list", "--json").json()["sessions"]
    terminal.shows(row["id"])
    terminal.close()
    desk.lab.model.open(mark)
    ran = desk.agentctl("wait", row["id"])
    assert ran.lines == [f"{row['id']} stopped (completed, exit code 0)"], ran
    assert desk.native_id(Launched("", mark)) == row["id"]


@pytest.mark.parametrize("why", FAILING)
def test_a_start_that_cannot_work_says_so_in_the_agents_words(desk: Desk, why: str) -> None:
    case, before = FAILING[why], desk.kept()
    ran = desk.agentctl("launch", desk.adapter, "-p", "hello", *case.words, without=case.without)
    assert ran.code == 1, ran
    assert case.says in ran.err
    _left_nothing(desk, before)


def test_a_program_that_is_not_there_is_named(desk: Desk) -> None:
    before, name = desk.kept(), desk.adapter.upper().replace("-", "_")
    chosen_binary = {f"AGENTCTL_ADAPTER_{name}_BINARY": "/nowhere/no-such-agent"}
    ran = desk.agentctl("launch", desk.adapter, "-p", "hello", environ=chosen_binary)
    assert ran.code == 1, ran
    assert "no-such-agent" in ran.err
    _left_nothing(desk, before)


def test_the_marks_of_other_agents_do_not_reach_it(desk: Desk) -> None:
    """Launched from any agent's own shell, it is no part of that one: it keeps its records as ever."""
    marks = {name: PLANTED for names in NAMES.values() for name in names}
    launched = desk.launches("[[gate=%]] count", "--env", "PROBE=mine", environ=marks)
    desk.held(launched)
    pid = desk.process(launched.id).pid
    environ = Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert not [pair for pair in environ if pair.endswith(f"={PLANTED}")]
    assert {f"HOME={desk.lab.home}", "PROBE=mine"} <= {*environ}
    assert desk.row(launched.id)["activity"] == ("unknown" if desk.facts.late else "working")
    desk.opens(launched)
    assert desk.agentctl("wait", launched.id).code == 0
    assert desk.native_id(launched) == launched.id


def _left_nothing(desk: Desk, kept_before: set[str]) -> None:
    desk.nobody_is_left()
    assert desk.kept() == kept_before
    assert desk.locked() == []
