"""Looking changes nothing: a verb that looks starts no process, sends nothing, signals no process and
writes no file but our own; and it does not read a large transcript whole."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.testing import Stage
from tests.law.asking import environ_of, start_agent

VERBS = ("list", "list -a", "status ID", "why ID", "status PREFIX", "peek ID")
BIG = 5 << 30
MEMORY = 40 << 10  # KB
READ = 128 << 20  # a few windows of 4 MB for each time a transcript without line ends is looked at


def watch_verb(stage: Stage, words: list[str]) -> dict[str, Any]:
    """Run the verb and return what it did, by its own audit events."""
    report = stage.root / "report.json"
    run = subprocess.run(
        [sys.executable, "-m", "tests.law.watched", str(report), *words],
        env=environ_of(stage),
        cwd=stage.root,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    result: dict[str, Any] = json.loads(report.read_bytes())
    report.unlink()
    assert result["code"] == 0, run.stderr.decode()
    return result


def split_verb(verb: str, session_id: str) -> list[str]:
    return verb.replace("ID", session_id).replace("PREFIX", session_id[:-2]).split()


def hash_files(stage: Stage) -> dict[str, tuple[int, str]]:
    """Return the modification time and a hash of every file of the agents. SQLite's readers write to its
    shared memory file, and a first reader may create an empty log."""
    files = {}
    for path in (*stage.home.rglob("*"), *stage.work.rglob("*")):
        if path.name.endswith("-shm"):
            continue
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and status.st_size < BIG else b""
        if path.name.endswith("-wal") and not data:
            continue
        changed = status.st_mtime_ns if path.is_file() else 0
        files[str(path)] = (changed, hashlib.sha256(data).hexdigest())
    return files


@pytest.mark.few(4)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_looks_changes_nothing(stage: Stage, verb: str) -> None:
    puppet, _ = start_agent(stage, stage.root / "elsewhere")
    puppet.do("rest")
    puppet.finish()
    _, session_id = start_agent(stage)
    before = hash_files(stage)
    result = watch_verb(stage, split_verb(verb, session_id))
    ours = stage.environ["AGENTCTL_HOME"]
    elsewhere = [(event, what) for event, what in result["effects"] if not is_below(what, ours)]
    assert elsewhere == []
    assert hash_files(stage) == before
    assert result["memory_kb"] < MEMORY


def is_below(what: str, directory: str) -> bool:
    return what == directory or what.startswith(directory + os.sep)


def test_the_watcher_sees_each_kind_of_effect(tmp_path: Path) -> None:
    """Otherwise the test above proves nothing."""
    program = (
        "import os, signal, sys, subprocess, socket, runpy, sqlite3\n"
        "from tests.law import watched\n"
        "def have_effects(*_, **__):\n"
        f"    open({str(tmp_path / 'w')!r}, 'w').close()\n"
        "    subprocess.run(['true'])\n"
        "    socket.socket().close()\n"
        f"    os.rename({str(tmp_path / 'w')!r}, {str(tmp_path / 'v')!r})\n"
        "    sqlite3.connect(':memory:').close()\n"
        "    os.kill(os.getpid(), 0)\n"
        "    signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 0)\n"
        "watched.runpy.run_module = have_effects\n"
        f"watched.main({str(tmp_path / 'report')!r}, ['list'])\n"
    )
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, timeout=60)
    events = {event for event, _ in json.loads((tmp_path / "report").read_bytes())["effects"]}
    expected = {
        "open for writing", "subprocess.Popen", "os.rename", "os.kill", "a database opened for writing",
        "signal.pidfd_send_signal",
    }  # fmt: skip
    assert expected <= events
    assert any(event.startswith("socket.") for event in events)


@pytest.mark.parametrize("ending", ["a last record", "nothing but a hole"])
def test_a_transcript_of_any_size_is_not_read(stage: Stage, ending: str) -> None:
    puppet, session_id = start_agent(stage)
    transcript = stage.session(session_id).observation.transcript
    if transcript is None or not transcript.endswith(".jsonl"):
        pytest.skip(f"{stage.adapter} has no transcript file to grow: {transcript}")
    os.truncate(transcript, BIG)
    if ending == "a last record":
        with open(transcript, "ab") as file:
            file.write(b"\n")
        puppet.do("rest")
    for verb in VERBS[:-1]:
        result = watch_verb(stage, split_verb(verb, session_id))
        assert result["memory_kb"] < MEMORY, verb
        assert result["read"] < READ, verb
    if ending == "a last record":
        assert stage.session(session_id).verdict.status == "idle"
