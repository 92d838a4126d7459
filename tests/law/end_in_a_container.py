"""Runs inside a pid namespace of its own, in a directory that was mounted there: an agent begins in
there, and is killed. Called by test_law2_out_of_sight with adapter and a directory; prints what `list`
says of it."""

import os
import sys
import time
from pathlib import Path

from tests.fakes.stages import named
from tests.law.asking import agentctl_json, working
from tests.waiting import until


def main(adapter: str, directory: str) -> None:
    stage, began = named(adapter)(Path(directory)), os.stat("/proc/1").st_ctime
    until(lambda: time.time() > began + 2, "its files are younger than the namespace")
    try:
        puppet, _ = working(stage)
        puppet.kill()
        (row,) = agentctl_json(stage, "list", "-a")["sessions"]
        print(row["status"], row["outcome"])
    finally:
        stage.close()


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
