"""Looking changes nothing: no process is started, nothing is sent, nobody is signalled, no file but
our own is written; and a transcript of any size is looked at, not read."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.testing import Stage
from tests.law.asking import environ_of, working

VERBS = ("list", "list -a", "status ID", "why ID", "status PREFIX", "peek ID")
BIG = 5 << 30
MEMORY = 40 << 10  # KB
READ = 128 << 20  # a few windows of 4 MB for each time a transcript without line ends is looked at


def watched(stage: Stage, words: list[str]) -> dict[str, Any]:
    """What the verb did, by its own audit events."""
    report = stage.root / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.law.watched", str(report), *words],
        env=environ_of(stage),
        cwd=stage.root,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    told: dict[str, Any] = json.loads(report.read_bytes())
    report.unlink()
    assert told["code"] == 0, done.stderr.decode()
    return told


def words(verb: str, session_id: str) -> list[str]:
    return verb.replace("ID", session_id).replace("PREFIX", session_id[:-2]).split()


def picture(stage: Stage) -> dict[str, tuple[int, str]]:
    """Every file of the agents, what is in it and when it was last changed. SQLite's shared memory
    beside a database is its readers' noticeboard, and its log may be made empty by a first reader."""
    found = {}
    for path in (*stage.home.rglob("*"), *stage.work.rglob("*")):
        if path.name.endswith("-shm"):
            continue
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and status.st_size < BIG else b""
        if path.name.endswith("-wal") and not data:
            continue
        changed = status.st_mtime_ns if path.is_file() else 0
        found[str(path)] = (changed, hashlib.sha256(data).hexdigest())
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_looks_changes_nothing(stage: Stage, verb: str) -> None:
    ended, _ = working(stage, stage.root / "elsewhere")
    ended.do("rest")
    ended.finish()
    _, session_id = working(stage)
    before = picture(stage)
    told = watched(stage, words(verb, session_id))
    ours = stage.environ["AGENTCTL_HOME"]
    elsewhere = [(event, what) for event, what in told["done"] if not below(what, ours)]
    assert elsewhere == []
    assert picture(stage) == before
    assert told["memory_kb"] < MEMORY


def below(what: str, directory: str) -> bool:
    return what == directory or what.startswith(directory + os.sep)


def test_the_watcher_sees_what_it_is_there_for(tmp_path: Path) -> None:
    """Otherwise the test above proves nothing."""
    program = (
        "import os, sys, subprocess, socket, runpy, sqlite3\n"
        "from tests.law import watched\n"
        "def deeds(*_, **__):\n"
        f"    open({str(tmp_path / 'w')!r}, 'w').close()\n"
        "    subprocess.run(['true'])\n"
        "    socket.socket().close()\n"
        f"    os.rename({str(tmp_path / 'w')!r}, {str(tmp_path / 'v')!r})\n"
        "    sqlite3.connect(':memory:').close()\n"
        "    os.kill(os.getpid(), 0)\n"
        "watched.runpy.run_module = deeds\n"
        f"watched.main({str(tmp_path / 'report')!r}, ['list'])\n"
    )
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, timeout=60)
    events = {event for event, _ in json.loads((tmp_path / "report").read_bytes())["done"]}
    expected = {
        "open for writing", "subprocess.Popen", "os.rename", "os.kill", "a database opened for writing",
    }  # fmt: skip
    assert expected <= events
    assert any(event.startswith("socket.") for event in events)


@pytest.mark.parametrize("ending", ["a last record", "nothing but a hole"])
def test_a_transcript_of_any_size_is_not_read(stage: Stage, ending: str) -> None:
    puppet, session_id = working(stage)
    transcript = stage.session(session_id).seen.transcript
    if transcript is None or not transcript.endswith(".jsonl"):
        pytest.skip(f"{stage.adapter} has no transcript file to grow: {transcript}")
    os.truncate(transcript, BIG)
    if ending == "a last record":
        with open(transcript, "ab") as file:
            file.write(b"\n")
        puppet.do("rest")
    for verb in VERBS[:-1]:
        told = watched(stage, words(verb, session_id))
        assert told["memory_kb"] < MEMORY, verb
        assert told["read"] < READ, verb
    if ending == "a last record":
        assert stage.session(session_id).verdict.status == "idle"
