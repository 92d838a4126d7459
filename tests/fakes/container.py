"""Fake agents in containers: each in mount and pid namespaces of its own, with a home that a script
mounts.

    stage = contained(CodexStage, tmp_path, HIDDEN_HOME)

The script runs in the new namespaces before the agent does; its `$HOME` is where the agent will look for
its files. What it mounts is visible to no other process.
"""

from __future__ import annotations

from pathlib import Path

from agentctl.system import proc
from agentctl.testing import Puppet, Stage
from tests import namespaces

HIDDEN_HOME = 'mount -t tmpfs none "$HOME"'  # our namespace shows it nowhere
# A directory that we see, too, under another name: an image or a volume.
VISIBLE_HOME = 'mkdir -p "$TMPDIR/volume" && mount --bind "$TMPDIR/volume" "$HOME"'


def unshare(*, pids: bool = True) -> list[str]:
    """The command that makes the namespaces; skips the test where there can be none."""
    own = ("--pid", "--fork", "--kill-child", "--mount-proc") if pids else ()
    return namespaces.unshare("--mount", *own)


def contained(kind: type[Stage], root: Path, script: str, *, pids: bool = True) -> Stage:
    """A stage of which every agent is in a container of its own."""
    words = [*unshare(pids=pids), "sh", "-c", f'{script} && exec "$0" "$@"']

    class Contained(kind):  # type: ignore[misc, valid-type]
        def program(self, prompt: str, resume: str | None) -> list[str]:
            return [*words, *super().program(prompt, resume)]

    stage: Stage = Contained(root)
    return stage


def start_inside(stage: Stage, script: str, cwd: Path) -> Puppet:
    """One more agent of a stage, in a container."""
    other = contained(type(stage), stage.root, script)
    other.environ.update(stage.environ)  # one marker: what is seen on the stage is seen of both
    other.marker = stage.marker
    puppet = other.start(cwd)
    stage.puppets.append(puppet)
    return puppet


def agent_of(puppet: Puppet) -> int:
    """The number of the agent itself: a puppet in a pid namespace is the child of `unshare`."""
    children = [p.pid for p in proc.read_table().values() if p.parent == puppet.pid]
    return children[0] if children else puppet.pid
