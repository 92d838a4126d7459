"""Runs the suite on the real agents, one room for each, several at once: `make test-real`.

What is missing is printed, one line each, with what to do about it, and nothing runs: exit code 2. A run
in which no test ran has failed. Each agent's output goes to build/real/ and is printed at the end of its
room.

    python -m tests.real.run [-j ROOMS] [AGENT…] [-- WORDS FOR PYTEST…]
"""

from __future__ import annotations

import argparse
import os
import select
import selectors
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agentctl.rehearsal import sandbox
from tests.real.pins import CHOSEN, PROJECT, Pin, agents, folder, pins

BUILD = PROJECT / "build" / "real"
SUITE = "tests/real"
AT_ONCE = 2


class Result(NamedTuple):
    passed: int
    failed: int
    skipped: int
    code: int  # of pytest; 5 if no test ran

    @property
    def good(self) -> bool:
        return self.code == 0 and self.passed > 0

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        if self.good or self.failed:
            return counts
        return f"{counts}: no test has passed (pytest ended with {self.code})"


class Rooms:
    """The rooms that are open now. All are ended when this is left, whatever the reason."""

    def __init__(self, into: Path) -> None:
        self._into = into
        self._selector = selectors.DefaultSelector()
        self._open: dict[int, tuple[Pin, subprocess.Popen[bytes], float]] = {}

    def __enter__(self) -> Rooms:
        return self

    def __exit__(self, *_: object) -> None:
        for handle, (_pin, program, _began) in self._open.items():
            end(program)
            os.close(handle)
        self._selector.close()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, pin: Pin, words: Sequence[str]) -> None:
        program = start(pin, words, self._into)
        handle = os.pidfd_open(program.pid)
        self._open[handle] = (pin, program, time.monotonic())
        self._selector.register(handle, selectors.EVENT_READ)

    def next(self) -> tuple[Pin, Result, float]:
        """Waits for a room to end."""
        handle = self._selector.select()[0][0].fd
        self._selector.unregister(handle)
        pin, program, began = self._open.pop(handle)
        os.close(handle)
        return pin, read_result(report(pin, self._into), program.wait()), time.monotonic() - began


def end(program: subprocess.Popen[bytes]) -> None:
    """End a room, and return when all its processes are gone. Its process 1 dies with `program`; the
    kernel reports that end only after it has ended all others in there: that is what we wait for."""
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    firsts = [os.pidfd_open(int(pid)) for pid in children]
    program.kill()
    program.wait()
    for first in firsts:
        select.select([first], [], [])
        os.close(first)


def start(pin: Pin, words: Sequence[str], into: Path) -> subprocess.Popen[bytes]:
    """A session of its own: Ctrl-C reaches us alone, and we end the rooms."""
    own = [] if any(_is_path(word) for word in words) else [SUITE]
    pytest = [sys.executable, "-m", "pytest", *own, "-n", "0", "-p", "no:cacheprovider"]
    report(pin, into).unlink(missing_ok=True)
    path = os.pathsep.join([str(pin.commands), os.environ.get("PATH", os.defpath)])
    with open(log(pin, into), "wb") as output:
        return subprocess.Popen(
            sandbox.command_line(
                [*pytest, f"--junit-xml={report(pin, into)}", *words], [str(folder()), str(into)]
            ),
            cwd=PROJECT,
            env={**os.environ, CHOSEN: pin.name, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _is_path(word: str) -> bool:
    return not word.startswith("-") and (PROJECT / word.partition("::")[0]).exists()


def report(pin: Pin, into: Path) -> Path:
    return into / f"{pin.name}.xml"


def log(pin: Pin, into: Path) -> Path:
    return into / f"{pin.name}.log"


def read_result(path: Path, code: int) -> Result:
    """From pytest's own report; without one, nothing has passed."""
    try:
        suites = list(ET.parse(path).getroot().iter("testsuite"))
    except (FileNotFoundError, ET.ParseError):
        return Result(0, 0, 0, code)
    total, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return Result(max(total - failed - skipped, 0), failed, skipped, code)


def missing(choice: Sequence[Pin]) -> list[str]:
    """Why the suite cannot run here: one line for each reason, with what to do."""
    reasons = []
    obstacle = sandbox.find_obstacle()
    if obstacle is not None:
        reasons.append(
            f"no room can be made for the agents ({obstacle}): "
            "run as root, or where users may make namespaces"
        )
    if shutil.which("tmux") is None:
        reasons.append("tmux is not there, and the agents' terminals run in it: install tmux")
    if shutil.which("node") is None and any(not pin.on_node for pin in choice):
        reasons.append("node is not there, and Codex starts through it: install Node.js 20 or newer")
    needed = [pins()["node"], *choice] if any(pin.on_node for pin in choice) else choice
    absent = [f"{pin.name} {pin.version}" for pin in needed if not pin.installed]
    if absent:
        reasons.append(f"not installed in {folder()}: {', '.join(absent)}: run `make agents`")
    return reasons


def run(choice: Sequence[Pin], words: Sequence[str], at_once: int, into: Path) -> dict[str, str]:
    """Prints each agent's output as its room ends, then all results; returns those that are not good."""
    into.mkdir(parents=True, exist_ok=True)
    waiting, lines, bad = list(choice), {}, {}
    with Rooms(into) as rooms:
        while waiting or len(rooms):
            while waiting and len(rooms) < at_once:
                pin = waiting.pop(0)
                print(
                    f"{pin.name} {pin.version}: started, {os.path.relpath(log(pin, into))}", flush=True
                )
                rooms.open(pin, words)
            pin, result, seconds = rooms.next()
            print(
                f"\n== {pin.name} {pin.version}\n{log(pin, into).read_text(errors='replace')}",
                flush=True,
            )
            lines[pin.name] = f"{pin.name:<12} {result}, {seconds:.0f} s"
            if not result.good:
                bad[pin.name] = str(result)
    print("== real agents")
    for pin in choice:
        print(lines[pin.name])
    return bad


def main(argv: Sequence[str]) -> int:
    before, after = _split(argv)
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.run",
        description="Runs the suite on the real agents, one room for each.",
        epilog="Words after -- go to pytest.",
    )
    parser.add_argument(
        "agents", nargs="*", metavar="AGENT", help=f"{', '.join(agents())}; all by default"
    )
    parser.add_argument("-j", type=int, default=AT_ONCE, metavar="ROOMS", help="rooms at once")
    parser.add_argument("--into", type=Path, default=BUILD, metavar="DIR", help="for logs and reports")
    options = parser.parse_args(before)
    unknown = [name for name in options.agents if name not in agents()]
    if unknown:
        parser.error(f"no agent is called {unknown[0]}; there are {', '.join(agents())}")
    choice = [agents()[name] for name in dict.fromkeys(options.agents or agents())]
    obstacles = missing(choice)
    for line in obstacles:
        print(f"test-real: {line}", file=sys.stderr)
    if obstacles:
        return 2
    try:
        return 1 if run(choice, after, max(options.j, 1), options.into.absolute()) else 0
    except KeyboardInterrupt:
        print("\ninterrupted: all rooms are ended", file=sys.stderr)
        return 130


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
