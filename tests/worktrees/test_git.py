"""git, run in one way only."""

import os
from pathlib import Path
from threading import Timer

import pytest

from agentctl.errors import Gone, SourceError, Unsupported
from agentctl.system import proc
from agentctl.worktrees import git
from tests.waiting import until
from tests.worktrees.repository import Repository


def test_the_error_has_git_s_own_words(repo: Repository) -> None:
    with pytest.raises(SourceError, match="bad revision 'nonsense'") as caught:
        git.read(str(repo.path), "rev-list", "nonsense", "--")
    assert caught.value.source == f"git rev-list in {repo.path}"


def test_a_missing_git_is_an_error(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="not installed"):
        git.read(str(repo.path), "status")


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Gone, match="not a directory"):
        git.read(str(tmp_path / "nowhere"), "status")


def test_the_environment_of_an_outer_git_is_ignored(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook's environment names the hook's repository."""
    other = Repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    assert git.read_line(str(repo.path), "rev-parse", "--show-toplevel") == str(repo.path)


def test_git_is_run_in_english(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    assert git._environ(os.environ)["LC_ALL"] == "C"


def test_reading_runs_no_program_of_the_repository(repo: Repository, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    for name in ("post-index-change", "fsmonitor-watchman"):
        hook = repo.path / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {trace}\n")
        hook.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(repo.path / ".git/hooks/fsmonitor-watchman"))
    os.utime(repo.path / "a.txt")  # the index is stale: a plain `status` would write it
    before = (repo.path / ".git" / "index").read_bytes()
    git.read(str(repo.path), "status", "--porcelain")
    assert not trace.exists()
    assert (repo.path / ".git" / "index").read_bytes() == before
    repo.git("status")  # the trap is a real one
    assert trace.exists()


def test_a_lock_that_goes_away_is_waited_for(repo: Repository) -> None:
    lock = repo.path / ".git" / "config.lock"
    lock.touch()
    timer = Timer(0.2, lock.unlink)
    timer.start()
    git.write(str(repo.path), "config", "a.b", "c")
    timer.join()
    assert repo.git("config", "a.b") == "c"


def test_a_lock_that_stays_is_an_error(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "LOCK_WAIT", 0.1)
    (repo.path / ".git" / "config.lock").touch()
    with pytest.raises(SourceError, match="could not lock config file"):
        git.write(str(repo.path), "config", "a.b", "c")


def test_other_errors_are_not_retried(repo: Repository) -> None:
    repo.git("branch", "a")
    calls = []
    original = git._run

    def record_call(*words: object, **options: object) -> git.GitResult:
        calls.append(words)
        return original(*words, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(git, "_run", record_call)
        with pytest.raises(SourceError, match="exists; cannot create"):
            git.write(str(repo.path), "branch", "a/b")
    assert len(calls) == 1


def test_a_git_that_does_not_answer_is_ended_with_all_it_started(repo: Repository) -> None:
    repo.git("config", "alias.slow", "!echo $$ > pid; exec sleep 60")
    with pytest.raises(SourceError, match="no answer in 1 s"):
        git.read(str(repo.path), "slow", timeout=1.0)
    pid = int((repo.path / "pid").read_text())
    until(lambda: _has_ended(pid), "what git started has ended")


def _has_ended(pid: int) -> bool:
    try:
        return not proc.read_process(pid, proc.read_boot_id()).is_alive
    except Gone:
        return True


def test_names_that_are_not_utf8_are_read(repo: Repository) -> None:
    Path(os.fsdecode(os.fsencode(repo.path) + b"/\xff")).touch()
    output = git.read(str(repo.path), "ls-files", "--others", "-z").text
    assert os.fsencode(output) == b"\xff\0"
