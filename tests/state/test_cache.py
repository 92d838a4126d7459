"""The cache may be anything but wrong: deleted, damaged, read-only, old, or written by many."""

import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.state import cache as module
from agentctl.state.cache import Cache
from tests.running import SOURCES

FACTS = ("/w", None, "a prompt \ud800 漢", 1.5, (1, 2), [("idle", 17)])
LONG_AGO = 1_000_000_000


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_text("{}\n")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "cache")


def _stamp(transcript: Path) -> tuple[int, ...]:
    status = transcript.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _remember(place: str, transcript: Path, facts: Any = FACTS) -> None:
    with Cache(place) as cache:
        cache.remember(str(transcript), _stamp(transcript), transcript.stat().st_mtime, facts)


def _recall(place: str, transcript: Path) -> Any:
    with Cache(place) as cache:
        return cache.recall(str(transcript), _stamp(transcript))


def test_facts_are_remembered(place: str, transcript: Path) -> None:
    assert _recall(place, transcript) is None
    _remember(place, transcript)
    assert _recall(place, transcript) == FACTS


def test_its_files_are_private(place: str, transcript: Path) -> None:
    before = os.umask(0)
    try:
        _remember(place, transcript)
    finally:
        os.umask(before)
    assert Path(place).stat().st_mode & 0o777 == 0o600
    assert Path(place).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("other", [(1, 2, 4), (1, 2), (1, 2, 3, b""), ()])
def test_another_stamp_is_another_file(place: str, other: tuple[object, ...]) -> None:
    with Cache(place) as cache:
        cache.remember("/s", (1, 2, 3), LONG_AGO, FACTS)
    with Cache(place) as cache:
        assert cache.recall("/s", (1, 2, 3)) == FACTS
        assert cache.recall("/s", other) is None
        assert cache.recall("/t", (1, 2, 3)) is None


def test_a_file_that_has_just_changed_is_not_remembered(place: str, transcript: Path) -> None:
    """It may change again within the grain of its time stamp, and keep its size."""
    transcript.touch()
    _remember(place, transcript)
    assert _recall(place, transcript) is None


def test_a_deleted_cache_starts_empty(place: str, transcript: Path) -> None:
    _remember(place, transcript)
    Path(place).unlink()
    assert _recall(place, transcript) is None
    _remember(place, transcript)
    assert _recall(place, transcript) == FACTS


@pytest.mark.parametrize(
    "rubbish",
    [b"", b"\0" * 5000, b"not a database\n" * 500, b"SQLite format 3\0" + b"\xff" * 8000],
    ids=["empty", "zeros", "text", "half a header"],
)
def test_rubbish_is_replaced(place: str, transcript: Path, rubbish: bytes) -> None:
    Path(place).parent.mkdir()
    Path(place).write_bytes(rubbish)
    assert _recall(place, transcript) is None
    _remember(place, transcript)
    assert _recall(place, transcript) == FACTS


def test_damage_never_changes_a_fact(place: str, transcript: Path) -> None:
    _remember(place, transcript)
    whole = Path(place).read_bytes()
    for cut in range(0, len(whole), 512):
        Path(place).write_bytes(whole[:cut])
        assert _recall(place, transcript) in (None, FACTS)
        Path(place).write_bytes(whole[:cut] + b"\xee" * 256 + whole[cut + 256 :])
        assert _recall(place, transcript) in (None, FACTS)


@pytest.mark.parametrize("entry", [None, (), (1,), (1, 2), 7, "word", "ab", (1, 2, 3)])
def test_a_strange_entry_is_replaced(place: str, transcript: Path, entry: Any) -> None:
    Path(place).parent.mkdir()
    module.save_entries(place, {str(transcript): entry})
    assert _recall(place, transcript) is None
    _remember(place, transcript)
    assert _recall(place, transcript) == FACTS


def test_a_flipped_bit_is_noticed(place: str, transcript: Path) -> None:
    _remember(place, transcript)
    whole = Path(place).read_bytes()
    for index in range(len(whole)):
        Path(place).write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        assert _recall(place, transcript) is None


def test_a_cache_that_is_no_mapping_is_forgotten(place: str, transcript: Path) -> None:
    Path(place).parent.mkdir()
    module.save_entries(place, [1, 2])  # type: ignore[arg-type]
    assert _recall(place, transcript) is None


