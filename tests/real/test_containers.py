"""This run's real agent in a container, with a home of its own at the path that ours has: its own files
speak for it, and the other home's never do."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.real.actor import PATIENCE
from tests.real.desk import Desk
from tests.waiting import until

# The same settings, in a file system that nobody else sees.
CONTAINER = """#!/bin/sh
exec unshare --mount --pid --fork --kill-child --mount-proc sh -ec '
    mount -t tmpfs none "$HOME"; cp -a {copy}/. "$HOME"
    exec "$0" "$@"' {program} "$@"
"""


def test_two_homes_of_one_path(desk: Desk) -> None:
    if desk.facts.late:
        pytest.skip("it writes nothing before its first answer is complete: there is no session to tell")
    lab = desk.lab
    copy, container = lab.root / "copy", lab.root / "container"
    shutil.copytree(lab.home, copy, symlinks=True, ignore_dangling_symlinks=True)
    outside = lab.headless("[[gate=%]] count", cwd=desk.work)
    outside.heard("held")
    container.write_text(CONTAINER.format(program=lab.program, copy=copy))
    container.chmod(0o755)
    inside = lab.headless("[[gate=%]] count", cwd=desk.work, program=str(container))
    inside.heard("held")
    told = lab.row_with(outside.mark), lab.row_with(inside.mark)
    assert [row["status"] for row in told] == ["running", "running"]
    assert len({row["pid"] for row in told}) == 2
    assert _reads_its_own(told[1])

    outside.signal(signal.SIGKILL)
    until(
        lambda: lab.row_by_id(told[0]["id"])["status"] != "running",
        "the one outside is gone",
        PATIENCE,
    )
    ended = lab.row_by_id(told[0]["id"])
    assert (ended["status"], ended["outcome"]) == ("stopped", "killed")
    now = lab.row_by_id(told[1]["id"])
    assert (now["status"], now["pid"]) == ("running", told[1]["pid"])

    inside.opens()
    inside.heard("answered")
    until(lambda: not [r for r in lab.rows() if r["pid"] == told[1]["pid"]], "it has ended", PATIENCE)


def _reads_its_own(row: dict[str, Any]) -> bool:
    """Every path that is named can be looked up, and leads into the container."""
    paths = [e["address"] for e in row["evidence"] if e["address"].startswith("/")]
    plain = [path.partition("#")[0].partition("@")[0] for path in (*paths, row["transcript"])]
    within = f"/proc/{row['pid']}/root/"
    return bool(plain) and all(p.startswith(within) and os.path.exists(Path(p)) for p in plain)
