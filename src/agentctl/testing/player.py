"""The program of a fake agent. Runs under an interpreter that was copied to the name of the agent's
binary, in one of two ways.

A puppet (`Stage.start`) takes steps from standard input, and answers when its native files say so.

A launched one (`Stage.install`) is called as the real agent is: with the real one's arguments, its
prompt where the real one takes it, and nothing else. It writes and prints what the real one does,
and its prompt is its script, the demo agent's words and some more, separated by commas:

    late N     as the first word: the session comes N seconds late
    die TEXT   as the first word: no session; TEXT to standard error, exit 1
    work N     a turn is open (it is from the start on); go on after N seconds
    tool       a tool runs: a child in its own session
    ask, rest  wait for a person; close the turn and stay (both go on at SIGUSR1)
    fail       the turn ends with an error, and the agent with it
    hang       do nothing until a signal comes
    exit N     close the turn, well if N is 0, and exit

What is none of these is what people write into prompts. At the end of the script the turn is closed,
and the code is 0.

A subclass writes the native files, exactly as the agent does:

    class Claude(Player):
        def begin(self): ...      # sets self.session, writes what a started agent has written
        def work(self): ...       # a turn is open now
        def ask(self): ...        # and blocked on a person
        def rest(self): ...       # the turn is over, well
        def fail(self): ...       # the turn is over, with an error
        def end(self, code): ...  # clean up as at a clean exit

    Claude().play()

and for being launched: `called` (reads the arguments), `announce` (prints who it is), `tool` and
`tool_environ`, `signalled`, `end_tools`, `failure_code`. What it prints elsewhere goes through `tell`,
which is silent for a puppet. A method `step_NAME` is one more word for scripts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import NoReturn

STEP = re.compile(r"(\w+)(?: (\d+(?:\.\d+)?))?")
ENDINGS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class Player:
    session: str | None = None  # the id, once there is one
    failure_code = 1  # how it exits after a turn that failed

    def __init__(self) -> None:
        self.home = os.environ["HOME"]
        self.cwd = os.getcwd()
        self.launched = "PUPPET_PROMPT" not in os.environ
        self.resumed = os.environ.get("PUPPET_RESUME") or None
        self.prompt = os.environ.get("PUPPET_PROMPT", "a prompt")
        self.children: list[subprocess.Popen[bytes]] = []
        self.turn_open = False

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
        if self.launched:
            self._perform()
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

    # launched: what agents do differently

    def called(self, arguments: list[str]) -> None:  # noqa: ARG002 - for those who override it
        """Reads the real agent's arguments: sets `prompt`, `resumed` and what `begin` needs. Refuses
        what the real one refuses, with `die`."""
        self.prompt = sys.stdin.buffer.read().decode()

    def announce(self) -> None:
        """What it prints as soon as it has a session."""

    def tool(self) -> None:
        """A tool runs."""
        environ = {**os.environ, **self.tool_environ()}
        command = ["/bin/sleep", "1000"]
        child = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self.children.append(child)
        wait_for_program(child.pid)

    def tool_environ(self) -> dict[str, str]:
        """What the agent tells its tools."""
        return {}

    def end_tools(self) -> None:
        """At its own end, if it has the time: nobody has at SIGKILL."""
        for child in self.children:
            child.kill()

    def signalled(self, number: int) -> NoReturn:
        """INT, TERM or HUP has come."""
        self.leave(128 + number)

    # launched: what they have in common

    def tell(self, line: str) -> None:
        if self.launched:
            print(line, flush=True)

    def die(self, message: str) -> NoReturn:
        """There was no session."""
        print(message, file=sys.stderr, flush=True)
        os._exit(1)

    def leave(self, code: int) -> NoReturn:
        self.end_tools()
        self.end(code)
        sys.stdout.flush()
        os._exit(code)

    def killed_by(self, number: int) -> NoReturn:
        """It did not handle this signal."""
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        raise AssertionError("survived it")

    def _perform(self) -> NoReturn:
        # Blocked, and fetched when we wait for it: an answer that comes a moment early is not lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        self.called(sys.argv[1:])
        script = self._opening(self.prompt)
        for number in ENDINGS:
            signal.signal(number, lambda got, _: self.signalled(got))
        self.begin()
        self.announce()
        self.open_turn()
        for step in script.split(","):
            self._take(step.strip())
        self.step_exit(0)

    def _opening(self, script: str) -> str:
        """The rest of the script, after what happens before there is a session."""
        first, _, rest = script.partition(",")
        if first.startswith("die "):
            self.die(script.removeprefix("die "))
        if (found := re.fullmatch(r"late (\d+(?:\.\d+)?)", first.strip())) is None:
            return script
        time.sleep(float(found[1]))
        return self._opening(rest.lstrip())

    def _take(self, step: str) -> None:
        found = STEP.fullmatch(step)
        method = getattr(self, f"step_{found[1]}", None) if found else None
        if found and method:
            method(float(found[2] or 0))

    def step_work(self, seconds: float) -> None:
        self.open_turn()
        time.sleep(seconds)

    def step_tool(self, _: float) -> None:
        self.open_turn()
        self.tool()

    def step_ask(self, _: float) -> None:
        self.ask()
        self._await_person()

    def step_rest(self, _: float) -> None:
        self.close_turn(well=True)
        self._await_person()

    def step_fail(self, _: float) -> None:
        self.close_turn(well=False)
        self.leave(self.failure_code)

    def step_hang(self, _: float) -> None:
        while True:
            signal.pause()

    def step_exit(self, code: float) -> NoReturn:
        if self.turn_open:
            self.close_turn(well=code == 0)
        self.leave(int(code))

    def open_turn(self) -> None:
        if not self.turn_open:
            self.turn_open = True
            self.work()

    def close_turn(self, *, well: bool) -> None:
        self.turn_open = False
        if well:
            self.rest()
        else:
            self.fail()

    def _await_person(self) -> None:
        # The others are blocked meanwhile: no handler interrupts sigwait(), it must fetch them.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        got = signal.sigwait({signal.SIGUSR1, *ENDINGS})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
        if got != signal.SIGUSR1:
            signal.raise_signal(got)


def start_ticks() -> int:
    """This process's start, as agents write it into their records."""
    with open("/proc/self/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])


def wait_for_program(pid: int, deadline: float = 20.0) -> None:
    """Until a child that was just started runs its program. It has the name and the files of the
    program before it has arguments and an environment: the kernel sets those last."""
    end = time.monotonic() + deadline
    while True:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        if int(fields[48]):  # env_end: field 51
            return
        if time.monotonic() > end:
            raise TimeoutError(f"pid {pid} does not run its program after {deadline:g} s")
        time.sleep(0.001)


def rename_process(name: str) -> None:
    """What `process.title = name` does in Node: comm and the whole argv become the name."""
    set_comm(name)
    set_arguments(name.split("\0"))


def known_as(name: str) -> str:
    """The name that it runs under: another one, where the stage has renamed its binary."""
    return os.environ.get("PUPPET_ALIAS") or name


def set_comm(name: str) -> None:
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(name)


def set_arguments(words: list[str]) -> None:
    """Overwrites the command line, for which the script's own path and its interpreter make room."""
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end: fields 48 and 49
    line = b"\0".join(os.fsencode(word) for word in words)
    assert len(line) < end - start, "no room for the command line"
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(line.ljust(end - start, b"\0"))
