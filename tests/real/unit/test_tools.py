"""How the words of each measured tool are read. The answers are recorded ones, shortened: as pinned, on
Claude Code 2.1.325, Codex 0.166.0, OpenCode 1.18.33, Pi 1.5.0."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.real.accuracy.fetch import pins
from tests.real.accuracy.tools import LIVE, Row, Tool, available
from tests.real.accuracy.tools.agent_ps import AgentPs
from tests.real.accuracy.tools.agents_tree import AgentsTree
from tests.real.accuracy.tools.claude_busy_monitor import ClaudeBusyMonitor
from tests.real.accuracy.tools.ours import Agentctl
from tests.real.accuracy.tools.registry import READERS, absent, present

CLAUDE = "bf26f01d-2786-4960-aa73-0ffd5b800ccc"
CODEX = "01a1df39-7622-79b0-9c6c-f3db79540688"
OPENCODE = "ses_e20c66de8ffe1KNoxs95i7cogr"
PI = "01a1df38-8777-737b-8865-24aa34b0e4df"

OURS = Agentctl()
MONITOR = ClaudeBusyMonitor(pins()["claude-busy-monitor"])
TREE = AgentsTree(pins()["agents-tree"])
PS = AgentPs(pins()["agent-ps"])
EVERYONE: tuple[Tool, ...] = (OURS, MONITOR, TREE, PS)


def get_name(tool: Tool) -> str:
    return tool.name


def ours(**changed: Any) -> str:
    session: dict[str, Any] = {
        "id": CLAUDE,
        "adapter": "claude-code",
        "status": "running",
        "activity": "working",
    }
    session |= {"reason": "its process is alive and its turn is open", "pid": 141} | changed
    return json.dumps({"version": 1, "sessions": [session], "problems": []})


def tree(status: str | None, state: str, session_id: str = CLAUDE) -> str:
    main: dict[str, Any] = {
        "children": [],
        "id": "main",
        "label": "main",
        "state": state,
        "status": status,
    }
    session = {"agents": [], "cwd": "/home/ada/shop", "id": session_id, "main": main, "title": "shop-bf"}
    return json.dumps({"schema_version": 1, "sessions": [session]})


def listed(agent: str, **changed: Any) -> dict[str, Any]:
    """One row of agent-ps; by default a process for which it found nothing."""
    row = {"agent": agent, "pid": 141, "ppid": 140, "cmd": agent, "kind": "session", "background": False}
    return row | {"session_id": "", "cwd": "", "attach": "", "status": "", "idle": 0} | changed


# agentctl


@pytest.mark.parametrize("status", ["waiting", "idle", "stopped"])
def test_our_own_status_is_read_unchanged(status: str) -> None:
    assert OURS.rows(ours(status=status), 0) == [Row(141, CLAUDE, status, status)]


def test_our_running_with_unknown_activity_is_unknown_but_alive() -> None:
    [row] = OURS.rows(ours(id=None, activity="unknown"), 0)
    assert (row.status, row.word, row.lives) == ("unknown", "running, activity unknown", True)


def test_our_unknown_has_its_reason() -> None:
    [row] = OURS.rows(ours(status="unknown", pid=None, reason="pid 430 may run this one"), 0)
    assert row == Row(None, CLAUDE, "unknown", "unknown", "pid 430 may run this one")


# claude-busy-monitor


@pytest.mark.parametrize(
    ("word", "status"), [("busy", "running"), ("asking", "waiting"), ("idle", "idle")]
)
def test_claude_busy_monitor(word: str, status: str) -> None:
    answer = json.dumps([{"id": CLAUDE, "state": word}])
    assert MONITOR.rows(answer, 0) == [Row(None, CLAUDE, status, word)]


def test_claude_busy_monitor_lists_the_living_only() -> None:
    assert MONITOR.rows("[]\n", 0) == []
    assert "stopped" not in MONITOR.states


# agents-tree


@pytest.mark.parametrize(
    ("word", "state", "status"),
    [
        ("busy", "running", "running"),
        ("working", "running", "running"),
        ("waiting", "waiting", "waiting"),  # a permission prompt: the shown word is the right one
        ("blocked", "blocked", "waiting"),
        ("idle", "waiting", "idle"),
        ("done", "done", "idle"),
        ("not running", "inactive", "stopped"),
    ],
)
def test_agents_tree_is_read_by_the_word_it_shows(word: str, state: str, status: str) -> None:
    assert TREE.rows(tree(word, state), 0) == [Row(None, CLAUDE, status, word)]


def test_agents_tree_without_a_word_it_knows() -> None:
    [row] = TREE.rows(tree(None, "waiting"), 0)
    assert (row.status, row.reason) == ("unknown", "it shows no word")


def test_agents_tree_has_one_word_for_codex() -> None:
    assert TREE.rows(tree("running", "running", CODEX), 0) == [Row(None, CODEX, "running", "running")]
    assert TREE.states_of("codex") == {"running"}


def test_agents_tree_with_no_session_is_no_crash() -> None:
    none = "agents-tree: no running Antigravity sessions; no running Claude Code sessions\n"
    assert TREE.rows(none, 1) == []
    with pytest.raises(ValueError, match="Traceback"):
        TREE.rows("Traceback (most recent call last):\n", 1)


# agent-ps


@pytest.mark.parametrize(
    ("word", "status"),
    [("busy", "running"), ("waiting", "waiting"), ("idle", "idle"), ("shell", "idle")],
)
def test_agent_ps_of_claude_code_knows_the_process(word: str, status: str) -> None:
    row = listed("claude", kind="gateway", session_id=CLAUDE, attach="pid", status=word)
    assert PS.rows(json.dumps([row]), 0) == [Row(141, CLAUDE, status, word)]


@pytest.mark.parametrize(("agent", "session_id"), [("codex", CODEX), ("opencode", OPENCODE), ("pi", PI)])
def test_agent_ps_guesses_the_process_of_the_others(agent: str, session_id: str) -> None:
    row = listed(agent, session_id=session_id, attach="cwd", status="busy")
    assert PS.rows(json.dumps([row]), 0) == [Row(None, session_id, "running", "busy")]
    assert "waiting" not in PS.states_of(agent)


def test_agent_ps_row_of_kind_ended_is_stopped() -> None:
    row = listed("codex", pid=0, kind="ended", session_id=CODEX, status="busy")
    assert PS.rows(json.dumps([row]), 0) == [Row(None, CODEX, "stopped", "ended")]


def test_agent_ps_has_no_word_for_a_process_without_a_session() -> None:
    [row] = PS.rows(json.dumps([listed("opencode", pid=142)]), 0)
    assert row == Row(142, None, "unknown", "-", "it found no session, or no turn in it")


def test_agent_ps_helpers_are_no_sessions_unless_they_run_one() -> None:
    spare = listed("claude", pid=208, kind="bg-spare", background=True)
    claimed = spare | {"pid": 221, "session_id": CLAUDE, "attach": "pid", "status": "idle"}
    other = listed("copilot", session_id="x", status="busy")
    assert PS.rows(json.dumps([spare, claimed, other]), 0) == [Row(221, CLAUDE, "idle", "idle")]


# all of them


@pytest.mark.parametrize("tool", EVERYONE, ids=get_name)
def test_an_unreadable_answer_is_an_error(tool: Tool) -> None:
    with pytest.raises(ValueError):
        tool.rows("not json", 0)
    with pytest.raises(ValueError):
        tool.rows("[]", 3)


@pytest.mark.parametrize("tool", EVERYONE, ids=get_name)
def test_the_states_of_a_tool_are_those_of_its_agents(tool: Tool) -> None:
    states = [tool.states_of(agent) for agent in tool.agents]
    assert all(states)
    assert frozenset[str]().union(*states) == tool.states
    assert tool.states <= LIVE | {"stopped", "unknown"}
    assert tool.states_of("demo") == frozenset()


def test_which_rows_are_alive() -> None:
    lives = {status: Row(1, None, status, "").lives for status in ("running", "stopped", "unknown")}
    assert lives == {"running": True, "stopped": False, "unknown": False}


def test_every_pinned_tool_is_measured_or_listed_as_absent() -> None:
    assert READERS.keys() == pins().keys()
    measured = {tool.name for tool in present()}
    assert measured | absent().keys() == {"agentctl", *pins()}
    assert measured & absent().keys() == set()
    assert [tool.name for tool in available()] == [tool.name for tool in present()]
    assert [tool.name for tool in available(["agentctl", "no such tool"])] == ["agentctl"]
