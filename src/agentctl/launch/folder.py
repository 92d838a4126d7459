"""The launch folder: the agent's standard input, extra files, and its output."""

from __future__ import annotations

import os
from typing import BinaryIO

from agentctl.light_typing import Iterable, Iterator

STREAMS = ("stdout", "stderr")
LAST_LINES = 5  # of each stream
LONGEST = 4096  # bytes of a last line
TAIL = 64 * 1024
WINDOW = 1 << 20  # bytes in memory at once: an agent may write gigabytes


def make_folder(folder: str, stdin: bytes, files: Iterable[tuple[str, bytes]] = ()) -> None:
    """Create the folder, private before anything is in it. Raises OSError."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    os.mkdir(folder, mode=0o700)
    for name, content in (("stdin", stdin), *files):
        fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "wb") as file:
            file.write(content)


def remove_folder(folder: str) -> None:
    import shutil  # 2 ms, and seldom needed

    shutil.rmtree(folder, ignore_errors=True)


class Lines:
    """Read the new whole lines of both streams; a line longer than WINDOW is left out. The files stay
    open once opened, because our state may be deleted at any time. Use as a context manager."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._offsets = dict.fromkeys(STREAMS, 0)
        self._inside_long = dict.fromkeys(STREAMS, False)  # the offset is inside a line that is left out

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def read_new(self) -> Iterator[bytes]:
        """Yield the lines that were written since the last call."""
        for stream in STREAMS:
            while data := self._read(stream):
                whole = data[: data.rfind(b"\n") + 1]
                if not whole and len(data) < WINDOW:  # an incomplete line
                    break
                rest_of_long, self._inside_long[stream] = self._inside_long[stream], not whole
                self._offsets[stream] += len(whole or data)
                yield from whole.split(b"\n")[rest_of_long:-1]

    def _read(self, stream: str) -> bytes:
        if stream not in self._files:
            try:
                self._files[stream] = open(f"{self._folder}/{stream}", "rb")  # noqa: SIM115 - stays open
            except FileNotFoundError:  # the agent has not started yet
                return b""
        file = self._files[stream]
        file.seek(self._offsets[stream])
        return file.read(WINDOW)


def last_lines(folder: str) -> tuple[str, ...]:
    """Return the end of both streams: some agents write the error to one and a warning to the other."""
    lines = [line for stream in STREAMS for line in _end_of(f"{folder}/{stream}")]
    return tuple(line[:LONGEST].decode(errors="replace") for line in lines)


def _end_of(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            return [line for line in file.read().splitlines() if line.strip()][-LAST_LINES:]
    except FileNotFoundError:
        return []
