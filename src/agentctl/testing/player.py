"""The program of a fake agent. It runs under a copy of the interpreter with the name of the agent's
binary, in one of two ways.

A puppet (`Stage.start`) takes steps from standard input, and answers when its native files are written.

A launched fake (`Stage.install`) is called like the real agent, with its arguments and its prompt. It
writes and prints what the real agent does. Its prompt is its script, the demo agent's words and some
more, separated by commas:

    late N     as the first word: the session comes N seconds late
    die TEXT   as the first word: no session; TEXT to standard error, exit 1
    work N     a turn is open (it is from the start on); go on after N seconds
    tool       a tool runs: a child in its own session
    ask, rest  wait for the user; close the turn and stay (both continue at SIGUSR1)
    fail       the turn ends with an error, and the agent with it
    hang       do nothing until a signal comes
    exit N     close the turn, well if N is 0, and exit

Other words are ignored. At the end of the script the fake closes its turn and exits with 0.

A subclass writes the native files, exactly as the agent does:

    class Claude(Player):
        def begin(self): ...      # sets self.session, writes what a started agent has written
        def work(self): ...       # a turn is open now
        def ask(self): ...        # and blocked on the user
        def rest(self): ...       # the turn is over, well
        def fail(self): ...       # the turn is over, with an error
        def end(self, code): ...  # clean up as at a clean exit

    Claude().play()

and for a launch: `read_arguments`, `announce` (prints the session's id), `tool`, `tool_environ`,
`on_signal`, `end_tools`, `failure_code`. It prints through `print_line`, which is silent for a puppet.
A method `step_NAME` is one more word for scripts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

from agentctl.light_typing import NoReturn

STEP = re.compile(r"(\w+)(?: (\d+(?:\.\d+)?))?")
ENDINGS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class Player:
    session: str | None = None  # the id, once there is one
    failure_code = 1  # how it exits after a turn that failed

    def __init__(self) -> None:
        self.home = os.environ["HOME"]
        self.cwd = os.getcwd()
        self.is_launched = "PUPPET_PROMPT" not in os.environ
        self.resume_id = os.environ.get("PUPPET_RESUME") or None
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
        if self.is_launched:
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

    def read_arguments(self, arguments: list[str]) -> None:  # noqa: ARG002 - for subclasses
        """Read the real agent's arguments: set `prompt`, `resume_id` and what `begin` needs. Call `die`
        for arguments that the real agent refuses."""
        self.prompt = sys.stdin.buffer.read().decode()

    def announce(self) -> None:
        """Print what the agent prints as soon as it has a session."""

    def tool(self) -> None:
        """Start a tool."""
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
        """Return the variables that the agent sets for its tools."""
        return {}

    def end_tools(self) -> None:
        """End the tools at the agent's own end; not at SIGKILL."""
        for child in self.children:
            child.kill()

    def on_signal(self, number: int) -> NoReturn:
        """Handle INT, TERM or HUP."""
        self.leave(128 + number)

    # launched: what they have in common

    def print_line(self, line: str) -> None:
        if self.is_launched:
            print(line, flush=True)

    def die(self, message: str) -> NoReturn:
        """Fail before there is a session."""
        print(message, file=sys.stderr, flush=True)
        os._exit(1)

    def leave(self, code: int) -> NoReturn:
        self.end_tools()
        self.end(code)
        sys.stdout.flush()
        os._exit(code)

    def die_of(self, number: int) -> NoReturn:
        """End by a signal that the agent does not handle."""
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        raise AssertionError("survived it")

    def _perform(self) -> NoReturn:
        # Blocked until `_await_user`: an answer that comes too early is not lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        self.read_arguments(sys.argv[1:])
        script = self._run_opening(self.prompt)
        for number in ENDINGS:
            signal.signal(number, lambda received, _: self.on_signal(received))
        self.begin()
        self.announce()
        self.open_turn()
        for step in script.split(","):
            self._run_step(step.strip())
        self.step_exit(0)

    def _run_opening(self, script: str) -> str:
        """Run the words before there is a session. Return the rest of the script."""
        first, _, rest = script.partition(",")
        if first.startswith("die "):
            self.die(script.removeprefix("die "))
        if (match := re.fullmatch(r"late (\d+(?:\.\d+)?)", first.strip())) is None:
            return script
        time.sleep(float(match[1]))
        return self._run_opening(rest.lstrip())

    def _run_step(self, step: str) -> None:
        match = STEP.fullmatch(step)
        method = getattr(self, f"step_{match[1]}", None) if match else None
        if match and method:
            method(float(match[2] or 0))

    def step_work(self, seconds: float) -> None:
        self.open_turn()
        time.sleep(seconds)

    def step_tool(self, _: float) -> None:
        self.open_turn()
        self.tool()

    def step_ask(self, _: float) -> None:
        self.ask()
        self._await_user()

    def step_rest(self, _: float) -> None:
        self.close_turn(well=True)
        self._await_user()

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

    def _await_user(self) -> None:
        # Block the handlers meanwhile: sigwait() must receive these signals itself.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        number = signal.sigwait({signal.SIGUSR1, *ENDINGS})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
        if number != signal.SIGUSR1:
            signal.raise_signal(number)


def start_ticks() -> int:
    """Return this process's start tick, as agents write it into their records."""
    with open("/proc/self/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])


def wait_for_program(pid: int, deadline: float = 20.0) -> None:
    """Wait until a new child runs its program. The kernel sets arguments and environment after the name
    and the files."""
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
    """Set comm and the whole argv to the name, as `process.title = name` does in Node."""
    set_comm(name)
    set_arguments(name.split("\0"))


def process_name(name: str) -> str:
    """Return the name of the running binary: the stage may have renamed it."""
    return os.environ.get("PUPPET_ALIAS") or name


def set_comm(name: str) -> None:
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(name)


def set_arguments(words: list[str]) -> None:
    """Overwrite the command line. The paths of script and interpreter leave room for it."""
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end: fields 48 and 49
    line = b"\0".join(os.fsencode(word) for word in words)
    assert len(line) < end - start, "no room for the command line"
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(line.ljust(end - start, b"\0"))
