"""Find an interpreter of one version on this machine: on PATH, or where people keep several."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping

# {version} is 3.14, {short} is 314.
USUAL = (
    "~/.pyenv/versions/{version}.*/bin/python{version}",
    "~/.local/share/uv/python/cpython-{version}.*/bin/python{version}",
    "~/.local/bin/python{version}",
    "/opt/python/cp{short}-cp{short}/bin/python{version}",
    "/opt/python/{version}*/bin/python{version}",
    "/usr/local/bin/python{version}",
    "/usr/bin/python{version}",
)
# What the suite imports, and a build from source may lack.
PROBE = "import ctypes, sqlite3, ssl, sys, venv; print('%d.%d' % sys.version_info[:2])"


def find(version: str, environ: Mapping[str, str]) -> str | None:
    return next((path for path in candidates(version, environ) if works(path, version)), None)


def candidates(version: str, environ: Mapping[str, str]) -> Iterator[str]:
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        program = shutil.which(f"python{version}", path=directory)
        if program is not None:
            yield program
    home = environ.get("HOME") or "/nonexistent"
    for pattern in USUAL:
        place = pattern.format(version=version, short=version.replace(".", ""))
        yield from sorted(glob.glob(place.replace("~", glob.escape(home), 1)))


def works(path: str, version: str) -> bool:
    """Return True if it runs: the shim of a version manager may exist and run nothing."""
    try:
        ran = subprocess.run(
            [path, "-I", "-c", PROBE], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0 and ran.stdout.strip() == version
