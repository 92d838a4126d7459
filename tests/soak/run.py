"""The soak: many agents start, work and die at random while everything goes wrong around the daemon; at
the end all events are compared with the driver's book.

    python -m tests.soak.run --seconds 1800 --agents 50

Plays in a room (own processes, own loopback, own /tmp): nothing outside is seen or signalled. Exit code
0: all is accounted for. The events and the driver's book are written to --keep DIR.
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
    def __init__(self, root: Path, options: argparse.Namespace) -> None:
        self.seconds = seconds = options.seconds
        seed, spared = options.seed, options.without
        self.book, self.target = Book(), Flapping()
        self.scene = Scene(root, self.target.port)
        self.notes = self.scene.state / "state.db"
        random = Random(seed)
        every = options.kill_every if "kill" not in spared else threading.TIMEOUT_MAX / 2
        self.keeper = Keeper(self.scene, self.book, every, random)
        self.troubles = Troubles(
            self.scene, self.book, self.target, seconds=seconds, random=random, spared=spared
        )
        self.reader = Reader(self.notes, self.book)
        # A start costs a second of a core: many begin more slowly, or the soak measures the machine.
        pace = max(2.0, min(12.0, seconds / 12), min(seconds / 6, options.agents * 0.6))
        self.slots = [Slot(n, self.scene, self.book, seed, pace) for n in range(options.agents)]

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
        """Wait until there is nothing left to do."""
        try:
            until(self._is_quiet, "all is quiet", QUIET, beat=0.5)
        except TimeoutError:
            self.book.wrong.append(f"not quiet after {QUIET:g} s: {self._open()}")
        self.keeper.end()
        self.reader.stop()

    def _is_quiet(self) -> bool:
        """Nothing to do, and no event for a while: the event of an end may come late."""
        last = self.reader.events[-1][0] if self.reader.events else 0.0
        return now() - last > reconcile.SETTLED and not any(self._open().values())

    def _open(self) -> dict[str, object]:
        others = [p for p in self._others() if p.comm != "agentctl-daemon"]
        return {
            "deliveries": [one.pending for one in outbox.list_lanes(str(self.notes), time.time())],
            "fuses": [fuse.id for fuse in fuses.list_active(str(self.notes))],
            "locks": [lock.directory for lock in locks.read_locks(str(self.notes))],
            "launches": self._rows("select id, pid from launch where finished_at is null"),
            "processes": [(p.pid, p.comm) for p in others],
        }

    def _others(self) -> list[proc.Process]:
        """Return all processes of the room except its first one and ourselves."""
        return [p for p in proc.read_table().values() if p.is_alive and p.pid not in (1, os.getpid())]

    def _rows(self, query: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.notes, timeout=10)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def find_complaints(self) -> list[str]:
        book, events = self.book, self.reader.events
        deliveries = [
            one for one, _ in outbox.list_deliveries(str(self.notes), "webhook", all_of_them=True)
        ]
        complaints = [*book.wrong, *self.target.wrong]
        if self.troubles.happened != self.troubles.planned:
            complaints.append(f"only {self.troubles.happened} of {self.troubles.planned} troubles came")
        complaints += reconcile.check_journal(events)
        complaints += reconcile.check_sessions(book, events)
        complaints += reconcile.check_daemons(book, events)
        complaints += reconcile.check_launches(book, events, self.scene.hooks.read_text().splitlines())
        complaints += reconcile.check_fuses(book, events, self.scene.fired.read_text().splitlines())
        complaints += reconcile.check_locks(book, events)
        complaints += reconcile.check_deliveries(events, deliveries, self.target.arrivals)
        complaints += reconcile.check_list(book, self.scene.ask("list", "-a")["sessions"])
        if locks_left := self.scene.ask("lock", "list")["locks"]:
            complaints.append(f"still locked: {locks_left}")
        if processes := self._others():
            complaints.append(f"processes are left: {[(p.pid, p.comm) for p in processes]}")
        for log in (self.scene.root / "daemon.err", self.scene.state / "daemon.log"):
            if "Traceback" in log.read_text():
                complaints.append(f"a daemon failed: {log.read_text()[-3000:]}")
        return complaints

    def summary(self) -> str:
        kinds = Counter(event.type for _, event in self.reader.events)
        accepted = len({each.delivery for each in self.target.arrivals if each.accepted})
        book, types = self.book, ", ".join(f"{name} {count}" for name, count in sorted(kinds.items()))
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
        lines.append(f"{len(self.reader.events)} events: {types}")
        subjects = {event.subject for _, event in self.reader.events}
        unseen = [run for run in book.runs if reconcile.is_brief(run) and run.session not in subjects]
        lines.append(f"{len(unseen)} agents lived for less than a second and were not seen")
        lines.append(
            f"{accepted} deliveries accepted, of {len(self.target.arrivals)} tries that arrived"
        )
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
    options = parser.parse_args()
    if not os.environ.get(sandbox.IN_SANDBOX):
        return _run_in_room(options.keep)
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as root:
        _silence_agents(Path(root) / "agents.err")
        soak = Soak(Path(root), options)
        began = now()
        soak.play()
        soak.settle()
        if options.keep is not None:
            _keep_logs(soak, options.keep)
        complaints = soak.find_complaints()
    print(f"seed {options.seed}, {options.agents} agents, {now() - began:.0f} s\n{soak.summary()}")
    for each in complaints:
        print(f"- {each}")
    print(f"{len(complaints)} complaints" if complaints else "all is accounted for")
    return 1 if complaints else 0


def _silence_agents(log: Path) -> None:
    """Write the agents' standard error to a file: what they print when interrupted is no complaint."""
    sys.stderr = os.fdopen(os.dup(2), "w")
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 2)


def _keep_logs(soak: Soak, where: Path) -> None:
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
    events = "\n".join(
        f"{at:.3f} {e.seq} {e.type} {e.subject} {e.seen_at:.3f}" for at, e in soak.reader.events
    )
    (where / "events").write_text(events)


def _run_in_room(keep: Path | None) -> int:
    """Run this program again in a room of its own."""
    if why := sandbox.find_obstacle():
        print(f"no room to play in: {why}", file=sys.stderr)
        return sandbox.NO_SANDBOX
    writable = [str(keep)] if keep is not None else []
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "tests.soak.run", *sys.argv[1:]]
    command = sandbox.command_line(words, writable)
    return os.spawnv(os.P_WAIT, command[0], command)


if __name__ == "__main__":
    sys.exit(main())
