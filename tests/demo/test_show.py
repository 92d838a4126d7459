"""The show: true at every step, and nothing stays behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.demo import show
from tests.running import SOURCES
from tests.waiting import until

EXPECTED = (
    "Launch five demo agents",
    "A moment later: one waits",
    "How does agentctl know",
    "Kill one with -9",
    "Answer the one",
    "Resume one that has completed",
    "Delete agentctl's own files",
    "Stop one, with proof",
    "Clean up",
)


def _environ(tmp_path: Path) -> dict[str, str]:
    """With variables of real agents that must not be followed."""
    return {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": SOURCES,
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "100",
        "DEMO_AGENT_HOME": str(tmp_path / "real"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "real"),
        "PI_CODING_AGENT_DIR": str(tmp_path / "real"),
    }


def _list_processes(tmp_path: Path) -> list[int]:
    """Processes that have this test's directory in their environment."""
    pids = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.fsencode(tmp_path) in Path(f"/proc/{name}/environ").read_bytes():
                pids.append(int(name))
        except OSError:
            continue
    return pids


def _start(tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "agentctl", "demo", "--fast"],
        env=_environ(tmp_path),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _steps(out: str) -> list[tuple[str, str]]:
    """(title, picture) of each step."""
    parts = re.split(r"^▸ (.*)$", out, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _words(picture: str) -> list[str]:
    """The statuses in a list, from top to bottom."""
    rows = picture.partition("\nID ")[2].splitlines()[1:]
    return [row.split()[1] for row in rows if row]


def test_every_step_shows_what_its_title_says(tmp_path: Path) -> None:
    child = _start(tmp_path)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0
    assert [line.split()[2:] for line in err.splitlines()] == [
        ["stopped", "(completed,", "exit", "code", "0)"]
    ]
    steps = _steps(out)
    assert len(steps) == len(EXPECTED)
    for (title, picture), expected in zip(steps, EXPECTED, strict=True):
        assert title.startswith(expected)
        assert "$ agentctl" in picture or expected == "Clean up"
    pictures = [picture for _, picture in steps]
    assert len(re.findall(r"^[0-9a-f-]{36}$", pictures[0], flags=re.MULTILINE)) == 5
    words = _words(pictures[1])
    assert words[:3] == ["waiting", "running", "idle"]
    assert sorted(words[3:]) == ["completed", "failed"]
    assert "  demo  waiting\n" in pictures[2]
    assert "  demo  killed\n" in pictures[3]
    assert re.search(r"^\$ kill -KILL \d+$", pictures[3], flags=re.MULTILINE)
    assert _words(pictures[4]) == ["running", "idle"]
    assert "fix the checkout" in pictures[1]
    assert "fix the checkout" not in pictures[6]  # the label is gone, the truth is not
    assert sorted(_words(pictures[6])) == ["completed", "failed", "idle", "killed", "running"]
    assert "1 ended, 0 survivors" in pictures[7]
    assert "\x1b" not in out
    assert _list_processes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []  # no home, no real agent's files


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.slow
def test_it_cleans_up_when_it_is_ended_early(tmp_path: Path, number: signal.Signals) -> None:
    child = _start(tmp_path)
    assert child.stdout is not None
    line = ""
    while "▸ A moment later" not in line:
        line = child.stdout.readline()
        assert line, child.communicate()
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (128 + number, "")
    until(lambda: not _list_processes(tmp_path), "no agent is left")
    assert list(tmp_path.iterdir()) == []


def test_the_stage_is_torn_down_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail_in_the_middle() -> None:
        with show.stage(pause=0) as stage:
            stage.launch_agents()
            assert len(stage.sessions) == len(show.CAST)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    assert _list_processes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
