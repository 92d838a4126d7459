"""The command of a fuse: its facts, output and time limit, and that it runs once, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.errors import Gone
from agentctl.fuses import run as fuse_command
from agentctl.process import limited, ours
from agentctl.state.fuses import SET, Action, Fuse
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from tests.ending import kill
from tests.running import SOURCES
from tests.waiting import until


class Bench:
    def __init__(self, root: Path) -> None:
        self.root, self.state, self.work = root, str(root / "state"), root / "work"
        self.work.mkdir()
        self.id = os.urandom(4).hex()

    def fuse(self, command: str, **more: Any) -> Fuse:
        fuse = Fuse(
            self.id, str(self.work), "demo", None, None, "the label", (Action("run", command),), 0.0,
            "", 0.0, 0.0, SET, cwd=str(self.work),
        )  # fmt: skip
        return fuse._replace(**more)

    def run(self, command: str, **more: Any) -> dict[str, Any]:
        return fuse_command.run_command(self.state, self.fuse(command, **more), 0)

    def read_output(self) -> str:
        return Path(f"{self.state}/fuses/{self.id}/run-0").read_text()

    def find_processes(self) -> list[ProcessIdentity]:
        marker = f"{self.id}/run-0"
        return [p.identity for p in proc.read_table().values() if limited.has_marker(p, marker)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for identity in bench.find_processes():
        kill(identity)


def test_a_command_gets_the_facts_in_the_directory_of_its_fuse(bench: Bench) -> None:
    ran = bench.run(
        'pwd; echo "$AGENTCTL_FUSE_ID $AGENTCTL_FUSE_LABEL $AGENTCTL_FUSE_DIRECTORY"; '
        "echo no >&2; exit 3"
    )
    assert bench.read_output() == f"{bench.work}\n{bench.id} the label {bench.work}\nno\n"
    assert (ran["ok"], ran["code"], ran["output"]) == (False, 3, f"{bench.state}/fuses/{bench.id}/run-0")
    assert Path(ran["output"]).stat().st_mode & 0o777 == 0o600


def test_a_command_has_no_launch_id(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ours.LAUNCH, "of an outer launch")
    bench.run('echo "[$AGENTCTL_LAUNCH_ID]"')
    assert bench.read_output() == "[]\n"


def test_a_command_that_ended_is_not_run_again(bench: Bench) -> None:
    for _ in range(2):
        assert bench.run("echo once; exit 4")["code"] == 4
    assert bench.read_output() == "once\n"


def test_a_command_that_removed_its_own_directory_has_run(bench: Bench) -> None:
    for _ in range(2):
        assert bench.run('rmdir "$PWD"')["ok"]


def test_a_background_process_is_neither_waited_for_nor_ended(bench: Bench) -> None:
    for _ in range(2):
        assert bench.run("sleep 600 & exit 0")["ok"]
    until(lambda: len(bench.find_processes()) == 1, "it runs on")


def test_in_a_deleted_directory_no_command_is_run(bench: Bench) -> None:
    bench.work.rmdir()
    with pytest.raises(Gone, match="the directory is gone; the command was not run"):
        bench.run("echo anywhere")
    assert bench.read_output() == ""


def test_without_a_directory_a_command_runs_beside_its_output(bench: Bench) -> None:
    bench.run("pwd", cwd=None)
    assert bench.read_output() == f"{bench.state}/fuses/{bench.id}\n"


def test_a_command_has_a_time_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_command, "LIMIT", 0.3)
    ran = bench.run("sleep 600 & exec sleep 600")
    assert (ran["ok"], ran["code"], ran["error"]) == (False, None, "took longer than 0.3 s")
    assert bench.find_processes() == []


FIRST = """
import sys
from agentctl.fuses import run
from agentctl.state.fuses import Action, Fuse
state, id_, cwd, command = sys.argv[1:]
run.run_command(state, Fuse(id_, cwd, None, None, None, None, (Action("run", command),), 0.0, "", 0.0,
                             0.0, "firing", cwd=cwd), 0)
"""


def _start_and_kill(bench: Bench, command: str) -> None:
    """Start the command in a process that is killed while the command runs."""
    words = [sys.executable, "-S", "-c", FIRST, bench.state, bench.id, str(bench.work), command]
    first = subprocess.Popen(words, env={"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]})
    try:
        until((bench.work / "begun").exists, "the command has begun")
    finally:
        first.kill()
        first.wait()


def test_the_next_process_waits_for_a_command_that_still_runs(bench: Bench) -> None:
    """And gets its exit code, though its parent is gone."""
    command = "echo once; touch begun; while ! test -e go; do sleep 0.02; done; exit 6"
    _start_and_kill(bench, command)
    until(lambda: bench.find_processes() != [], "it runs on")
    (bench.work / "go").touch()
    assert bench.run(command)["code"] == 6
    assert bench.read_output() == "once\n"


def test_the_next_process_does_not_wait_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "touch begun; exec sleep 600"
    _start_and_kill(bench, command)
    monkeypatch.setattr(fuse_command, "LIMIT", 0.2)
    assert "took longer" in bench.run(command)["error"]
    assert bench.find_processes() == []


def test_a_command_that_died_without_an_exit_code_is_run_again(bench: Bench) -> None:
    command = "echo again; test -e begun && exit 0; touch begun; exec sleep 600"
    _start_and_kill(bench, command)
    for identity in bench.find_processes():
        try:
            with Handle(identity) as handle:
                handle.signal(signal.SIGKILL)
                handle.wait(20)
        except Gone:
            pass
    assert bench.run(command)["code"] == 0
    assert bench.read_output() == "again\nagain\n"


def test_the_exit_code_has_room_on_a_full_disk(bench: Bench) -> None:
    record = Path(f"{bench.state}/fuses/{bench.id}/run-0.exit")
    command = f'stat -c %i "{record}.new" >inode; stat -c %s "{record}.new" >size; exit 7'
    assert bench.run(command)["code"] == 7
    inode, size = ((bench.work / name).read_text().strip() for name in ("inode", "size"))
    assert (record.stat().st_ino, record.stat().st_size) == (int(inode), int(size))
    assert size == str(fuse_command.RESERVED)
