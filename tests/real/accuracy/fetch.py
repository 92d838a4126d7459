"""Installs the other tools that the benchmark measures into .agents/tools/, pinned by version and hash.

Each has a virtual environment of its own, is one wheel and brings nothing else: no code of it runs here.
The stamp is written last; a tool whose stamp is right costs nothing. A tool that cannot be installed is
no failure of the benchmark, which then says that it was not measured.

    python -m tests.real.accuracy.fetch [TOOL…]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.real.install import Failed, installer
from tests.real.pins import STAMP, folder, is_stamped

TOOLS = Path(__file__).with_name("tools.json")


class Pin(NamedTuple):
    name: str
    registry: str
    package: str
    version: str
    licence: str
    sha256: str  # of its wheel

    @property
    def place(self) -> Path:
        return folder() / "tools" / self.name

    @property
    def commands(self) -> Path:
        return self.place / "bin"

    @property
    def stamp(self) -> str:
        return f"{self.registry} {self.package} {self.version} {self.sha256}\n"

    @property
    def installed(self) -> bool:
        return is_stamped(self.place, self.stamp)


def pins() -> dict[str, Pin]:
    read = json.loads(TOOLS.read_text())
    return {name: Pin(name=name, **fields) for name, fields in read.items()}


def install(pin: Pin) -> None:
    if pin.registry != "pypi":
        raise Failed(f"nothing here fetches from {pin.registry}")
    shutil.rmtree(pin.place, ignore_errors=True)
    pin.place.parent.mkdir(parents=True, exist_ok=True)
    installer(Path.cwd(), sys.executable, "-m", "venv", "--without-pip", str(pin.place))
    requirements = pin.place / "requirements.txt"
    requirements.write_text(f"{pin.package}=={pin.version} --hash=sha256:{pin.sha256}\n")
    into = ["--python", str(pin.commands / "python")]
    # a wheel is unpacked, where a source would be run; nothing that it might depend on comes along
    only = ["--no-deps", "--only-binary", ":all:", "--require-hashes"]
    installer(
        Path.cwd(),
        sys.executable,
        "-m",
        "pip",
        *into,
        "install",
        "--quiet",
        *only,
        "-r",
        str(requirements),
    )
    (pin.place / STAMP).write_text(pin.stamp)


def main(argv: Sequence[str] = ()) -> int:
    """Return 0 if all requested tools are installed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.accuracy.fetch", description="Installs the tools to compare with."
    )
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"one of: {', '.join(pins())}")
    names = parser.parse_args(argv).tools or list(pins())
    unknown = [name for name in names if name not in pins()]
    if unknown:
        parser.error(f"no tool is called {unknown[0]}; there are {', '.join(pins())}")
    missing = 0
    for pin in (pins()[name] for name in names):
        if pin.installed:
            print(f"{pin.name} {pin.version}: present")
            continue
        try:
            install(pin)
        except (Failed, OSError) as error:
            missing += 1
            print(f"{pin.name} {pin.version} is not measured: {error}", file=sys.stderr)
        else:
            print(f"{pin.name} {pin.version}: installed")
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
