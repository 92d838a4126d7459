"""A process's threads are its own: named, dated, and never those of who has its number now."""

import os
import subprocess
import sys

import pytest

from agentctl.errors import Gone
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.system.threads import threads

TWO = """
import threading
def second():
    open("/proc/thread-self/comm", "w").write("second")
    print("ready", flush=True)
    input()
threading.Thread(target=second).start()
"""


def test_a_thread_has_a_name_and_began_after_its_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TWO], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = proc.read_process(child.pid, proc.boot_id())
        first, second = threads(process)
        assert first.start == process.identity.start
        assert second.start >= first.start
        assert second.comm == "second"
        child.communicate(b"\n")
    with pytest.raises(Gone):
        threads(process)


def test_another_process_with_the_same_number_is_not_meant() -> None:
    me = proc.read_process(os.getpid(), proc.boot_id())
    earlier = ProcessIdentity(me.identity.boot, me.pid, me.identity.start - 1)
    with pytest.raises(Gone):
        threads(Process(earlier, me.parent, me.state, me.comm))
