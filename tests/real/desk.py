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
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from tests.ending import kill
from tests.real import native
from tests.real.actor import PATIENCE, marked
from tests.real.book import Told, Who
from tests.real.facts import Facts, facts_of
from tests.real.lab import Lab
from tests.running import SOURCES, Ran
from tests.waiting import until

SHIM = "agentctl-shim"
NONE: Mapping[str, str] = {}
AT_ONCE = {"AGENTCTL_SETTLE": "0"}  # launch returns with the id
_directories = itertools.count(1)


class Quiet:
    """A watcher that nobody has to satisfy: these tests are about what agentctl does."""

    def unsettled(self, who: Who, at: float) -> None:
        pass

    def told(self, who: Who, now: Told, since: float) -> None:
        pass

    def ended(self, who: Who, at: float) -> None:
        pass


class Launched(NamedTuple):
    id: str  # as it was printed
    mark: str  # in its prompt, and in no other


class Following(NamedTuple):
    """An agentctl that runs on, and what it has said so far."""

    child: subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        return self.output.read_text("utf-8", "replace")

    def says(self, text: str) -> None:
        until(lambda: text in self.said(), f"it says {text!r}; it said: {self.said()}", PATIENCE)

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
        done = subprocess.run(
            [sys.executable, "-m", "agentctl", *words],
            env=self._environ(environ, without),
            cwd=cwd or self.work,
            input=stdin.encode(),
            capture_output=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def follows(self, *words: str) -> Iterator[Following]:
        """One that goes on; ended when the test is done with it."""
        output = self.work.parent / f"{self.work.name}.{words[0]}"
        with output.open("wb") as file:
            child = self._started(words, file)
        try:
            yield Following(child, output)
        finally:
            child.kill()
            child.wait()

    def launches(self, script: str, *words: str, environ: Mapping[str, str] = NONE) -> Launched:
        """One that must begin, and may run commands unasked. It returns with the id."""
        mark, prompt = marked(script)
        given = ("launch", self.adapter, "-p", prompt, *self.facts.unasked, *words)
        ran = self.agentctl(*given, environ={**AT_ONCE, **environ})
        assert ran.code == 0, ran.err
        assert len(ran.lines) == 1, ran.out
        return Launched(ran.lines[0], mark)

    def held(self, launched: Launched) -> None:
        """Waits until the model stands at this launch's gate."""
        self.lab.model.journal.wait("held", launched.mark, deadline=PATIENCE)

    def opens(self, launched: Launched) -> None:
        self.lab.model.open(launched.mark)

    def signals(self, session_id: str, number: signal.Signals) -> None:
        """To the agent itself, by the kernel; returns when it has ended."""
        with Handle(self.process(session_id)) as handle:
            handle.signal(number)
            assert handle.wait(PATIENCE), f"{self.adapter} outlives {number.name}"

    # what is seen

    def row(self, session_id: str) -> dict[str, Any]:
        """As `list -a` tells it."""
        rows = self.agentctl("list", "-a", "--json").json()["sessions"]
        [row] = [each for each in rows if each["id"] == session_id]
        return dict(row)

    def process(self, session_id: str) -> ProcessIdentity:
        pid = self.row(session_id)["pid"]
        assert pid is not None, f"{session_id} has no process"
        return proc.read_process(pid, proc.boot_id()).identity

    def shim(self) -> proc.Process:
        """The only one in the room."""
        [shim] = [process for process in self.others() if process.comm == SHIM]
        return shim

    def native_id(self, launched: Launched) -> str | None:
        """The session that the agent itself keeps this prompt in."""
        return native.session_with(self.adapter, self.lab.home, launched.mark)

    def others(self) -> list[proc.Process]:
        """Every process of the room but those that we run in."""
        table = proc.read_table()
        ours, pid = set(), os.getpid()
        while pid in table:
            ours.add(pid)
            pid = table[pid].parent
        return [each for each in table.values() if each.alive and each.pid not in ours]

    def nobody_is_left(self, *, but: str = "") -> None:
        """The finishing work of a launch takes a moment; then nothing runs but terminals (`but`)."""

        def left() -> list[str]:
            return [
                f"{each.pid} {each.comm}" for each in self.others() if not but or but not in each.comm
            ]

        try:
            until(lambda: not left(), "the room is empty", PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {left()}") from None

    def locked(self) -> list[str]:
        return [lock["directory"] for lock in self.agentctl("locks", "--json").json()["locks"]]

    def kept(self) -> set[str]:
        """What agentctl remembers of launches."""
        folder = self.lab.home / ".agentctl" / "launches"
        return set(os.listdir(folder)) if folder.exists() else set()

    def clear(self) -> None:
        """Everybody in the room is ours to end."""
        while left := self.others():
            for process in left:
                kill(process.identity)

    def _started(self, words: tuple[str, ...], output: IO[bytes]) -> subprocess.Popen[bytes]:
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
        given = {**self.lab.environ, **ours, **more}
        return {name: value for name, value in given.items() if name != without}
