"""A launch's folder: what the agent is given to read, and what it says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

STREAMS = ("stdout", "stderr")
LAST_WORDS = 5  # lines of each stream
LONGEST = 4096  # bytes of a last word
TAIL = 64 * 1024
WINDOW = 1 << 20  # bytes in memory at once: an agent may have said gigabytes


def make(folder: str, stdin: bytes, files: Iterable[tuple[str, bytes]] = ()) -> None:
    """Private before anything is in it. Raises OSError."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    os.mkdir(folder, mode=0o700)
    for name, content in (("stdin", stdin), *files):
        fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "wb") as file:
            file.write(content)


def remove(folder: str) -> None:
    import shutil  # 2 ms, and seldom needed

    shutil.rmtree(folder, ignore_errors=True)


class Lines:
    """What was written to both streams since the last time, in whole lines. One that is longer than
    WINDOW is left out. Once seen, they are held open: our state may be deleted any time. Use as a
    context manager."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._offsets = dict.fromkeys(STREAMS, 0)
        self._inside_long = dict.fromkeys(STREAMS, False)  # behind the beginning of such a one

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def new(self) -> Iterator[bytes]:
        for stream in STREAMS:
            while data := self._read(stream):
                whole = data[: data.rfind(b"\n") + 1]
                if not whole and len(data) < WINDOW:  # the rest of it is yet to come
                    break
                rest_of_long, self._inside_long[stream] = self._inside_long[stream], not whole
                self._offsets[stream] += len(whole or data)
                yield from whole.split(b"\n")[rest_of_long:-1]

    def _read(self, stream: str) -> bytes:
        if stream not in self._files:
            try:
                self._files[stream] = open(f"{self._folder}/{stream}", "rb")  # noqa: SIM115 - held
            except FileNotFoundError:  # it has not been started yet
                return b""
        file = self._files[stream]
        file.seek(self._offsets[stream])
        return file.read(WINDOW)


def last_words(folder: str) -> tuple[str, ...]:
    """The end of what it said, on both streams: some tell their failure on the one, with a warning on
    the other."""
    said = [line for stream in STREAMS for line in _end_of(f"{folder}/{stream}")]
    return tuple(line[:LONGEST].decode(errors="replace") for line in said)


def _end_of(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            return [line for line in file.read().splitlines() if line.strip()][-LAST_WORDS:]
    except FileNotFoundError:
        return []
