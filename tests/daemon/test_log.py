"""The log: one line an event, bounded, and no message breaks it."""

import logging
import os
import re
import stat
from pathlib import Path

from agentctl.daemon.log import Log

LINE = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z (INFO|ERROR) part: ")


def make_logger(log: Log) -> logging.Logger:
    logger = logging.Logger("agentctl.daemon.part")  # noqa: LOG001 - of its own: no other test hears it
    logger.addHandler(log)
    return logger


def test_a_line_has_a_time_a_level_and_a_part(tmp_path: Path) -> None:
    log = Log(str(tmp_path), streams=False)
    make_logger(log).info("hello %s", "there")
    text = Path(log.path).read_text()
    assert LINE.match(text)
    assert text.endswith(" INFO part: hello there\n")
    assert stat.S_IMODE(os.stat(log.path).st_mode) == 0o600


def test_a_message_cannot_forge_lines_or_reach_a_terminal(tmp_path: Path) -> None:
    log = Log(str(tmp_path), streams=False)
    make_logger(log).info("one\n2026-01-01T00:00:00.000Z INFO app: forged\x1b[2J \udcff")
    (line,) = Path(log.path).read_text().splitlines()
    assert "\x1b" not in line


def test_a_traceback_is_indented_below_its_line(tmp_path: Path) -> None:
    log = Log(str(tmp_path), streams=False)
    try:
        raise ValueError("what\nwas")
    except ValueError:
        make_logger(log).exception("it broke")
    first, *rest = Path(log.path).read_text().splitlines()
    assert LINE.match(first)
    assert rest
    assert all(line.startswith("  | ") for line in rest)


def test_it_is_bounded(tmp_path: Path) -> None:
    log = Log(str(tmp_path), streams=False, cap=1000)
    logger = make_logger(log)
    for number in range(100):
        logger.info("line %d %s", number, "x" * 50)
    sizes = {name: os.stat(tmp_path / name).st_size for name in os.listdir(tmp_path)}
    assert sizes.keys() == {"daemon.log", "daemon.log.1"}
    assert max(sizes.values()) <= 1000
    text = "".join((tmp_path / name).read_text() for name in ("daemon.log.1", "daemon.log"))
    numbers = [int(number) for number in re.findall(r"line (\d+)", text)]
    assert numbers == list(range(numbers[0], 100)), "the last ones, in order"


def test_a_file_that_was_taken_away_breaks_nothing(tmp_path: Path) -> None:
    log = Log(str(tmp_path), streams=False, cap=200)
    logger = make_logger(log)
    logger.info("x" * 150)
    os.unlink(log.path)
    logger.info("y" * 150)
    assert "y" * 150 in Path(log.path).read_text()


def test_a_bad_message_is_no_error(tmp_path: Path) -> None:
    log = Log(str(tmp_path), streams=False)
    logger = make_logger(log)
    logger.info("%d", "no number")
    logger.info("next")
    assert Path(log.path).read_text().endswith("next\n")
