"""The soak: many agents start, work and die at random while everything goes wrong around the daemon; at
the end all that was told is held to the driver's book.

    python -m tests.soak.run --seconds 1800 --agents 50

Plays in a room (own processes, own loopback, own /tmp): nothing outside is seen or signalled. Exit code
0: all is accounted for. What was told and what the driver knew is kept in --keep DIR.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from agentctl.rehearsal import sandbox
from agentctl.state import fuses, locks, outbox
from agentctl.system import proc
from tests.soak import reconcile
from tests.soak.book import Book, now
from tests.soak.flapping import Flapping
from tests.soak.lives import Slot
from tests.soak.reader import Reader
from tests.soak.scene import Scene
from tests.soak.troubles import Keeper, Troubles
from tests.waiting import until

QUIET = 120.0  # seconds for all to come to rest, at most


class Soak:
    def __init__(self, root: Path, given: argparse.Namespace) -> None:
        self.seconds = seconds = given.seconds
        seed, spared = given.seed, given.without
        self.book, self.target = Book(), Flapping()
        self.scene = Scene(root, self.target.port)
        self.notes = self.scene.state / "state.db"
        random = Random(seed)
        every = given.kill_every if "kill" not in spared else threading.TIMEOUT_MAX / 2
        self.keeper = Keeper(self.scene, self.book, every, random)
        self.troubles = Troubles(
            self.scene, self.book, self.target, seconds=seconds, random=random, spared=spared
        )
        self.reader = Reader(self.notes, self.book)
        # A start costs a second of a core: many begin more slowly, or the soak measures the machine.
        pace = max(2.0, min(12.0, seconds / 12), min(seconds / 6, given.agents * 0.6))
        self.slots = [Slot(n, self.scene, self.book, seed, pace) for n in range(given.agents)]

    def play(self) -> None:
        self.reader.start()
        self.keeper.start()
        until(lambda: bool(self.book.watches), "a daemon runs")
        for slot in self.slots:
            slot.start()
        self.troubles.start()
        time.sleep(self.seconds)  # the length of the play, nothing is waited for
        for slot in self.slots:
            slot.stop()
        for slot in self.slots:
            slot.join()
        self.troubles.stop()
        self.keeper.stop()

    def settle(self) -> None:
        """Until nobody has anything left to do."""
        try:
            until(self._quiet, "all is quiet", QUIET, beat=0.5)
        except TimeoutError:
            self.book.wrong.append(f"not quiet after {QUIET:g} s: {self._open()}")
        self.keeper.end()
        self.reader.stop()

    def _quiet(self) -> bool:
        """Nobody has anything to do, and nothing more is told: an end may not be clear at once."""
        last = self.reader.events[-1][0] if self.reader.events else 0.0
        return now() - last > reconcile.SETTLED and not any(self._open().values())

    def _open(self) -> dict[str, object]:
        others = [p for p in self._others() if p.comm != "agentctl-daemon"]
        return {
            "deliveries": [one.pending for one in outbox.waiting(str(self.notes), time.time())],
            "fuses": [fuse.id for fuse in fuses.lit(str(self.notes))],
            "locks": [lock.directory for lock in locks.written(str(self.notes))],
            "launches": self._rows("select id, pid from launch where finished_at is null"),
            "processes": [(p.pid, p.comm) for p in others],
        }

    def _others(self) -> list[proc.Process]:
        """All in the room but its first process and ourselves."""
        return [p for p in proc.read_table().values() if p.alive and p.pid not in (1, os.getpid())]

    def _rows(self, query: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.notes, timeout=10)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def complaints(self) -> list[str]:
        book, told = self.book, self.reader.events
        sent = [one for one, _ in outbox.listed(str(self.notes), "webhook", all_of_them=True)]
        found = [*book.wrong, *self.target.wrong]
        if self.troubles.happened != self.troubles.planned:
            found.append(f"only {self.troubles.happened} of {self.troubles.planned} troubles came")
        found += reconcile.journal(told)
        found += reconcile.sessions(book, told)
        found += reconcile.watching(book, told)
        found += reconcile.launches(book, told, self.scene.hooks.read_text().splitlines())
        found += reconcile.fuses(book, told, self.scene.burned.read_text().splitlines())
        found += reconcile.locks(book, told)
        found += reconcile.deliveries(told, sent, self.target.got)
        found += reconcile.list_of_all(book, self.scene.ask("list", "-a")["sessions"])
        if held := self.scene.ask("lock", "list")["locks"]:
            found.append(f"still locked: {held}")
        if left := self._others():
            found.append(f"processes are left: {[(p.pid, p.comm) for p in left]}")
        for log in (self.scene.root / "daemon.err", self.scene.state / "daemon.log"):
            if "Traceback" in log.read_text():
                found.append(f"a daemon failed: {log.read_text()[-3000:]}")
        return found

    def summary(self) -> str:
        kinds = Counter(event.type for _, event in self.reader.events)
        taken = len({got.delivery for got in self.target.got if got.taken})
        book, told = self.book, ", ".join(f"{name} {count}" for name, count in sorted(kinds.items()))
        counts: dict[str, list[Any]] = {
            "runs of agents": book.runs,
            "launches": book.launches,
            "fuses": book.fuses,
            "locks": book.locks,
            "daemons": book.watches,
            "full disks": book.full,
            "steps of the clock": book.steps,
            "verbs refused for a trouble": book.refused,
        }
        lines = [", ".join(f"{len(entries)} {name}" for name, entries in counts.items())]
        lines.append(f"{len(self.reader.events)} events: {told}")
        seen = {event.subject for _, event in self.reader.events}
        unseen = [run for run in book.runs if reconcile.brief(run) and run.session not in seen]
        lines.append(f"{len(unseen)} agents lived for less than a second and were not seen")
        lines.append(f"{taken} deliveries taken, of {len(self.target.got)} tries that arrived")
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests.soak.run", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds of life for a daemon")
    parser.add_argument(
        "--without", action="append", default=[], choices=("kill", "disk", "clock", "flap")
    )
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--keep", type=Path, help="keep the journal and the logs here")
    given = parser.parse_args()
    if not os.environ.get(sandbox.ROOM):
        return _in_a_room(given.keep)
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as root:
        _hear_no_agents(Path(root) / "agents.err")
        soak = Soak(Path(root), given)
        began = now()
        soak.play()
        soak.settle()
        if given.keep is not None:
            _keep(soak, given.keep)
        found = soak.complaints()
    print(f"seed {given.seed}, {given.agents} agents, {now() - began:.0f} s\n{soak.summary()}")
    for each in found:
        print(f"- {each}")
    print(f"{len(found)} complaints" if found else "all is accounted for")
    return 1 if found else 0


def _hear_no_agents(log: Path) -> None:
    """What they say on being interrupted is not what the soak says."""
    sys.stderr = os.fdopen(os.dup(2), "w")
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 2)


def _keep(soak: Soak, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(soak.notes)
    (where / "state.db").unlink(missing_ok=True)
    connection.execute("vacuum into ?", (str(where / "state.db"),))
    connection.close()
    for log in (*soak.scene.state.glob("daemon.log*"), soak.scene.root / "daemon.err"):
        (where / log.name).write_bytes(log.read_bytes())
    (where / "book").write_text("\n".join(map(str, [
        *soak.book.runs, *soak.book.launches, *soak.book.fuses, *soak.book.watches, *soak.book.locks,
        *soak.book.full, *soak.book.steps, *soak.book.refused,
    ])))  # fmt: skip
    told = "\n".join(
        f"{at:.3f} {e.seq} {e.type} {e.subject} {e.seen_at:.3f}" for at, e in soak.reader.events
    )
    (where / "events").write_text(told)


def _in_a_room(keep: Path | None) -> int:
    """This very program once more."""
    if why := sandbox.obstacle():
        print(f"no room to play in: {why}", file=sys.stderr)
        return sandbox.NO_ROOM
    kept = [str(keep)] if keep is not None else []
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "tests.soak.run", *sys.argv[1:]]
    command = sandbox.words(words, kept)
    return os.spawnv(os.P_WAIT, command[0], command)


if __name__ == "__main__":
    sys.exit(main())
