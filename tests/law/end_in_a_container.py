"""Start and kill an agent, inside a pid namespace of its own and in a directory that was mounted there.
Print its row in `list`. test_law2_out_of_sight calls this with an adapter and a directory."""

import os
import sys
import time
from pathlib import Path

from tests.fakes.stages import find_stage
from tests.law.asking import agentctl_json, start_agent
from tests.waiting import until


def main(adapter: str, directory: str) -> None:
    stage, began = find_stage(adapter)(Path(directory)), os.stat("/proc/1").st_ctime
    until(lambda: time.time() > began + 2, "its files are younger than the namespace")
    try:
        puppet, _ = start_agent(stage)
        puppet.kill()
        (row,) = agentctl_json(stage, "list", "-a")["sessions"]
        print(row["status"], row["outcome"])
    finally:
        stage.close()


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
