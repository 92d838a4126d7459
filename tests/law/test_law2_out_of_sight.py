"""Law 2: a session is never stopped because we cannot see its process from where we ask: from another
pid namespace that shares the home, or where /proc hides other users."""

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
from tests.law.asking import REPOSITORY, environ_of, start_agent
from tests.namespaces import unshare
from tests.running import agentctl_in
from tests.waiting import until

OTHER_USER = 65534
CONTAINER = ("--pid", "--fork", "--mount", "--mount-proc", "--kill-child")


def list_from(stage: Stage, *before: str, **more: str) -> dict[str, dict[str, Any]]:
    """Return the rows of `list -a`, run by the command in `before`, by session id."""
    environ = environ_of(stage, AGENTCTL_DEADLINE="20s", **more)
    ran = agentctl_in(environ, "list", "-a", "--json", cwd=str(stage.root), before=before)
    assert ran.code == 0, ran.err
    return {row["id"]: row for row in ran.json()["sessions"]}


def as_other_user(*before: str) -> list[str]:
    return [*before, "setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]


def need_root() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv(1), to ask as another user")


def test_a_session_in_another_pid_namespace_is_unknown(stage: Stage) -> None:
    """As a dev container or a sandboxed editor shares the home."""
    _, session_id = start_agent(stage)
    row = list_from(stage, *unshare(*CONTAINER))[session_id]
    assert row["status"] == "unknown", row["reason"]
    assert "pid namespace" in row["reason"]


def test_a_home_that_is_mounted_into_a_container_is_shared(stage: Stage) -> None:
    """The home is on a mount of its own, in a namespace that is older than the session."""
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
        _, session_id = start_agent(stage)
        answer, _ = container.communicate(b"go\n", timeout=60)
    row = next(row for row in json.loads(answer)["sessions"] if row["id"] == session_id)
    assert row["status"] == "unknown", row["reason"]


@pytest.mark.slow
def test_a_session_that_began_and_ended_in_our_container_is_stopped(stage: Stage) -> None:
    """Its files began in there too."""
    script = f'mount -t tmpfs none {stage.root} && exec "$@"'
    inside = ["-m", "tests.law.end_in_a_container", stage.adapter, str(stage.root)]
    run = subprocess.run(
        [*unshare(*CONTAINER), "sh", "-c", script, "sh", sys.executable, *inside],
        env=environ_of(stage),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.stdout == "stopped killed\n", run.stderr


def test_a_person_can_say_that_only_we_use_these_files(stage: Stage) -> None:
    """But the records of two agents name the namespace of their writer, which is a fact."""
    puppet, session_id = start_agent(stage)
    puppet.kill()
    way = unshare(*CONTAINER)
    assert list_from(stage, *way)[session_id]["status"] == "unknown"
    expected = "unknown" if stage.adapter in ("demo", "claude-code") else "stopped"
    assert list_from(stage, *way, AGENTCTL_ALONE="1")[session_id]["status"] == expected


@pytest.mark.parametrize("hidden", ["hidepid=2", "hidepid=1"])
def test_an_agent_of_a_user_hidden_by_proc_is_not_stopped(stage: Stage, hidden: str) -> None:
    """Root runs an agent in a user's home, as after `sudo -E`, and the user asks."""
    need_root()
    _, session_id = start_agent(stage)
    for path in (stage.root, *stage.root.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)
    open_parents(stage.root)
    script = f'mount -t proc -o {hidden} proc /proc && exec "$@"'
    row = list_from(stage, "unshare", "-m", "sh", "-c", script, "sh", *as_other_user())[session_id]
    assert row["status"] != "stopped", row["reason"]


def test_another_users_agent_in_our_home_is_not_stopped(stage: Stage) -> None:
    """The process is visible, but its binary and its files are withheld."""
    need_root()
    _, session_id = start_agent(stage)
    for path in (stage.root, *stage.root.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)
    open_parents(stage.root)
    row = list_from(stage, *as_other_user())[session_id]
    assert row["status"] != "stopped", row["reason"]


def test_a_suspended_agent_is_shown_as_suspended(stage: Stage) -> None:
    puppet, session_id = start_agent(stage)
    assert list_from(stage)[session_id]["suspended"] is False
    with Handle(puppet.identity) as handle:
        handle.signal(signal.SIGSTOP)
        until(lambda: list_from(stage)[session_id]["suspended"], "the kernel says that it is suspended")
        row = list_from(stage)[session_id]
        assert row["status"] == "running"
        assert "suspended" in row["reason"]
        assert any(piece["claim"] == "suspended" for piece in row["evidence"])
        handle.signal(signal.SIGCONT)
        until(lambda: not list_from(stage)[session_id]["suspended"], "it goes on")


def open_parents(directory: Path) -> None:
    """Let every user pass through the directories above, which pytest makes for us alone."""
    for above in (directory, *directory.parents):
        if str(above) in ("/", "/tmp"):
            break
        above.chmod(above.stat().st_mode | 0o055)
