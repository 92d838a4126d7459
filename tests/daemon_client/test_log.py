"""The daemon's log as `daemon logs` shows it."""

import os
from pathlib import Path

import pytest

from agentctl.daemon_client.log import Log
from agentctl.errors import Gone
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, read_until, started


def test_the_last_lines_may_be_in_the_file_before(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_text("a\nb\n")
    (tmp_path / "log").write_text("c\nd\n")
    assert Log(str(tmp_path / "log")).last(3) == [b"b", b"c", b"d"]
    assert Log(str(tmp_path / "log")).last(1) == [b"d"]
    assert Log(str(tmp_path / "log")).last(99) == [b"a", b"b", b"c", b"d"]


def test_new_lines_are_read_once_and_when_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nhalf")
    log = Log(str(path))
    assert log.last(9) == [b"a"]
    assert log.new() == []
    with path.open("a") as file:
        file.write(" a line\nnext\n")
    assert log.new() == [b"half a line", b"next"]


def test_a_new_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nb\n")
    log = Log(str(path))
    log.last(1)
    os.rename(path, tmp_path / "log.1")
    with pytest.raises(Gone):
        log.new()
    path.write_text("c\n")
    assert log.new() == [b"c"]


def test_without_a_log_there_is_an_error(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "daemon", "logs")
    assert (ran.code, ran.out) == (3, "")
    assert "no daemon has written" in ran.err


def test_it_follows_a_log_that_does_not_exist_yet(stage: DemoStage) -> None:
    with started(stage, "daemon", "logs", "-f") as child:
        assert agentctl_of(stage, "daemon", "start").code == 0
        read_until(child, b"INFO app: agentctl")
        assert agentctl_of(stage, "daemon", "stop").code == 0
        read_until(child, b"ended, in")


def test_escape_sequences_are_not_printed(stage: DemoStage) -> None:
    path = Path(stage.environ["AGENTCTL_HOME"]) / "daemon.log"
    path.parent.mkdir()
    path.write_bytes(b"one\x1b[2J\xff\n  | File\n")
    assert "\x1b" not in agentctl_of(stage, "daemon", "logs").out
    assert agentctl_of(stage, "daemon", "logs", "-n", "1").out == "  | File\n"
