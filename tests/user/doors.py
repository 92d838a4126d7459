"""Lets an ordinary user reach directories that lie below a closed one, such as a clone or a Python in
/root. Needs a mount namespace of its own: the machine's directories keep their modes.

A closed directory is covered with an empty one that everybody may enter, and what is needed below it is
mounted there again, under the same name. What itself may not be read is copied first.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Large or private, and no test reads it.
LEFT_OUT = shutil.ignore_patterns(".agents", ".git", "build", "dist", ".*_cache", "__pycache__")


def open_doors(needed: Iterable[Path], workshop: Path) -> None:
    """`workshop`: an empty directory for what is mounted or copied on the way."""
    paths = outermost(path.resolve() for path in needed)
    kept = {}
    for number, path in enumerate(path for path in paths if not is_reachable(path)):
        kept[path] = workshop / str(number)
        kept[path].mkdir()
        if is_readable(path):
            mount("--rbind", path, kept[path])
        else:
            copy(path, kept[path])
    for door in outermost(closed for closed in map(first_closed, kept) if closed is not None):
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", door)
    for path, source in kept.items():
        path.mkdir(parents=True, exist_ok=True)
        mount("--rbind", source, path)


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Without those that lie below another."""
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def is_reachable(path: Path) -> bool:
    return first_closed(path) is None and is_readable(path)


def first_closed(path: Path) -> Path | None:
    """The outermost directory above `path` that others may not enter."""
    above = reversed(path.parents)
    return next((each for each in above if not each.stat().st_mode & stat.S_IXOTH), None)


def is_readable(path: Path) -> bool:
    """Others may read the directory and what lies in it. One look at the top tells: a closed umask
    closes everything below."""
    modes = [path.stat().st_mode, *(entry.stat().st_mode for entry in _entries(path))]
    return all(mode & stat.S_IROTH and _enterable(mode) for mode in modes)


def _entries(path: Path) -> list[Path]:
    """What a clone and an interpreter have at the top, but not what tools leave there."""
    return [each for each in path.iterdir() if not each.name.startswith(".") and each.exists()]


def _enterable(mode: int) -> bool:
    return not stat.S_ISDIR(mode) or bool(mode & stat.S_IXOTH)


def copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=LEFT_OUT, dirs_exist_ok=True)
    for top, _, files in os.walk(target):
        for name in (top, *(os.path.join(top, each) for each in files)):
            if not os.path.islink(name):
                mode = os.stat(name).st_mode
                os.chmod(name, mode | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)
