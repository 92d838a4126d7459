"""A coding agent without a model: follows the steps in its prompt, and writes files as agents do.

    python -m agentctl.demo.agent "work 20, ask, work 5, exit 3"

    work N     open a turn and work for N seconds (without N: go on to the next step)
    ask        wait for the user (SIGUSR1 is the answer)
    rest       close the turn and sit idle (until SIGUSR1)
    fail       close the turn with an error and exit 1
    hang       keep the turn open for ever and write nothing
    tool CMD   run a shell command that outlives the agent, in its own process session, with the
               agent's pid in its environment (without CMD: sleep)
    stubborn   ignore SIGINT and SIGTERM from now on
    write F T  append the text T, as a line, to the file F
    commit     commit all changes with git
    exit N     close the turn and exit N

With --steps, the steps come from standard input, and the agent prints the session id after each.
--resume ID continues a session.

Native files, below $DEMO_AGENT_HOME or ~/.demo-agent:

    live/PID.json           {"pid", "procStart", "session", "namespace"}: removed at a clean exit
    sessions/ID.jsonl       one record per line: session, turn, say, usage
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import uuid
from contextlib import suppress

VERSION = "1.0.0"
MODEL = "demo-1"
ENDINGS = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGINT})
BEAT = 0.5  # seconds between two messages while working
TEXT_STEPS = ("tool", "write")  # steps with a text, not a number


class Journal:
    """The native files of one session."""

    def __init__(self, home: str, session: str) -> None:
        self._path = os.path.join(home, "sessions", f"{session}.jsonl")
        self._live = os.path.join(home, "live", f"{os.getpid()}.json")
        for path in (self._path, self._live):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)

    @property
    def exists(self) -> bool:
        return os.path.exists(self._path)

    def write(self, type_: str, **fields: object) -> None:
        line = json.dumps({"type": type_, "at": time.time(), **fields})
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)

    def announce(self, session: str) -> None:
        with open("/proc/self/stat", "rb") as stat:
            start = stat.read().rpartition(b")")[2].split()[19].decode()
        record = {
            "pid": os.getpid(), "procStart": start, "session": session,
            "namespace": os.readlink("/proc/self/ns/pid"),
        }  # fmt: skip
        with open(f"{self._live}.new", "w", encoding="utf-8") as file:
            json.dump(record, file)
        os.rename(f"{self._live}.new", self._live)

    def withdraw(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._live)


class Agent:
    """Takes one step after another."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._turn_open = False
        self._message_count = 0
        signal.signal(signal.SIGTERM, lambda *_: self._leave(143))
        signal.signal(signal.SIGHUP, lambda *_: self._leave(129))
        signal.signal(signal.SIGINT, lambda *_: self._interrupt())
        # Blocked, and fetched with sigwait(): an answer that comes a moment early is not lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    def take(self, step: str) -> None:
        verb, _, argument = step.partition(" ")
        try:
            number = float(argument or 0)
        except ValueError:
            verb, number = verb if verb in TEXT_STEPS else "", 0.0
        if verb == "work":
            self._work(number)
        elif verb == "ask":
            self._forget_answers()
            self._turn_open = False  # the next step writes `working` again
            self._journal.write("turn", state="waiting", question="shall I go on?")
        elif verb == "rest":
            self._forget_answers()
            self._close("completed")
        elif verb == "fail":
            self._close("failed")
        elif verb == "hang":
            self._open()
        elif verb == "tool":
            self._open()
            _run_tool(argument or "sleep 1000")
        elif verb == "write":
            self._open()
            _append_line(argument)
        elif verb == "commit":
            self._open()
            _commit()
        elif verb == "stubborn":
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
        elif verb == "exit":
            if self._turn_open:
                self._close("completed" if number == 0 else "failed")
            self._leave(int(number))
        else:
            print(f"demo-agent: no such step: {step}", file=sys.stderr)
            self._leave(2)

    def pause_after(self, step: str) -> None:
        """Wait as this step does if the steps come from the prompt."""
        if step == "fail":
            self._leave(1)
        while step == "hang":
            signal.pause()
        if step in ("ask", "rest"):
            self._await_answer()
        if step == "ask":
            self._open()

    def end(self) -> None:
        if self._turn_open:
            self._close("completed")
        self._leave(0)

    def _await_answer(self) -> None:
        # Block the other signals meanwhile: sigwait() fetches them, no handler runs.
        while True:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
            number = signal.sigwait({signal.SIGUSR1, *ENDINGS})
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
            if number == signal.SIGUSR1:
                return
            signal.raise_signal(number)  # ends the agent, unless it is stubborn

    def _forget_answers(self) -> None:
        """Discard answers that came before the question."""
        while signal.SIGUSR1 in signal.sigpending():
            signal.sigwait({signal.SIGUSR1})

    def _work(self, seconds: float) -> None:
        self._open()
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            time.sleep(min(BEAT, remaining))
            self._message_count += 1
            count = self._message_count
            self._journal.write("say", role="assistant", text=f"working, line {count}")
            self._journal.write("usage", input=100 * count, output=10 * count)

    def _open(self) -> None:
        if not self._turn_open:
            self._turn_open = True
            self._journal.write("turn", state="working")

    def _close(self, outcome: str) -> None:
        self._turn_open = False
        self._journal.write("turn", state="over", how=outcome)

    def _interrupt(self) -> None:
        if self._turn_open:
            self._close("interrupted")
        self._leave(130)

    def _leave(self, code: int) -> None:
        self._journal.withdraw()
        sys.exit(code)


