"""The program of a fake agent: takes steps from standard input, answers `ok` when its native files
say so. Runs under an interpreter that was copied to the name of the agent's binary.

A subclass writes the native files, exactly as the agent does:

    class Claude(Player):
        def begin(self): ...      # sets self.session, writes what a started agent has written
        def work(self): ...       # a turn is open now
        def ask(self): ...        # and blocked on a person
        def rest(self): ...       # the turn is over, well
        def fail(self): ...       # the turn is over, with an error
        def end(self, code): ...  # clean up as at a clean exit

    Claude().play()
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn


class Player:
    session: str | None = None  # the id, once there is one

    def __init__(self) -> None:
        self.home = os.environ["HOME"]
        self.cwd = os.getcwd()
        self.resumed = os.environ.get("PUPPET_RESUME") or None
        self.prompt = os.environ.get("PUPPET_PROMPT", "a prompt")

    def begin(self) -> None:
        raise NotImplementedError

    def work(self) -> None:
        raise NotImplementedError

    def ask(self) -> None:
        raise NotImplementedError

    def rest(self) -> None:
        raise NotImplementedError

    def fail(self) -> None:
        raise NotImplementedError

    def end(self, code: int) -> None:
        raise NotImplementedError

    def play(self) -> NoReturn:
        self.begin()
        self._answer()
        while line := sys.stdin.readline():
            verb, *arguments = line.split()
            if verb == "exit":
                code = int(arguments[0]) if arguments else 0
                self.end(code)
                sys.stdout.flush()
                os._exit(code)
            getattr(self, verb)(*arguments)
            self._answer()
        os._exit(0)  # the test is over

    def _answer(self) -> None:
        print(self.session or "", flush=True)


def start_ticks() -> int:
    """This process's start, as agents write it into their records."""
    with open("/proc/self/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])


def rename_process(name: str) -> None:
    """What `process.title = name` does in Node: comm and the whole argv become the name."""
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(name)
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end: fields 48 and 49
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(name.encode().ljust(end - start, b"\0"))
