"""Law 1: a session lives exactly as long as the process with its identity exists and is no zombie. No
record, wrapper or pid makes it alive or dead."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.system import proc
from agentctl.testing import Puppet, Stage
from agentctl.truth.look import Look
from tests.fakes.stages import stages
from tests.law.asking import environ_of, start_agent
from tests.namespaces import pid_namespace
from tests.waiting import until

# A wrapper like a shell or a launcher: it starts the agent in the background and exits.
WRAPPER = 'exec 3<&0; "$@" <&3 & echo $! >&2'


def test_a_zombie_is_not_alive(stage: Stage) -> None:
    puppet, session_id = start_agent(stage)
    puppet.kill(signal.SIGKILL, reap=False)
    process = proc.find_process(puppet.identity)
    assert process is not None, "the test keeps it unreaped"
    assert process.state == "Z"
    assert not process.is_alive
    assert puppet.pid not in [p.pid for p in Look.take({}).find_candidates(frozenset({process.comm}))]
    assert stage.find_row(puppet) is None
    verdict = stage.session(session_id).verdict
    assert (verdict.status, verdict.outcome) == ("stopped", "killed")


def test_an_agent_without_its_wrapper_is_listed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.testing.stage.Puppet", Orphan)
    puppet, session_id = start_agent(stage)
    row = stage.find_row(puppet)
    assert row is not None
    assert (row.observation.session_id, row.verdict.status) == (session_id, "running")
    puppet.kill()
    assert stage.find_row(puppet) is None
    assert stage.session(session_id).verdict.status == "stopped"


class Orphan(Puppet):
    """A fake agent whose parent has exited: init or a subreaper has adopted it."""

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
        self.identity = proc.read_process(self.pid, proc.read_boot_id()).identity
        self._child.wait(20)
        self._child.stderr.close()
        until(lambda: self._parent() != self._child.pid, "the agent has another parent")

    def _parent(self) -> int:
        return proc.read_process(self.pid, self.identity.boot).parent

    @property
    def has_ended(self) -> bool:
        process = proc.find_process(self.identity)
        return process is None or not process.is_alive


@pytest.mark.few(5)
@pytest.mark.parametrize("newcomer", ["agent", "stranger", "stranger with the agent's name"])
@pytest.mark.parametrize("adapter", [stage.adapter for stage in stages()])
def test_a_reused_pid_is_not_the_dead_session(adapter: str, newcomer: str, tmp_path: Path) -> None:
    """In a pid namespace of its own, where the next pid can be chosen."""
    stage = stages()[0](tmp_path / "outside")  # for its environment alone
    inside = ["-m", "tests.law.reuse_a_pid", adapter, newcomer, str(tmp_path / "inside")]
    run = subprocess.run(
        [*pid_namespace(), sys.executable, *inside],
        env=environ_of(stage),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout.decode() + run.stderr.decode()
    assert run.stdout.decode().splitlines()[-1] == "the stale record is bound to no process"