def _run_tool(command: str) -> None:
    """Start a command as agents do: without waiting, with the agent's pid in its environment."""
    environ = {**os.environ, "DEMO_AGENT_PID": str(os.getpid())}
    null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    words = ["sh", "-c", f"exec {command}" if command.startswith("sleep ") else command]
    signals = [signal.SIGUSR1, *ENDINGS]
    os.posix_spawnp(
        words[0], words, environ, file_actions=null, setsid=True, setsigmask=(), setsigdef=signals
    )


def _append_line(argument: str) -> None:
    name, _, text = argument.partition(" ")
    with open(name, "a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def _commit() -> None:
    """Commit all changes under the agent's own name: git may have no user configured here."""
    author = ("-c", "user.name=Demo Agent", "-c", "user.email=demo-agent@localhost")
    for words in (("add", "--all"), (*author, "commit", "--quiet", "--message", "what I was asked for")):
        if os.spawnvp(os.P_WAIT, "git", ("git", *words)):  # noqa: S606 - no shell is needed
            print(f"demo-agent: git {' '.join(words)} failed", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(prog="demo-agent", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "prompt", help='the steps, e.g. "work 20, ask, work 5, exit 3"; - reads standard input'
    )
    parser.add_argument("--steps", action="store_true", help="read the steps from standard input")
    parser.add_argument("--resume", metavar="ID", help="continue a session")
    parser.add_argument("--model", default=MODEL, help="the model name to record")
    parser.add_argument("--late", type=float, default=0.0, help="seconds until the session exists")
    arguments = parser.parse_args()
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write("demo-agent")  # ps shows this name, not "python"
    home = os.environ.get("DEMO_AGENT_HOME") or os.path.expanduser("~/.demo-agent")
    time.sleep(arguments.late)  # some agents take long to load
    session = arguments.resume or str(uuid.uuid4())
    journal = Journal(home, session)
    if arguments.resume is not None and not journal.exists:
        print(f"demo-agent: no session {session}", file=sys.stderr)
        sys.exit(1)
    agent = Agent(journal)
    if arguments.resume is None:
        journal.write(
            "session", id=session, cwd=os.getcwd(), model=arguments.model, version=VERSION,
            interactive=arguments.steps,
        )  # fmt: skip
    journal.write("say", role="user", text=prompt)
    journal.announce(session)
    if arguments.steps:
        follow_steps(agent, session)
    else:
        print(session, flush=True)
        perform_prompt(agent, prompt)
    agent.end()


def follow_steps(agent: Agent, session: str) -> None:
    print(session, flush=True)
    while line := sys.stdin.readline():
        agent.take(line.strip())
        print(session, flush=True)


def perform_prompt(agent: Agent, prompt: str) -> None:
    agent.take("work")
    for step in prompt.split(","):
        agent.take(step.strip())
        agent.pause_after(step.strip())


if __name__ == "__main__":
    main()
