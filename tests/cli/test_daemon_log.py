"""The daemon's log as `daemon logs` shows it."""

import os
from pathlib import Path

import pytest

from agentctl.cli.daemon_log import Log
from agentctl.errors import Gone
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, read_until, started


def test_the_last_lines_also_of_the_file_before(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_text("a\nb\n")
    (tmp_path / "log").write_text("c\nd\n")
    assert Log(str(tmp_path / "log")).last(3) == [b"b", b"c", b"d"]
    assert Log(str(tmp_path / "log")).last(1) == [b"d"]
    assert Log(str(tmp_path / "log")).last(99) == [b"a", b"b", b"c", b"d"]


def test_what_is_new_once_and_only_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nhalf")
    log = Log(str(path))
    assert log.last(9) == [b"a"]
    assert log.new() == []
    with path.open("a") as file:
        file.write(" a line\nnext\n")
    assert log.new() == [b"half a line", b"next"]


def test_a_file_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nb\n")
    log = Log(str(path))
    log.last(1)
    os.rename(path, tmp_path / "log.1")
    with pytest.raises(Gone):
        log.new()
    path.write_text("c\n")
    assert log.new() == [b"c"]


def test_no_log(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "daemon", "logs")
    assert (ran.code, ran.out) == (3, "")
    assert "no daemon has written a log" in ran.err


def test_it_follows_also_what_is_not_there_yet(stage: DemoStage) -> None:
    with started(stage, "daemon", "logs", "-f") as child:
        assert agentctl_of(stage, "daemon", "start").code == 0
        read_until(child, b"INFO app: agentctl")
        assert agentctl_of(stage, "daemon", "stop").code == 0
        read_until(child, b"ended, in")


def test_what_stands_in_it_is_harmless(stage: DemoStage) -> None:
    path = Path(stage.environ["AGENTCTL_HOME"]) / "daemon.log"
    path.parent.mkdir()
    path.write_bytes(b"one\x1b[2J\xff\n  | File\n")
    assert "\x1b" not in agentctl_of(stage, "daemon", "logs").out
    assert agentctl_of(stage, "daemon", "logs", "-n", "1").out == "  | File\n"
