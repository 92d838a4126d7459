"""Stop a session whose agent has died and whose pid another process has since, inside a pid namespace of
its own. test_stopped_sessions calls this with an adapter and a directory."""

import os
import sys
from pathlib import Path

from agentctl.adapters.plans import StopPlan
from agentctl.errors import Refused
from agentctl.stop.stop import stop_session
from agentctl.system.proc import read_boot_id, read_process
from tests.fakes.stages import find_stage
from tests.fakes.stranger import Stranger
from tests.law.asking import start_agent
from tests.law.reuse_a_pid import LAST_PID


def main(adapter: str, directory: str) -> None:
    LAST_PID.write_text("2000")  # far from the numbers that a fork of ours would take by itself
    stage = find_stage(adapter)(Path(directory))
    os.environ.update(stage.environ)
    try:
        dead, session_id = start_agent(stage)
        session = stage.session(session_id)
        dead.kill()
        LAST_PID.write_text(str(dead.pid - 1))
        with Stranger("newcomer", stage.environ, stage.work) as newcomer:
            assert newcomer.pid == dead.pid, f"pid {newcomer.pid} instead of {dead.pid}"
            try:
                stop_session(session, StopPlan(), force=True)
            except Refused as refused:
                print(refused)
            assert read_process(dead.pid, read_boot_id()).is_alive
    finally:
        stage.close()


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