def test_a_fact_that_is_no_plain_value_is_not_stored(place: str, transcript: Path) -> None:
    _remember(place, transcript, (Path("/w"),))
    assert _recall(place, transcript) is None


def test_an_older_format_is_forgotten(
    place: str, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _remember(place, transcript)
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    assert _recall(place, transcript) is None
    _remember(place, transcript)
    assert _recall(place, transcript) == FACTS


def test_a_database_in_its_place_is_replaced(place: str, transcript: Path) -> None:
    """The cache of an older version was one."""
    Path(place).parent.mkdir()
    with sqlite3.connect(place) as connection:
        connection.execute("create table facts (path, said)")
    connection.close()
    assert _recall(place, transcript) is None
    _remember(place, transcript)
    assert _recall(place, transcript) == FACTS


def test_a_directory_in_its_place(place: str, transcript: Path) -> None:
    Path(place).mkdir(parents=True)
    _remember(place, transcript)
    assert _recall(place, transcript) is None
    assert os.listdir(Path(place).parent) == ["cache"]


def test_a_pipe_in_its_place_is_not_waited_for(place: str, transcript: Path) -> None:
    Path(place).parent.mkdir()
    os.mkfifo(place)
    assert _recall(place, transcript) is None


def test_a_full_disk_leaves_the_old_one(
    place: str, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _remember(place, transcript)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    _remember(place, transcript, ("/other",))
    monkeypatch.undo()
    assert _recall(place, transcript) == FACTS
    assert os.listdir(Path(place).parent) == ["cache"]


def test_a_name_that_is_no_utf8(place: str, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")
    Path(path).write_text("{}\n")
    os.utime(path, (LONG_AGO, LONG_AGO))
    _remember(place, Path(path))
    assert _recall(place, Path(path)) == FACTS


def test_a_directory_with_odd_characters(tmp_path: Path, transcript: Path) -> None:
    place = str(tmp_path / "50% off? #1" / "cache")
    _remember(place, transcript)
    assert _recall(place, transcript) == FACTS


def test_a_large_inode(place: str) -> None:
    stamp = ((1 << 64) - 5, 3, LONG_AGO * 10**9)  # as some network file systems number them
    with Cache(place) as cache:
        cache.remember("/s", stamp, LONG_AGO, FACTS)
    with Cache(place) as cache:
        assert cache.recall("/s", stamp) == FACTS


_WRITER = """
import sys
from agentctl.state.cache import Cache
place, path, number = sys.argv[1:]
sys.stdin.readline()
for turn in range(20):
    with Cache(place) as cache:
        facts = cache.recall(path, (1, 2, 3))
        assert facts is None or facts.startswith("/w"), facts
        cache.remember(path, (1, 2, 3), 0.0, "/w" + number)
"""


def test_many_writers_at_once(place: str, transcript: Path) -> None:
    command = [sys.executable, "-c", _WRITER, place, str(transcript)]
    environ = {"PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"}
    writers = [
        subprocess.Popen(
            [*command, str(number)], env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(8)
    ]
    errors = [writer.communicate(b"\n", timeout=60)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 8, errors
    with Cache(place) as cache:
        assert cache.recall(str(transcript), (1, 2, 3)).startswith("/w")


def test_facts_of_deleted_files_can_be_forgotten(place: str, transcript: Path, tmp_path: Path) -> None:
    deleted = tmp_path / "gone.jsonl"
    deleted.write_text("{}\n")
    os.utime(deleted, (LONG_AGO, LONG_AGO))
    _remember(place, transcript)
    _remember(place, deleted)
    assert module.forget_absent(place) == 0
    deleted.unlink()
    assert module.forget_absent(place, dry_run=True) == 1
    assert module.forget_absent(place) == 1
    assert module.forget_absent(place) == 0
    assert _recall(place, transcript) == FACTS


def test_facts_of_a_file_that_cannot_be_examined_are_kept(place: str, transcript: Path) -> None:
    loop = transcript.parent / "loop"
    loop.symlink_to("loop")
    entry = ((1, 2, 3), FACTS)
    _remember(place, transcript)
    module.save_entries(place, {str(loop): entry, "a\0b": entry})
    assert module.forget_absent(place) == 0


def test_without_a_cache_nothing_is_created(place: str) -> None:
    assert module.forget_absent(place) == 0
    assert not Path(place).exists()
