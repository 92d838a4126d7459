"""A stand-in for npm: brings any pinned package as a small program, without a network.

`broken` in its folder: a package that cannot be had. `lazy`: one whose install script was not run.
Each call is a line in `calls`.
"""

import io
import json
import os
import sys
import tarfile
from pathlib import Path

from tests.real.pins import Pin, pins

HERE = Path(sys.argv[0]).parent
SCRIPT = "#!/usr/bin/env node\n"
PLACEHOLDER = "echo the postinstall script was not run\n"


def install() -> None:
    packages = json.loads(Path("package.json").read_text())["dependencies"]
    refuse(packages)
    commands = Path("node_modules", ".bin")
    commands.mkdir(parents=True)
    for pin in pins().values():
        if pin.package in packages:
            program = commands / pin.command
            program.write_text(PLACEHOLDER if read_setting("lazy") == pin.package else SCRIPT)
            program.chmod(0o755)


def pack(spec: str) -> None:
    package, _, version = spec.rpartition("@")
    refuse([package])
    pin = next(pin for pin in pins().values() if (pin.package, pin.version) == (package, version))
    with tarfile.open("package.tgz", "w:gz") as archive:
        archive.addfile(*_member(pin))


def _member(pin: Pin) -> tuple[tarfile.TarInfo, io.BytesIO]:
    member = tarfile.TarInfo(f"package/{pin.unpack}")
    member.size = len(SCRIPT)
    return member, io.BytesIO(SCRIPT.encode())


def refuse(packages: list[str]) -> None:
    if read_setting("broken") in packages:
        print("npm error code EAI_AGAIN\nnpm error getaddrinfo: the registry cannot be reached")
        sys.exit(1)


def read_setting(name: str) -> str:
    path = HERE / name
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    with open(HERE / "calls", "a", encoding="utf-8") as calls:
        calls.write(f"{os.path.basename(os.getcwd())} {sys.argv[1]}\n")
    install() if sys.argv[1] == "install" else pack(sys.argv[2])
