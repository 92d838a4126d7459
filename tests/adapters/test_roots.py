"""Where each agent keeps its files, and which traces there show a live process."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from agentctl.adapters import roots
from agentctl.adapters.registry import BUILT_IN, read_agent
from agentctl.truth.look import Environ, Look


def look(home: Path) -> Look:
    return Look.take({"HOME": str(home)}).scope_to("an agent")


@pytest.mark.parametrize(
    ("environ", "claude", "codex", "opencode"),
    [
        ({"HOME": "/h"}, "/h/.claude", "/h/.codex", "/h/.local/share/opencode"),
        ({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}, "/c", "/h/.codex", "/h/.local/share/opencode"),
        ({"HOME": "/h", "CODEX_HOME": "/c"}, "/h/.claude", "/c", "/h/.local/share/opencode"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/h/.claude", "/h/.codex", "/x/opencode"),
        ({"HOME": "/h", "XDG_DATA_HOME": "x"}, "/h/.claude", "/h/.codex", "/h/.local/share/opencode"),
    ],
)
def test_places(environ: Environ, claude: str, codex: str, opencode: str) -> None:
    agents = [read_agent(BUILT_IN[name]) for name in ("claude-code", "codex", "opencode")]
    assert [roots.find_root(environ, agent.root) for agent in agents] == [claude, codex, opencode]


def has_traces(adapter: str, view: Look) -> bool:
    return read_agent(BUILT_IN[adapter]).has_traces(view)


def test_no_file_is_no_trace(tmp_path: Path) -> None:
    view = look(tmp_path)
    assert not has_traces("claude-code", view)
    assert not has_traces("codex", view)
    assert not has_traces("opencode", view)
    assert view.problems == []


def test_a_record_of_a_process_that_exists(tmp_path: Path) -> None:
    sessions = tmp_path / ".claude" / "sessions"
    sessions.mkdir(parents=True)
    child = subprocess.Popen(["true"])
    child.wait()
    for name in (f"{child.pid}.json", "x.json", "9" * 200 + ".json"):
        (sessions / name).touch()
    assert not has_traces("claude-code", look(tmp_path))
    (sessions / f"{os.getpid()}.json").touch()
    assert has_traces("claude-code", look(tmp_path))


@pytest.mark.parametrize(
    ("path", "adapter"),
    [
        (".codex/thread-writer-locks/x.lock", "codex"),
        (".local/share/opencode/opencode.db-shm", "opencode"),
        (".local/share/opencode/opencode-dev.db-shm", "opencode"),
    ],
)
def test_a_lock_that_a_process_holds(tmp_path: Path, path: str, adapter: str) -> None:
    lock = tmp_path / path
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert not has_traces(adapter, look(tmp_path))
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert has_traces(adapter, look(tmp_path))
