"""Law 2: a session is never stopped because its process cannot be seen from where we ask: from another
pid namespace that shares the home, where /proc hides other users, or on a file system that another
machine has mounted too."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.system.pidfd import Handle
from agentctl.testing import Stage
from tests.law.asking import REPOSITORY, environ_of, working
from tests.namespaces import unshare
from tests.running import agentctl_in
from tests.waiting import until

NOBODY = 65534
CONTAINER = ("--pid", "--fork", "--mount", "--mount-proc", "--kill-child")


def ask(stage: Stage, *before: str, **more: str) -> dict[str, dict[str, Any]]:
    """What `list -a` says when it is run behind these words, by session id."""
    environ = environ_of(stage, AGENTCTL_DEADLINE="20s", **more)
    ran = agentctl_in(environ, "list", "-a", "--json", cwd=str(stage.root), before=before)
    assert ran.code == 0, ran.err
    return {row["id"]: row for row in ran.json()["sessions"]}


def as_nobody(*before: str) -> list[str]:
    return [*before, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def need_root() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv(1), to ask as another user")


def test_from_another_pid_namespace_that_shares_the_home(stage: Stage) -> None:
    """As a dev container or a sandboxed editor does."""
    _, session_id = working(stage)
    row = ask(stage, *unshare(*CONTAINER))[session_id]
    assert row["status"] == "unknown", row["reason"]
    assert "pid namespace" in row["reason"]


def test_what_is_bound_into_a_container_is_shared(stage: Stage) -> None:
    """A home on a mount of its own, in a namespace that was there before the session began."""
    script = (
        f"mount --bind {stage.home} {stage.home} && echo ready && read go && "
        f"exec {sys.executable} -m agentctl list -a --json"
    )
    with subprocess.Popen(
        [*unshare(*CONTAINER), "sh", "-c", script],
        env=environ_of(stage),
        cwd=stage.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as container:
        assert container.stdout is not None
        assert container.stdout.readline() == b"ready\n"
        _, session_id = working(stage)
        answer, _ = container.communicate(b"go\n", timeout=60)
    row = next(row for row in json.loads(answer)["sessions"] if row["id"] == session_id)
    assert row["status"] == "unknown", row["reason"]


def test_a_container_of_its_own_knows_what_has_ended_in_it(stage: Stage) -> None:
    """A session that began and ended in there, in files that began there too, is stopped."""
    script = f'mount -t tmpfs none {stage.root} && exec "$@"'
    inside = ["-m", "tests.law.end_in_a_container", stage.adapter, str(stage.root)]
    done = subprocess.run(
        [*unshare(*CONTAINER), "sh", "-c", script, "sh", sys.executable, *inside],
        env=environ_of(stage),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == "stopped killed\n", done.stderr


def test_a_person_can_say_that_nobody_else_uses_these_files(stage: Stage) -> None:
    """But the records of two agents name the namespace in which they were written, which is no guess."""
    puppet, session_id = working(stage)
    puppet.kill()
    way = unshare(*CONTAINER)
    assert ask(stage, *way)[session_id]["status"] == "unknown"
    expected = "unknown" if stage.adapter in ("demo", "claude-code") else "stopped"
    assert ask(stage, *way, AGENTCTL_ALONE="1")[session_id]["status"] == expected


@pytest.mark.parametrize("hidden", ["hidepid=2", "hidepid=1"])
def test_where_proc_hides_other_users(stage: Stage, hidden: str) -> None:
    """Root's agent in a user's home, as after `sudo -E`, and the user asks."""
    need_root()
    _, session_id = working(stage)
    for path in (stage.root, *stage.root.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    let_in(stage.root)
    script = f'mount -t proc -o {hidden} proc /proc && exec "$@"'
    row = ask(stage, "unshare", "-m", "sh", "-c", script, "sh", *as_nobody())[session_id]
    assert row["status"] != "stopped", row["reason"]


def test_another_users_agent_in_our_home(stage: Stage) -> None:
    """Nothing hides it, but its binary and its files are withheld."""
    need_root()
    _, session_id = working(stage)
    for path in (stage.root, *stage.root.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    let_in(stage.root)
    row = ask(stage, *as_nobody())[session_id]
    assert row["status"] != "stopped", row["reason"]


def test_a_suspended_agent_is_shown_as_suspended(stage: Stage) -> None:
    puppet, session_id = working(stage)
    assert ask(stage)[session_id]["suspended"] is False
    with Handle(puppet.identity) as handle:
        handle.signal(signal.SIGSTOP)
        until(lambda: ask(stage)[session_id]["suspended"], "the kernel says that it is suspended")
        row = ask(stage)[session_id]
        assert row["status"] == "running"
        assert "suspended" in row["reason"]
        assert any(piece["claim"] == "suspended" for piece in row["evidence"])
        handle.signal(signal.SIGCONT)
        until(lambda: not ask(stage)[session_id]["suspended"], "it goes on")


def let_in(directory: Path) -> None:
    """Everybody may pass through the directories above, which pytest makes for us alone."""
    for above in (directory, *directory.parents):
        if str(above) in ("/", "/tmp"):
            break
        above.chmod(above.stat().st_mode | 0o055)
