"""Demo agents that are going to be stopped, with all that they leave behind; what a test has not ended
is ended with the stage."""

import os
import signal
import subprocess
import sys

from agentctl.errors import Gone, SourceError
from agentctl.system import pidfd, proc
from agentctl.system.proc import Process
from agentctl.testing import Puppet
from agentctl.testing.stage import MARKER
from agentctl.truth.model import Session
from tests.fakes.demo import DemoStage
from tests.waiting import until

# A tool that does not take no for an answer: told to go, it leaves another one behind, N times.
HYDRA = """
import os, signal, sys, time
heads = int(sys.argv[1])
def again(*_):
    if heads and os.fork() == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], str(heads - 1), sys.argv[2]])
    os._exit(0)
signal.signal(signal.SIGTERM, again)
with open("/proc/self/comm", "w") as comm:
    comm.write("hydra")
while True:
    signal.pause()
"""


class Doomed(DemoStage):
    def working(self) -> tuple[Puppet, Session]:
        puppet = self.start()
        puppet.do("work")
        return puppet, self.row(puppet)

    def row(self, puppet: Puppet) -> Session:
        session = self.find_row(puppet)
        assert session is not None
        return session

    def left_behind(self, agent: Puppet, *command: str, comm: str = "sleep", **more: str) -> Process:
        """A tool of this agent that has another parent by now."""
        environ = {**self.environ, "DEMO_AGENT_PID": str(agent.pid), **more}
        words = command or ("sleep", "1000")
        ran = subprocess.run(
            ["sh", "-c", 'setsid "$@" >/dev/null 2>&1 & echo $!', "sh", *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
        )
        pid = int(ran.stdout)
        until(lambda: proc.read_process(pid, "").comm == comm, f"{pid} is {comm}")
        return proc.read_process(pid, proc.read_boot_id())

    def hydra(self, agent: Puppet, heads: int) -> Process:
        return self.left_behind(
            agent, sys.executable, "-c", HYDRA, str(heads), HYDRA, comm="hydra", **self._interpreter()
        )

    def living(self, comm: str | None = None) -> list[Process]:
        """Every live process of this stage, by the marker that all inherit."""
        return [
            process
            for process in proc.read_table().values()
            if process.is_alive and process.pid != os.getpid() and comm in (None, process.comm)
            if self._is_here(process)
        ]

    def close(self) -> None:
        super().close()
        while processes := self.living():
            for process in processes:
                self.kill(process)

    @staticmethod
    def kill(process: Process) -> None:
        try:
            with pidfd.Handle(process.identity) as handle:
                handle.signal(signal.SIGKILL)
                handle.wait(20)
        except Gone:
            pass

    def _is_here(self, process: Process) -> bool:
        try:
            return process.environ().get(MARKER) == self.marker
        except SourceError:
            return False


def alive(process: Process) -> bool:
    now = proc.find_process(process.identity)
    return now is not None and now.is_alive
