"""Groups of demo agents in worktrees of their own, noted as `launch` notes them."""

import time
from pathlib import Path
from typing import NamedTuple

from agentctl import paths
from agentctl.state import launch_writes
from agentctl.testing import Puppet
from agentctl.truth.model import Exit, HookRun, Launch, Worktree
from agentctl.worktrees import worktree
from tests.fakes.demo import DemoStage
from tests.worktrees.repository import Repository


class Member(NamedTuple):
    puppet: Puppet
    note: Launch

    @property
    def worktree(self) -> Worktree:
        assert self.note.worktree is not None
        return self.note.worktree


class Group:
    def __init__(self, stage: DemoStage, repo: Repository, name: str = "fix") -> None:
        self.stage, self.repo, self.name = stage, repo, name
        self.notes = paths.database_file(stage.environ["AGENTCTL_HOME"])

    def begin(self, slot: str, *steps: str, plain: bool = False, model: str | None = None) -> Member:
        """Start a member, and note its launch."""
        tree = None
        if not plain:
            place = worktree.choose_directory(str(self.repo.path))
            branch = f"agentctl/{self.name}/{slot}"
            tree = worktree.create_worktree(str(self.repo.path), branch, None, place, self.name)
        puppet = self.stage.start(Path(tree.path) if tree else None)
        note = Launch(
            f"{self.name}-{slot}",
            puppet.identity,
            puppet.session_id,
            slot,
            self.name,
            adapter="demo",
            cwd=puppet.cwd,
            model=model,
            worktree=tree,
            created_at=time.time(),
        )
        launch_writes.begin_launch(self.notes, note)
        for step in steps:
            puppet.do(step)
        return Member(puppet, note)

    def add(
        self, slot: str, *steps: str, seconds: float = 10.0, code: int = 0, check: int | None = None
    ) -> Member:
        """Add a member that ended after so many seconds; with `check`, its on-complete hook ran too."""
        member = self.begin(slot, "work", *steps)
        member.puppet.finish(code)
        end = float(int(time.time()) + 1)  # whole seconds, so that their difference is exact
        runs = () if check is None else (HookRun("on-complete", "make test", check, 1.5, "/log"),)
        note = member.note._replace(created_at=end - seconds, exit=Exit(code, end, ""), hooks=runs)
        launch_writes.begin_launch(self.notes, note)
        return member._replace(note=note)
