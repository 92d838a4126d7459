"""Runs inside a pid namespace of its own: an agent that holds a directory dies, and another process
gets its pid. Called by test_locks with a database and a directory."""

import subprocess
import sys
from pathlib import Path

from agentctl.state import launch_writes, locks
from agentctl.system.proc import read_boot_id, read_process
from agentctl.truth.model import Launch

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


def main(path: str, work: str) -> None:
    LAST_PID.write_text("2000")
    first = subprocess.Popen(["sleep", "60"])
    identity = read_process(first.pid, read_boot_id()).identity
    launch_writes.begin_launch(path, Launch("1a", identity, cwd=work))
    assert [lock.launch_id for lock in locks.list_held(path)] == ["1a"]
    first.kill()
    first.wait()
    while True:  # starts are counted in ticks: within one tick it would be the same process
        LAST_PID.write_text(str(first.pid - 1))
        second = subprocess.Popen(["sleep", "60"])
        assert second.pid == first.pid, f"pid {second.pid} instead of {first.pid}"
        if read_process(second.pid, read_boot_id()).identity != identity:
            break
        second.kill()
        second.wait()
    assert locks.list_held(path) == []
    launch_writes.begin_launch(
        path, Launch("2b", read_process(second.pid, read_boot_id()).identity, cwd=work)
    )
    assert [lock.launch_id for lock in locks.list_held(path)] == ["2b"]
    second.kill()
    second.wait()
    print("the newcomer inherits nothing")


if __name__ == "__main__":
    main(*sys.argv[1:])
