"""Law 1: a session lives exactly as long as a process with that very identity exists and is no
zombie. No record, wrapper or pid makes it alive or dead."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.system import proc
from agentctl.testing import Puppet, Stage
from agentctl.truth.look import Look
from tests.fakes.stages import stages
from tests.law.asking import environ_of, working
from tests.namespaces import pid_namespace
from tests.waiting import until

# A wrapper as shells and launchers are: it starts the agent beside itself and goes.
WRAPPER = 'exec 3<&0; "$@" <&3 & echo $! >&2'


def test_a_zombie_is_not_alive(stage: Stage) -> None:
    puppet, session_id = working(stage)
    puppet.kill(signal.SIGKILL, reap=False)
    process = proc.current(puppet.identity)
    assert process is not None, "it was not to be reaped"
    assert process.state == "Z"
    assert not process.alive
    assert puppet.pid not in [p.pid for p in Look.take({}).candidates(frozenset({process.comm}))]
    assert stage.row_of(puppet) is None
    verdict = stage.session(session_id).verdict
    assert (verdict.status, verdict.outcome) == ("stopped", "killed")


def test_an_agent_whose_wrapper_is_gone_is_listed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.testing.stage.Puppet", Orphan)
    puppet, session_id = working(stage)
    row = stage.row_of(puppet)
    assert row is not None
    assert (row.seen.session_id, row.verdict.status) == (session_id, "running")
    puppet.kill()
    assert stage.row_of(puppet) is None
    assert stage.session(session_id).verdict.status == "stopped"


class Orphan(Puppet):
    """A fake agent whose parent has exited: init, or whoever collects orphans here, has it now."""

    def __init__(self, command: list[str], environ: dict[str, str], cwd: str) -> None:
        self._child = subprocess.Popen(
            ["sh", "-c", WRAPPER, "sh", *command],
            env=environ,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._child.stderr is not None
        self.pid = int(self._child.stderr.readline())
        self.cwd = cwd
        self.session_id = self._answer() or None
        self.identity = proc.read_process(self.pid, proc.boot_id()).identity
        self._child.wait(20)
        self._child.stderr.close()
        until(lambda: self._parent() != self._child.pid, "the agent has another parent")

    def _parent(self) -> int:
        return proc.read_process(self.pid, self.identity.boot).parent

    @property
    def ended(self) -> bool:
        process = proc.current(self.identity)
        return process is None or not process.alive


@pytest.mark.parametrize("newcomer", ["agent", "stranger", "stranger with the agent's name"])
@pytest.mark.parametrize("adapter", [stage.adapter for stage in stages()])
def test_a_reused_pid_inherits_nothing(adapter: str, newcomer: str, tmp_path: Path) -> None:
    """In a pid namespace of its own, where the next pid can be chosen."""
    stage = stages()[0](tmp_path / "outside")  # for its environment alone
    inside = ["-m", "tests.law.reuse_a_pid", adapter, newcomer, str(tmp_path / "inside")]
    done = subprocess.run(
        [*pid_namespace(), sys.executable, *inside],
        env=environ_of(stage),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert done.stdout.decode().splitlines()[-1] == "the stale record is bound to nobody"
