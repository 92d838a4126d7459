"""This run's real agent under other names: as Nix, a release archive, another installer or a link names
it. Under every name it is listed as alive, and as killed after it was."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.real.actor import PATIENCE, Actor
from tests.real.desk import Desk
from tests.waiting import until

NAMES = {
    "claude-code": (".claude-wrapped", "any-name"),
    "codex": ("codex-x86_64-unknown-linux-musl", ".codex-wrapped", "any-name"),
    "opencode": ("opencode-cli", ".opencode-wrapped", "any-name"),
    "pi": ("node-MainThread", "bun"),  # Node's own names: Pi calls itself `pi`, whatever runs it
}


def test_under_another_name(desk: Desk) -> None:
    if desk.facts.late:
        pytest.skip("it writes nothing before its first answer is complete: there is no session")
    for name in NAMES[desk.lab.adapter]:
        program = make_renamed(desk, name)
        actor = desk.lab.headless("[[gate=%]] count", cwd=desk.work, program=program)
        actor.heard("held")
        assert_lives_and_dies(desk, actor)


def test_through_a_link_of_another_name(desk: Desk) -> None:
    if desk.lab.adapter == "pi":
        pytest.skip(
            "a script: the kernel shows its interpreter's name, and then the name that it gives itself"
        )
    link = desk.lab.root / "some-link"
    link.unlink(missing_ok=True)
    link.symlink_to(binary(desk))
    actor = desk.lab.headless("[[gate=%]] count", cwd=desk.work, program=str(link))
    actor.heard("held")
    assert_lives_and_dies(desk, actor)


def test_in_a_pid_namespace_of_its_own_beside_ours(desk: Desk) -> None:
    """Seen from another pid namespace with the same home it is unknown, never killed."""
    if desk.facts.late:
        pytest.skip("it writes nothing before its first answer is complete: there is no session")
    actor = desk.lab.headless("[[gate=%]] count", cwd=desk.work)
    actor.heard("held")
    session_id = desk.lab.row_with(actor.mark)["id"]
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    ran = desk.lab.agentctl("list", "-a", "--json", "--no-daemon", before=inside)
    (row,) = [row for row in ran.json()["sessions"] if row["id"] == session_id]
    assert row["status"] == "unknown", row["reason"]
    actor.opens()
    actor.heard("answered")


def assert_lives_and_dies(desk: Desk, actor: Actor) -> None:
    row = desk.lab.row_with(actor.mark)
    assert (row["status"], row["pid"]) == ("running", actor.process.pid), row["reason"]
    ran = desk.lab.agentctl("stop", row["id"], "--dry-run")
    assert f"pid {actor.process.pid}" in ran.out + ran.err
    resumed = desk.lab.agentctl("resume", row["id"], "go on", "--dry-run")
    assert resumed.code == 4, "a second writer would have been started"
    actor.signal(signal.SIGKILL)
    until(lambda: desk.lab.row_by_id(row["id"])["status"] == "stopped", "it is stopped", PATIENCE)
    assert desk.lab.row_by_id(row["id"])["outcome"] == "killed"


def binary(desk: Desk) -> str:
    """The program itself: npm's launcher of Codex is a script."""
    real = os.path.realpath(desk.lab.program)
    if desk.lab.adapter != "codex":
        return real
    package = Path(real).parents[2]
    (program,) = [path for path in package.glob("*/vendor/*/*/codex") if path.is_file()]
    return str(program)


def make_renamed(desk: Desk, name: str) -> str:
    """Another name of the same program; of Pi's interpreter, with a script in front."""
    folder = desk.lab.root / "renamed"
    folder.mkdir(exist_ok=True)
    if desk.lab.adapter != "pi":
        return link_or_copy(binary(desk), folder / name)
    launcher = folder / f"run-{name}"
    *_, node, script, _ = Path(desk.lab.program).read_text(encoding="utf-8").replace('"', "").split()
    interpreter = link_or_copy(os.path.realpath(node), folder / name)
    launcher.write_text(f'#!/bin/sh\nexec {interpreter} {script} "$@"\n')
    launcher.chmod(0o755)
    return str(launcher)


def link_or_copy(source: str, target: Path) -> str:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return str(target)
