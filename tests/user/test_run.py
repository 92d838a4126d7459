"""The runner itself, on a few tests that look at the user that runs them."""

import os
import subprocess
import sys

import pytest

from tests.namespaces import unshare
from tests.user import run
from tests.user.account import find_free_uid, list_owners
from tests.user.enter import PROJECT
from tests.waiting import until

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@only_root
@pytest.mark.slow
def test_root_runs_tests_as_an_ordinary_user() -> None:
    unshare("--mount")
    child = subprocess.run(
        [sys.executable, "-m", "tests.user.run", "-n", "0", "tests/user/probe.py"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert "needs the moon\n    tests/user/probe::test_what_cannot_run\n" in child.stdout
    assert "2 passed, 0 failed, 1 could not run" in child.stdout.splitlines()[-1]


@only_root
def test_processes_left_behind_by_a_test_are_ended(capfd: pytest.CaptureFixture[str]) -> None:
    uid = find_free_uid()
    with subprocess.Popen(["sleep", "1000"], user=uid) as child:
        try:
            until(lambda: list_owners().get(child.pid) == uid, "it runs as that user")
            run.end_all(uid)
            assert child.wait(20) == -9
        finally:
            child.kill()
    assert "left behind, ended now: sleep 1000" in capfd.readouterr().err


def test_the_default_directories_have_tests() -> None:
    assert [name for name in run.DEFAULT if not list((PROJECT / "tests" / name).glob("test_*.py"))] == []
