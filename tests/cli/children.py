"""What the kernel shows of a child process that runs beside a test."""

import os
import re
import subprocess
from pathlib import Path


def count_context_switches(child: "subprocess.Popen[bytes]") -> int:
    """Return how often it gave up the CPU: the count grows only when something wakes it."""
    status = Path(f"/proc/{child.pid}/status").read_text()
    return int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[0])


def list_open_files(child: "subprocess.Popen[bytes]") -> list[str]:
    directory = f"/proc/{child.pid}/fd"
    targets = []
    for name in os.listdir(directory):
        try:
            targets.append(os.readlink(f"{directory}/{name}"))
        except FileNotFoundError:  # closed meanwhile
            continue
    return targets
