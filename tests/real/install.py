"""Installs the pinned real agents from npm into .agents/: `make agents`.

npm is the machine's own, with its own configuration and cache: a cache in .agents/ would be gone with
every clean checkout, just when it is useful. All else is written below .agents/. An agent appears there
whole, with its stamp, or not at all; one whose stamp is right costs nothing.

    python -m tests.real.install [AGENT…]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.real.pins import NODE, STAMP, Pin, folder, pins

AT_ONCE = 3
SHOWN = 12  # lines of npm's output
QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


class Failed(Exception):
    """An agent that could not be installed, and why."""


def install(pin: Pin) -> None:
    new = folder() / f".new-{pin.name}"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    _fetch(pin, new)
    if pin.unpack:
        _unpack(pin, new)
    _command(pin, new)
    (new / STAMP).write_text(pin.stamp)
    shutil.rmtree(pin.place, ignore_errors=True)
    new.rename(pin.place)


def _fetch(pin: Pin, new: Path) -> None:
    packages = pin.beside if pin.unpack else {pin.package: pin.version}
    project = {
        "private": True,
        "dependencies": packages,
        # newer versions of npm run install scripts only for the packages named here
        "allowScripts": dict.fromkeys(packages, True),
    }
    (new / "package.json").write_text(json.dumps(project))
    # without their scripts, two agents are a text file that says so
    installer(new, "npm", "install", "--no-package-lock", "--ignore-scripts=false", *QUIET)


def _unpack(pin: Pin, new: Path) -> None:
    """The package alone, where npm would have put it."""
    installer(new, "npm", "pack", f"{pin.package}@{pin.version}", "--ignore-scripts", *QUIET)
    [archive] = new.glob("*.tgz")
    # the tarfile of Debian 12's Python knows no safe filter yet
    installer(new, "tar", "-xzf", archive.name)
    archive.unlink()
    home = new / "node_modules" / pin.package
    home.parent.mkdir(parents=True, exist_ok=True)
    (new / "package").rename(home)
    program = home / pin.unpack
    program.chmod(0o755)
    link = new / "node_modules" / ".bin" / pin.command
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(os.path.relpath(program, link.parent))


def _command(pin: Pin, new: Path) -> None:
    """A link keeps the name under which a native agent is seen by the kernel; a script must exec."""
    program = Path("node_modules", ".bin", pin.command)
    if not os.access(new / program, os.X_OK):
        raise Failed(f"{pin.package} has brought no {pin.command}")
    with open(new / program, "rb") as program_file:
        if program_file.read(4) != b"\x7fELF" and not _is_script(new / program):
            raise Failed(
                f"{pin.command} is a placeholder: npm has not run the install scripts of {pin.package}"
            )
    command = new / "bin" / pin.command
    command.parent.mkdir()
    if pin.on_node:
        command.write_text(f'#!/bin/sh\nexec "{_node()}" "{pin.place / program}" "$@"\n')
        command.chmod(0o755)
    else:
        command.symlink_to(Path("..") / program)


def _is_script(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(20) == b"#!/usr/bin/env node\n"


def _node() -> Path:
    return pins()[NODE].commands / NODE


def installer(where: Path, *words: str) -> None:
    """Runs npm, pip and the like. Raises Failed, with the end of its output."""
    process = subprocess.run(
        words,
        cwd=where,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if process.returncode != 0:
        last = [f"    {line}" for line in process.stdout.rstrip().splitlines()[-SHOWN:]]
        raise Failed(
            "\n".join(
                [f"{_name_command(words)} ended with {process.returncode}; its last words:", *last]
            )
        )


def _name_command(words: Sequence[str]) -> str:
    """`npm install`, `pip`."""
    return words[2] if words[1] == "-m" else " ".join(words[:2])


def _attempt(pin: Pin) -> str | None:
    """What went wrong; None: nothing."""
    began = time.monotonic()
    try:
        install(pin)
    except (Failed, OSError) as error:
        return f"{pin.name} {pin.version} could not be installed: {error}"
    print(f"{pin.name} {pin.version}: installed in {time.monotonic() - began:.0f} s", flush=True)
    return None


def link_all() -> None:
    """`.agents/bin`: every installed agent, each under its own name."""
    everyone = folder() / "bin"
    everyone.mkdir(parents=True, exist_ok=True)
    for pin in pins().values():
        if (
            pin.installed and pin.name != NODE
        ):  # on a PATH, this Node would take the place of the machine's
            link = everyone / (pin.command if pin.name == pin.adapter else pin.name)
            link.unlink(missing_ok=True)
            link.symlink_to(Path("..", pin.name, "bin", pin.command))


@contextmanager
def _alone() -> Iterator[None]:
    """One installation at a time in this folder; the next one finds the work done."""
    folder().mkdir(parents=True, exist_ok=True)
    with open(folder() / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def select_pins(names: Iterable[str]) -> list[Pin]:
    """The pins of these names (all pins without names), and the Node that they run on."""
    all_pins = pins()
    chosen = [all_pins[name] for name in names] or list(all_pins.values())
    if any(pin.on_node for pin in chosen) and all_pins[NODE] not in chosen:
        chosen.insert(0, all_pins[NODE])
    return chosen


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.install", description="Installs the real agents."
    )
    parser.add_argument(
        "agents", nargs="*", metavar="AGENT", help=f"one of: {', '.join(pins())}; all by default"
    )
    names = parser.parse_args(argv).agents
    unknown = [name for name in names if name not in pins()]
    if unknown:
        parser.error(f"no agent is called {unknown[0]}; there are {', '.join(pins())}")
    if all(pin.installed for pin in select_pins(names)):
        print(f"all present in {folder()}")
        link_all()
        return 0
    if shutil.which("npm") is None:
        print(
            "npm is not there, and the agents come from it: install Node.js 20 or newer", file=sys.stderr
        )
        return 2
    with _alone():
        absent = [pin for pin in select_pins(names) if not pin.installed]
        print(f"installing {', '.join(pin.name for pin in absent)} into {folder()}", flush=True)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            failures = [failure for failure in pool.map(_attempt, absent) if failure is not None]
        link_all()
    for failure in failures:
        print(failure, file=sys.stderr)
    return 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
