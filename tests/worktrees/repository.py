"""A real git repository in a temporary directory, with an identity and settings of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from agentctl.truth.model import Worktree
from agentctl.worktrees import worktree

IDENTITY = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


class Repository:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *words: str, cwd: Path | str | None = None) -> str:
        child = subprocess.run(
            ["git", *words],
            cwd=cwd or self.path,
            env={"PATH": os.environ["PATH"], "HOME": str(self.path), **IDENTITY},
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == 0, child.stderr
        return child.stdout.strip()

    def commit(self, cwd: Path | str | None = None, **files: str) -> str:
        """Write these files and commit all; in their names `_` stands for the dot."""
        where = Path(cwd or self.path)
        for name, text in files.items():
            (where / name.replace("_", ".")).write_text(text)
        self.git("add", "--all", cwd=where)
        self.git("commit", "--quiet", "--allow-empty", "-m", "a commit", cwd=where)
        return self.git("rev-parse", "HEAD", cwd=where)

    def add_worktree(self, branch: str = "a", group: str | None = None) -> Worktree:
        """Create a worktree of ours beside the repository, as `launch --worktree` does."""
        place = worktree.choose_directory(str(self.path))
        return worktree.create_worktree(str(self.path), branch, None, place, group)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository with one commit: a file of ten lines."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    repository = Repository(tmp_path / "project")
    repository.commit(a_txt="".join(f"line {n}\n" for n in range(10)))
    return repository
