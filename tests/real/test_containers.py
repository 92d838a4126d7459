"""This run's real agent in a container, with a home of its own at the same path as ours: its status
comes from its own files, never from those of the other home."""

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

# The same settings, in a file system that no other process sees.
CONTAINER = """#!/bin/sh
exec unshare --mount --pid --fork --kill-child --mount-proc sh -ec '
    mount -t tmpfs none "$HOME"; cp -a {copy}/. "$HOME"
    exec "$0" "$@"' {program} "$@"
"""


def test_two_homes_of_one_path(desk: Desk) -> None:
    if desk.facts.late:
        pytest.skip("it writes nothing before its first answer is complete: there is no session")
    lab = desk.lab
    copy, container = lab.root / "copy", lab.root / "container"
    shutil.copytree(lab.home, copy, symlinks=True, ignore_dangling_symlinks=True)
    outside = lab.headless("[[gate=%]] count", cwd=desk.work)
    outside.heard("held")
    container.write_text(CONTAINER.format(program=lab.program, copy=copy))
    container.chmod(0o755)
    inside = lab.headless("[[gate=%]] count", cwd=desk.work, program=str(container))
    inside.heard("held")
    rows = lab.row_with(outside.mark), lab.row_with(inside.mark)
    assert [row["status"] for row in rows] == ["running", "running"]
    assert len({row["pid"] for row in rows}) == 2
    assert _reads_its_own(rows[1])

    outside.signal(signal.SIGKILL)
    until(
        lambda: lab.row_by_id(rows[0]["id"])["status"] == "stopped",  # unknown while the kernel ends it
        "the one outside is stopped",
        PATIENCE,
    )
    row = lab.row_by_id(rows[0]["id"])
    assert (row["status"], row["outcome"]) == ("stopped", "killed")
    now = lab.row_by_id(rows[1]["id"])
    assert (now["status"], now["pid"]) == ("running", rows[1]["pid"])

    inside.opens()
    inside.heard("answered")
    until(lambda: not [r for r in lab.rows() if r["pid"] == rows[1]["pid"]], "it has ended", PATIENCE)


def _reads_its_own(row: dict[str, Any]) -> bool:
    """Every path of its evidence exists, and leads into the container."""
    paths = [e["address"] for e in row["evidence"] if e["address"].startswith("/")]
    plain = [path.partition("#")[0].partition("@")[0] for path in (*paths, row["transcript"])]
    within = f"/proc/{row['pid']}/root/"
    return bool(plain) and all(p.startswith(within) and os.path.exists(Path(p)) for p in plain)
