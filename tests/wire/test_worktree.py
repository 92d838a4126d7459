"""The JSON of worktrees."""

from agentctl.truth.model import Worktree
from agentctl.wire.worktree import WORKTREE_FIELDS, worktree


def test_the_table_is_the_shape() -> None:
    names = ("there", "ahead", "behind", "dirty", "merged", "pushed", "unknown")
    made = Worktree("/r", "/r-worktrees/a", "a", "4f2a")
    shape = worktree(made, branch="a", group=None, state=dict.fromkeys(names), sessions=())
    assert list(shape) == [name for name, _, _ in WORKTREE_FIELDS]
