"""A person's desk: agentctl on one real agent, and what of it can be seen without agentctl.

One lab serves all tests of a run, since an agent's first start in a new home is slow; each test has a
directory of its own, and the room is empty when it begins.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from tests.ending import kill
from tests.real import native
from tests.real.actor import PATIENCE, make_prompt
from tests.real.book import State, Who
from tests.real.facts import Facts, facts_of
from tests.real.lab import Lab
from tests.running import SOURCES, Ran
from tests.waiting import until

SHIM = "agentctl-shim"
NONE: Mapping[str, str] = {}
AT_ONCE = {"AGENTCTL_SETTLE": "0"}  # launch returns with the id
_directories = itertools.count(1)


class Quiet:
    """A watcher that accepts everything: these tests are about what agentctl does."""

    def unsettled(self, who: Who, at: float) -> None:
        pass

    def declare(self, who: Who, now: State, since: float) -> None:
        pass

    def record_end(self, who: Who, at: float) -> None:
        pass


class Launch(NamedTuple):
    id: str  # as it was printed
    mark: str  # in its prompt, and in no other


class Following(NamedTuple):
    """An agentctl that keeps running, and its output so far."""

    child: subprocess.Popen[bytes]
    output: Path

    def text(self) -> str:
        return self.output.read_text("utf-8", "replace")

    def says(self, text: str) -> None:
        until(lambda: text in self.text(), f"it prints {text!r}; it printed: {self.text()}", PATIENCE)

    def ends(self) -> int:
        return self.child.wait(PATIENCE)


class Desk:
    def __init__(self, lab: Lab) -> None:
        self.lab, self.adapter = lab, lab.adapter
        self.facts: Facts = facts_of(lab.pin)
        self.work = self.directory()

    def directory(self) -> Path:
        """A repository that no other test works in."""
        return self.lab.repository(self.lab.root / f"work{next(_directories)}")

    # what is done

    def agentctl(
        self,
        *words: str,
        cwd: Path | None = None,
        stdin: str = "",
        environ: Mapping[str, str] = NONE,
        without: str = "",
    ) -> Ran:
        """Typed by a person of this home, with `environ` and `without` a variable."""
        process = subprocess.run(
            [sys.executable, "-m", "agentctl", *words],
            env=self._environ(environ, without),
            cwd=cwd or self.work,
            input=stdin.encode(),
            capture_output=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        return Ran(process.returncode, process.stdout.decode(), process.stderr.decode())

    @contextmanager
    def follows(self, *words: str) -> Iterator[Following]:
        """One that keeps running; killed at the end of the block."""
        output = self.work.parent / f"{self.work.name}.{words[0]}"
        with output.open("wb") as file:
            child = self._start(words, file)
        try:
            yield Following(child, output)
        finally:
            child.kill()
            child.wait()

    def launches(self, script: str, *more: str, environ: Mapping[str, str] = NONE) -> Launch:
        """Launch an agent that must begin, and may run commands unasked. Returns with the id."""
        mark, prompt = make_prompt(script)
        words = ("launch", self.adapter, "-p", prompt, *self.facts.unasked, *more)
        ran = self.agentctl(*words, environ={**AT_ONCE, **environ})
        assert ran.code == 0, ran.err
        assert len(ran.lines) == 1, ran.out
        return Launch(ran.lines[0], mark)

    def wait_for_gate(self, launched: Launch) -> None:
        """Wait until the model stands at this launch's gate."""
        self.lab.model.journal.wait("held", launched.mark, deadline=PATIENCE)

    def opens(self, launched: Launch) -> None:
        self.lab.model.open(launched.mark)

    def signals(self, session_id: str, number: signal.Signals) -> None:
        """To the agent itself, by the kernel; returns when it has ended."""
        with Handle(self.process(session_id)) as handle:
            handle.signal(number)
            assert handle.wait(PATIENCE), f"{self.adapter} outlives {number.name}"

    # what is seen

    def row(self, session_id: str) -> dict[str, Any]:
        """The session's row of `list -a`."""
        rows = self.agentctl("list", "-a", "--json").json()["sessions"]
        [row] = [each for each in rows if each["id"] == session_id]
        return dict(row)

    def process(self, session_id: str) -> ProcessIdentity:
        pid = self.row(session_id)["pid"]
        assert pid is not None, f"{session_id} has no process"
        return proc.read_process(pid, proc.read_boot_id()).identity

    def shim(self) -> proc.Process:
        """The only one in the room."""
        [shim] = [process for process in self.others() if process.comm == SHIM]
        return shim

    def native_id(self, launched: Launch) -> str | None:
        """The session that the agent itself keeps this prompt in."""
        return native.session_with(self.adapter, self.lab.home, launched.mark)

    def others(self) -> list[proc.Process]:
        """Every process of the room but those that we run in."""
        table = proc.read_table()
        ours, pid = set(), os.getpid()
        while pid in table:
            ours.add(pid)
            pid = table[pid].parent
        return [each for each in table.values() if each.is_alive and each.pid not in ours]

    def check_room_is_empty(self, *, but: str = "") -> None:
        """The finishing work of a launch takes a moment; then nothing runs but terminals (`but`)."""

        def find_processes() -> list[str]:
            return [
                f"{each.pid} {each.comm}" for each in self.others() if not but or but not in each.comm
            ]

        try:
            until(lambda: not find_processes(), "the room is empty", PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {find_processes()}") from None

    def locked_directories(self) -> list[str]:
        return [lock["directory"] for lock in self.agentctl("locks", "--json").json()["locks"]]

    def launch_folders(self) -> set[str]:
        """The names of agentctl's launch folders."""
        folder = self.lab.home / ".agentctl" / "launches"
        return set(os.listdir(folder)) if folder.exists() else set()

    def clear(self) -> None:
        """End every process in the room: all of them are ours."""
        while processes := self.others():
            for process in processes:
                kill(process.identity)

    def _start(self, words: tuple[str, ...], output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "agentctl", *words],
            env=self._environ(NONE, ""),
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def _environ(self, more: Mapping[str, str], without: str) -> dict[str, str]:
        ours = {"PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1", "PWD": str(self.work)}
        environ = {**self.lab.environ, **ours, **more}
        return {name: value for name, value in environ.items() if name != without}
