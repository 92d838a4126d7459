"""Where each agent keeps its files, and which traces there show a live process."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from agentctl.adapters import roots
from agentctl.truth.look import Environ, Look


def look(home: Path) -> Look:
    return Look.take({"HOME": str(home)}).scoped("somebody")


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
    found = (roots.claude_root(environ), roots.codex_root(environ), roots.opencode_data(environ))
    assert found == (claude, codex, opencode)


def test_where_the_first_trace_will_be() -> None:
    environ = {"HOME": "/h"}
    assert roots.first_signs("claude-code", environ) == ["/h/.claude/sessions/*"]
    assert roots.first_signs("codex", environ) == ["/h/.codex/thread-writer-locks/*"]
    assert roots.first_signs("opencode", environ) == []


def test_no_file_is_no_trace(tmp_path: Path) -> None:
    seen = look(tmp_path)
    assert not roots.claude_leaves_traces(seen)
    assert not roots.codex_leaves_traces(seen)
    assert not roots.opencode_leaves_traces(seen)
    assert seen.problems == []


def test_a_record_of_a_process_that_exists(tmp_path: Path) -> None:
    sessions = tmp_path / ".claude" / "sessions"
    sessions.mkdir(parents=True)
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (f"{gone.pid}.json", "x.json", "9" * 200 + ".json"):
        (sessions / name).touch()
    assert not roots.claude_leaves_traces(look(tmp_path))
    (sessions / f"{os.getpid()}.json").touch()
    assert roots.claude_leaves_traces(look(tmp_path))


@pytest.mark.parametrize(
    ("path", "leaves_traces"),
    [
        (".codex/thread-writer-locks/x.lock", roots.codex_leaves_traces),
        (".local/share/opencode/opencode.db-shm", roots.opencode_leaves_traces),
        (".local/share/opencode/opencode-dev.db-shm", roots.opencode_leaves_traces),
    ],
)
def test_a_lock_that_somebody_holds(tmp_path: Path, path: str, leaves_traces: object) -> None:
    assert callable(leaves_traces)
    lock = tmp_path / path
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert not leaves_traces(look(tmp_path))
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert leaves_traces(look(tmp_path))
