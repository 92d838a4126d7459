"""The command of a fuse: told the facts, kept, bounded, and run once, whoever dies meanwhile."""

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
from agentctl.state.fuse import BURNING, Action, Fuse
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from tests.ending import kill
from tests.running import SOURCES
from tests.waiting import until


class Bench:
    def __init__(self, root: Path) -> None:
        self.root, self.state, self.work = root, str(root / "state"), root / "work"
        self.work.mkdir()
        self.id = os.urandom(4).hex()

    def fuse(self, command: str, **more: Any) -> Fuse:
        made = Fuse(
            self.id, str(self.work), "demo", None, None, "the label", (Action("run", command),), 0.0,
            "", 0.0, 0.0, BURNING, cwd=str(self.work),
        )  # fmt: skip
        return made._replace(**more)

    def run(self, command: str, **more: Any) -> dict[str, Any]:
        return fuse_command.run(self.state, self.fuse(command, **more), 0)

    def said(self) -> str:
        return Path(f"{self.state}/fuses/{self.id}/run-0").read_text()

    def left(self) -> list[ProcessIdentity]:
        marker = f"{self.id}/run-0"
        return [p.identity for p in proc.read_table().values() if limited.marked(p, marker)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for identity in made.left():
        kill(identity)


def test_it_is_told_the_facts_where_the_fuse_is(bench: Bench) -> None:
    ran = bench.run(
        'pwd; echo "$AGENTCTL_FUSE_ID $AGENTCTL_FUSE_LABEL $AGENTCTL_FUSE_DIRECTORY"; '
        "echo no >&2; exit 3"
    )
    assert bench.said() == f"{bench.work}\n{bench.id} the label {bench.work}\nno\n"
    assert (ran["ok"], ran["code"], ran["output"]) == (False, 3, f"{bench.state}/fuses/{bench.id}/run-0")
    assert Path(ran["output"]).stat().st_mode & 0o777 == 0o600


def test_it_is_not_taken_for_a_launchs_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ours.LAUNCH, "of an outer launch")
    bench.run('echo "[$AGENTCTL_LAUNCH_ID]"')
    assert bench.said() == "[]\n"


def test_what_ended_is_not_run_again(bench: Bench) -> None:
    for _ in range(2):
        assert bench.run("echo once; exit 4")["code"] == 4
    assert bench.said() == "once\n"


def test_one_that_cleared_its_own_directory_away_has_run(bench: Bench) -> None:
    for _ in range(2):
        assert bench.run('rmdir "$PWD"')["ok"]


def test_what_it_leaves_running_is_neither_waited_for_nor_ended(bench: Bench) -> None:
    for _ in range(2):
        assert bench.run("sleep 600 & exit 0")["ok"]
    until(lambda: len(bench.left()) == 1, "it runs on")


def test_a_directory_that_is_gone_is_told_and_nothing_run(bench: Bench) -> None:
    bench.work.rmdir()
    with pytest.raises(Gone, match="the directory is gone; the command was not run"):
        bench.run("echo anywhere")
    assert bench.said() == ""


def test_without_a_directory_it_runs_in_its_own(bench: Bench) -> None:
    bench.run("pwd", cwd=None)
    assert bench.said() == f"{bench.state}/fuses/{bench.id}\n"


def test_it_does_not_run_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_command, "LIMIT", 0.3)
    ran = bench.run("sleep 600 & exec sleep 600")
    assert (ran["ok"], ran["code"], ran["error"]) == (False, None, "took longer than 0.3 s")
    assert bench.left() == []


FIRST = """
import sys
from agentctl.fuses import run
from agentctl.state.fuse import Action, Fuse
state, id_, cwd, command = sys.argv[1:]
run.run(state, Fuse(id_, cwd, None, None, None, None, (Action("run", command),), 0.0, "", 0.0,
                             0.0, "firing", cwd=cwd), 0)
"""


def _begun_and_killed(bench: Bench, command: str) -> None:
    """By a process that is killed while the command runs."""
    words = [sys.executable, "-S", "-c", FIRST, bench.state, bench.id, str(bench.work), command]
    first = subprocess.Popen(words, env={"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]})
    try:
        until((bench.work / "begun").exists, "the command has begun")
    finally:
        first.kill()
        first.wait()


def test_who_comes_after_waits_for_what_still_runs(bench: Bench) -> None:
    """And has its exit code, though it is nobody's child any more."""
    command = "echo once; touch begun; while ! test -e go; do sleep 0.02; done; exit 6"
    _begun_and_killed(bench, command)
    until(lambda: bench.left() != [], "it runs on")
    (bench.work / "go").touch()
    assert bench.run(command)["code"] == 6
    assert bench.said() == "once\n"


def test_who_comes_after_does_not_wait_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "touch begun; exec sleep 600"
    _begun_and_killed(bench, command)
    monkeypatch.setattr(fuse_command, "LIMIT", 0.2)
    assert "took longer" in bench.run(command)["error"]
    assert bench.left() == []


def test_what_died_without_a_word_is_run_again(bench: Bench) -> None:
    command = "echo again; test -e begun && exit 0; touch begun; exec sleep 600"
    _begun_and_killed(bench, command)
    for identity in bench.left():
        try:
            with Handle(identity) as handle:
                handle.signal(signal.SIGKILL)
                handle.wait(20)
        except Gone:
            pass
    assert bench.run(command)["code"] == 0
    assert bench.said() == "again\nagain\n"


def test_on_a_full_disk_there_is_room_for_its_code(bench: Bench) -> None:
    ended = Path(f"{bench.state}/fuses/{bench.id}/run-0.exit")
    noted = f'stat -c %i "{ended}.new" >inode; stat -c %s "{ended}.new" >size; exit 7'
    assert bench.run(noted)["code"] == 7
    inode, size = ((bench.work / name).read_text().strip() for name in ("inode", "size"))
    assert (ended.stat().st_ino, ended.stat().st_size) == (int(inode), int(size))
    assert size == str(fuse_command.RESERVED)
