"""Processes that all do the same thing at the same moment, each in an interpreter of its own."""

import subprocess
import sys

from tests.running import SOURCES

_BEFORE = """
import os, sys
from agentctl.errors import AgentctlError, Refused
from agentctl.state import launch_writes, locks
from agentctl.system import proc
from agentctl.truth.model import Launch
me = proc.read_process(os.getpid(), proc.read_boot_id()).identity
print("ready", flush=True)
sys.stdin.readline()
try:
"""
_AFTER = """
except AgentctlError as error:
    print(type(error).__name__, error, flush=True)
else:
    print("won", flush=True)
sys.stdin.readline()
"""


def race(number: int, code: str, *words: str) -> list[str]:
    """Return what each of them prints: `won`, or the error. All live until the last has printed: a lock
    is held only as long as its owner lives. In the code, `words` is sys.argv[1:]."""
    program = f"{_BEFORE}    {code}\n{_AFTER}"
    runners = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", program, *words],
            env={"PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(number)
    ]
    try:
        assert {_line(runner) for runner in runners} == {"ready"}
        for runner in runners:
            _send_line(runner)
        lines = [_line(runner) for runner in runners]
    finally:
        for runner in runners:
            runner.communicate(timeout=60)  # closes its input, and it ends
    assert {runner.returncode for runner in runners} == {0}
    return lines


def _line(runner: subprocess.Popen[str]) -> str:
    assert runner.stdout is not None
    return runner.stdout.readline().strip()


def _send_line(runner: subprocess.Popen[str]) -> None:
    assert runner.stdin is not None
    runner.stdin.write("\n")
    runner.stdin.flush()
