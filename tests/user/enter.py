"""Become the ordinary user and run a program: the inside of `tests.user.run`, in a mount namespace of
its own. Starts as root.

    python -m tests.user.enter UID BASE -- PROGRAM WORDS…
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.user.account import NAME, Account
from tests.user.doors import mount, open_doors

PROJECT = Path(__file__).parents[2]
PASSED_ON = ("LANG", "LC_ALL", "TERM", "TZ", "AGENTCTL_AGENTS")


def main(arguments: Sequence[str]) -> None:
    uid, base = int(arguments[0]), Path(arguments[1])
    account = Account(uid, base / "home")
    list_account(account, base)
    workshop = base / "doors"
    workshop.mkdir()
    open_doors([PROJECT, Path(sys.prefix), Path(sys.base_prefix)], workshop)
    become(uid)
    os.chdir(PROJECT)
    program = list(arguments[arguments.index("--") + 1 :])
    os.execve(program[0], program, environment(account, base, os.environ))


def list_account(account: Account, base: Path) -> None:
    for name, changed in (("passwd", account.passwd), ("group", account.group)):
        (base / name).write_text(changed(Path("/etc", name).read_text()))
        mount("--bind", base / name, f"/etc/{name}")


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def environment(account: Account, base: Path, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that the user has after a login, not root's."""
    passed_on = {name: ours[name] for name in PASSED_ON if name in ours}
    return {
        **passed_on,
        "HOME": str(account.home),
        "USER": NAME,
        "LOGNAME": NAME,
        "SHELL": "/bin/sh",
        "TMPDIR": str(base / "tmp"),
        "PATH": os.pathsep.join(usable(ours.get("PATH", os.defpath).split(os.pathsep))),
        "PYTHONPYCACHEPREFIX": str(base / "tmp" / "bytecode"),
    }


def usable(directories: Iterable[str]) -> list[str]:
    return [each for each in directories if os.access(each, os.R_OK | os.X_OK)]


if __name__ == "__main__":
    main(sys.argv[1:])
