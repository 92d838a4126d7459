"""`make test-real`: what is missing is printed, nothing passes silently, Ctrl-C leaves no room open."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.rehearsal import sandbox
from tests.real import run
from tests.real.pins import CHOSEN, ELSEWHERE, PROJECT, STAMP, pins
from tests.waiting import until

REASON = sandbox.find_obstacle()
needs_a_room = pytest.mark.skipif(REASON is not None, reason=f"no room can be had here: {REASON}")


class Bench:
    """A folder that claims to hold the agents, and tests to run in their rooms."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = os.environ["PATH"]
        for name, pin in pins().items():
            (root / name).mkdir()
            (root / name / STAMP).write_text(pin.stamp)

    def test(self, text: str) -> str:
        path = self.root / "test_it.py"
        path.write_text(text)
        return str(path)

    def start(self, *words: str) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if name != CHOSEN}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.real.run", "--into", str(self.root / "into"), *words],
            cwd=PROJECT,
            env={**environ, "PATH": self.path, ELSEWHERE: str(self.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        with self.start(*words) as program:
            out, err = program.communicate(timeout=100)
            return program.returncode, out, err


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_each_missing_thing_is_a_line_that_says_what_to_do(bench: Bench) -> None:
    bench.path = "/nowhere"
    (bench.root / "codex" / STAMP).unlink()
    code, out, err = bench.run("codex", "pi")
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if "no room" not in line]
    assert lines == [
        "test-real: tmux is not there, and the agents' terminals run in it: install tmux",
        "test-real: node is not there, and Codex starts through it: install Node.js 20 or newer",
        f"test-real: not installed in {bench.root}: codex 0.166.0: run `make agents`",
    ]


def test_without_a_room_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "find_obstacle", lambda: "unshare: Operation not permitted")
    [line] = [line for line in run.missing([]) if "tmux" not in line]
    assert line.startswith(
        "no room can be made for the agents (unshare: Operation not permitted): run as root"
    )


@needs_a_room
def test_each_agent_has_its_room_and_its_name(bench: Bench) -> None:
    test = bench.test(
        "import os\n"
        "def test_it() -> None:\n"
        f"    assert os.environ['{CHOSEN}'] == 'pi-old'\n"
        f"    assert os.environ['PATH'].startswith({str(bench.root / 'pi-old' / 'bin')!r})\n"
        "    assert os.environ['AGENTCTL_ROOM']\n"
    )
    code, out, _ = bench.run("pi-old", "codex", "--", test)
    assert code == 1
    summary = out[out.index("== real agents") :].splitlines()
    assert summary[1].startswith("pi-old       1 passed, 0 failed, 0 skipped, ")
    assert summary[2].startswith("codex        0 passed, 1 failed, 0 skipped, ")
    assert "== codex 0.166.0" in out
    assert "AssertionError" in out


@needs_a_room
def test_no_test_is_no_pass(bench: Bench) -> None:
    code, out, _ = bench.run("codex", "--", bench.test("def test_it() -> None: ...\n"), "-k", "other")
    assert code == 1
    assert "no test has passed (pytest ended with 5)" in out


@needs_a_room
def test_ctrl_c_ends_all_rooms(bench: Bench) -> None:
    test = bench.test(
        "import fcntl, os, pathlib, signal\n"
        "def test_it() -> None:\n"
        f"    here = pathlib.Path({str(bench.root)!r}, os.environ['{CHOSEN}'])\n"
        "    lock = open(here / 'held', 'w')\n"
        "    fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "    (here / 'ready').touch()\n"
        "    signal.pause()\n"
    )
    places = [bench.root / "codex", bench.root / "pi"]
    with bench.start("-j", "2", "codex", "pi", "--", test) as program:
        try:
            until(lambda: all((place / "ready").exists() for place in places), "both rooms wait", 60)
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(timeout=30)
        finally:
            program.kill()  # a room ends with the program that opened it, so a red test leaves none
    assert (program.returncode, err) == (130, "\ninterrupted: all rooms are ended\n")
    for place in places:
        with open(place / "held", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its holder lives


def test_a_room_that_left_no_report_has_failed(tmp_path: Path) -> None:
    result = run.read_result(tmp_path / "none.xml", 125)
    assert not result.good
    assert str(result).endswith("no test has passed (pytest ended with 125)")
