"""Which real agents the lab runs, in which version, and where they lie: versions.json, read.

An agent has a name here (`pi-old`), an adapter that knows it (`pi`) and a command that people type.
`.agents/NAME/bin/COMMAND` is that command alone; `.agents/bin/` has one for every agent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
VERSIONS = Path(__file__).with_name("versions.json")
CHOSEN = "AGENTCTL_REAL"  # the agent that a run of the suite is about
ELSEWHERE = "AGENTCTL_AGENTS"  # a folder to use in place of .agents
STAMP = ".installed"
NODE = "node"


class Pin(NamedTuple):
    name: str
    package: str
    version: str
    command: str
    adapter: str
    unpack: str = (
        ""  # not installed but unpacked, since a dependency cannot be had; this file is the program
    )
    beside: Mapping[str, str] = {}  # packages that an unpacked one does need, with their versions
    on_node: bool = False  # runs on the pinned Node: the machine's may be too old for it

    @property
    def place(self) -> Path:
        return folder() / self.name

    @property
    def commands(self) -> Path:
        """A folder for PATH in which this agent is called as people call it."""
        return self.place / "bin"

    @property
    def stamp(self) -> str:
        """What was installed, exactly: any change of the pin is another stamp."""
        beside = "".join(f" {package}@{version}" for package, version in self.beside.items())
        return f"{self.package}@{self.version}{beside}\n"

    @property
    def installed(self) -> bool:
        return is_stamped(self.place, self.stamp)


def is_stamped(place: Path, stamp: str) -> bool:
    """Whether just this was installed there: the stamp is written last."""
    try:
        return (place / STAMP).read_text() == stamp
    except FileNotFoundError:
        return False


def folder() -> Path:
    return Path(os.environ.get(ELSEWHERE) or PROJECT / ".agents").absolute()


def pins() -> dict[str, Pin]:
    """All that is pinned, Node too."""
    read = json.loads(VERSIONS.read_text())
    return {name: Pin(name=name, **{"adapter": name, **fields}) for name, fields in read.items()}


def agents() -> dict[str, Pin]:
    return {name: pin for name, pin in pins().items() if name != NODE}


def chosen() -> Pin | None:
    """The agent that this run of the suite is about; None: no run of the suite."""
    name = os.environ.get(CHOSEN)
    return agents()[name] if name else None
