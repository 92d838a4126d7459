"""Let an ordinary user reach directories that lie below a closed one, such as a clone or a Python in
/root. Needs a mount namespace of its own: the machine's directories keep their modes.

A closed directory is covered with an empty one that all users may enter, and what is needed below it is
mounted there again, under the same name. What other users may not read is copied first.
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
    paths = drop_nested(path.resolve() for path in needed)
    sources = {}
    for number, path in enumerate(path for path in paths if not is_reachable(path)):
        sources[path] = workshop / str(number)
        sources[path].mkdir()
        if is_readable(path):
            mount("--rbind", path, sources[path])
        else:
            copy(path, sources[path])
    for door in drop_nested(closed for closed in map(find_closed_parent, sources) if closed is not None):
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", door)
    for path, source in sources.items():
        path.mkdir(parents=True, exist_ok=True)
        mount("--rbind", source, path)


def drop_nested(paths: Iterable[Path]) -> list[Path]:
    """Leave out the paths that lie below another."""
    outer: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in outer):
            outer.append(path)
    return outer


def is_reachable(path: Path) -> bool:
    return find_closed_parent(path) is None and is_readable(path)


def find_closed_parent(path: Path) -> Path | None:
    """Return the outermost directory above `path` that others may not enter."""
    above = reversed(path.parents)
    return next((each for each in above if not each.stat().st_mode & stat.S_IXOTH), None)


def is_readable(path: Path) -> bool:
    """Return True if others may read the directory and its content. The top is enough to know: a closed
    umask closes everything below."""
    modes = [path.stat().st_mode, *(entry.stat().st_mode for entry in _entries(path))]
    return all(mode & stat.S_IROTH and _is_enterable(mode) for mode in modes)


def _entries(path: Path) -> list[Path]:
    """Return what a clone or an interpreter has at the top, without what tools leave there."""
    return [each for each in path.iterdir() if not each.name.startswith(".") and each.exists()]


def _is_enterable(mode: int) -> bool:
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
