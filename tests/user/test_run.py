"""The runner itself, on a few tests that look at who runs them."""

import os
import subprocess
import sys

import pytest

from tests.namespaces import unshare
from tests.user import run
from tests.user.account import free_uid, processes
from tests.user.enter import PROJECT
from tests.waiting import until

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@only_root
def test_root_runs_them_as_an_ordinary_user() -> None:
    unshare("--mount")
    done = subprocess.run(
        [sys.executable, "-m", "tests.user.run", "-n", "0", "tests/user/probe.py"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "needs the moon\n    tests/user/probe::test_what_cannot_run\n" in done.stdout
    assert "2 passed, 0 failed, 1 could not run" in done.stdout.splitlines()[-1]


@only_root
def test_what_a_test_leaves_behind_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    uid = free_uid()
    with subprocess.Popen(["sleep", "1000"], user=uid) as left:
        try:
            until(lambda: processes().get(left.pid) == uid, "it runs as that user")
            run.end_all(uid)
            assert left.wait(20) == -9
        finally:
            left.kill()
    assert "left behind, ended now: sleep 1000" in capfd.readouterr().err


def test_what_is_run_by_default_is_there() -> None:
    assert [name for name in run.DEFAULT if not list((PROJECT / "tests" / name).glob("test_*.py"))] == []
