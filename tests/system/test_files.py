"""Reads of other programs' files: bounded, never blocking, and whole lines only."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import Forbidden, Gone, Malformed, Temporary
from agentctl.system import files

Read = Callable[[str], files.Piece]
READS: list[Read] = [
    files.read_file,
    files.read_tail,
    files.read_first_lines,
    lambda path: files.read_head(path, 10),
    lambda path: files.read_before(path, 5),
]


@pytest.mark.parametrize("read", READS)
def test_a_file_that_is_not_regular_is_malformed(tmp_path: Path, read: Read) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (str(fifo), str(tmp_path), "/dev/zero", "/dev/tty", "a\0b"):
        with pytest.raises(Malformed):
            read(path)


@pytest.mark.parametrize("read", READS)
def test_a_missing_file_is_gone(tmp_path: Path, read: Read) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nothing", tmp_path / "file" / "below"):
        with pytest.raises(Gone):
            read(str(path))
    with pytest.raises(Gone):
        files.list_names(str(tmp_path / "nothing"))
    assert not files.is_present(str(tmp_path / "nothing"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_file_without_permission_is_forbidden(tmp_path: Path) -> None:
    locked, hidden = tmp_path / "locked", tmp_path / "hidden"
    locked.write_text("secret\n")
    locked.chmod(0)
    hidden.mkdir(mode=0o700)
    tmp_path.chmod(0o711)
    calls: list[Callable[[], object]] = [
        lambda: files.read_tail("locked"),
        lambda: files.list_names("hidden"),
        lambda: files.is_present("hidden/x"),
    ]
    child = os.fork()
    if child == 0:
        refusals = 0
        try:
            os.chdir(tmp_path)  # the directories above need not be open to every user
            os.setgroups([])
            os.setresuid(65534, 65534, 65534)
            for call in calls:
                try:
                    call()
                except Forbidden:
                    refusals += 1
        finally:
            os._exit(refusals)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)


def test_a_file_that_is_too_large_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(b"x" * 101)
    assert files.read_file(str(path), 101).data == b"x" * 101
    with pytest.raises(Malformed, match="101 bytes"):
        files.read_file(str(path), 100)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes of each read."""
    lengths: list[int] = []
    pread = os.pread

    def count_read(fd: int, length: int, offset: int) -> bytes:
        lengths.append(length)
        return pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", count_read)
    return lengths


def test_the_end_of_a_huge_file_is_one_small_read(tmp_path: Path, reads: list[int]) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.truncate(5 << 30)  # sparse: it takes no room
        file.seek(0, os.SEEK_END)
        file.write(b"\nfirst\nlast\n")
    piece = files.read_tail(str(path), 16)
    assert piece.data == b"first\nlast\n"
    assert piece.offset == (5 << 30) + 1
    assert not piece.is_whole
    assert reads == [16]


def test_a_line_longer_than_the_largest_window_is_not_read(tmp_path: Path, reads: list[int]) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.truncate(5 << 30)
    assert files.read_tail(str(path)).data == b""
    assert sum(reads) < 3 * 8 * files.WINDOW_CAP


def test_the_window_grows_to_hold_a_long_line(tmp_path: Path, reads: list[int]) -> None:
    path = tmp_path / "long.jsonl"
    line = b"x" * 300_000 + b"\n"
    path.write_bytes(b"before\n" * 100_000 + line)
    piece = files.read_tail(str(path))
    assert piece.data.endswith(b"\n" + line)
    assert reads == [files.WINDOW, files.WINDOW * 8]
    assert files.read_first_lines(str(path), 4).data.startswith(b"before\n")


def test_the_first_window_grows_to_hold_a_line(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"x" * 300_000 + b"\nrest\n")
    assert b"\n" in files.read_first_lines(str(path), 1024).data


LINES = st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"_")), max_size=30)


@given(lines=LINES, torn=st.binary(max_size=20), window=st.integers(1, 400))
def test_a_tail_is_a_suffix_of_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], torn: bytes, window: int
) -> None:
    """Every line that lies in the window, none in part, and at least one if there is any."""
    data = b"".join(line + b"\n" for line in lines) + torn.replace(b"\n", b"_")
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(data)
    piece = files.read_tail(str(path), window)
    assert piece.data == data[piece.offset :]
    assert piece.offset == 0 or data[piece.offset - 1 : piece.offset] == b"\n"
    assert piece.is_whole == (piece.offset == 0)
    starts = [0] + [i + 1 for i, byte in enumerate(data) if byte == 10]
    inside = [start for start in starts if start > len(data) - window]
    assert piece.offset <= min(inside, default=len(data))
    if lines:
        assert b"\n" in piece.data


@given(lines=LINES.filter(bool), window=st.integers(1, 400))
def test_pieces_read_backwards_make_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], window: int
) -> None:
    data = b"".join(line + b"\n" for line in lines)
    path = tmp_path_factory.getbasetemp() / "all.jsonl"
    path.write_bytes(data)
    piece = files.read_tail(str(path), window)
    data_read = piece.data
    while piece.offset:
        piece = files.read_before(str(path), piece.offset, window)
        assert piece.data
        data_read = piece.data + data_read
    assert data_read == data


def test_a_full_disk_is_a_temporary_error() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        assert isinstance(files.translate_error(OSError(number, "full"), "/x"), Temporary)
    assert not isinstance(files.translate_error(OSError(errno.EACCES, "no"), "/x"), Temporary)
