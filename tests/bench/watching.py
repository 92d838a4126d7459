"""What the daemon costs while it watches, and how soon it reports: in a room of its own, where no other
processes begin and end.

    python -m tests.bench.watching ROOT SCALE      one line of JSON: see `Watched`

CPU time is what the kernel counts for the whole process, with ended threads. The delay is from the kill
or the write until a reader of `agentctl events --json` has the line.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple

from agentctl.daemon_client import lock_file
from agentctl.rehearsal import sandbox
from agentctl.state import db, journal
from agentctl.system import pidfd
from agentctl.truth.event import Event
from tests.bench import corpus
from tests.bench.live import Troupe

AGENTCTL = os.path.join(os.path.dirname(sys.executable), "agentctl")
PATIENCE = 20.0  # seconds for one event: then it is lost, and the benchmark fails
STEP = 5.0  # seconds between two changes of the agent at work


class Watched(NamedTuple):
    """Seconds, except where the comment names another unit."""

    quiet: float  # share of one core, all quiet
    working: float  # the same, one of them at work
    laden: float  # and with a long history on disk and in the journal
    memory: float  # MB that are the daemon's own
    laden_memory: float
    start: float  # until the daemon answers
    laden_start: float
    deaths: list[float]
    changes: list[float]
    load: float


class Scale(NamedTuple):
    seconds: float = 60.0
    times: int = 40
    history: int = 5000
    rows: int = 100_000  # of the journal
    live: int = 20
    settle: float = (
        6.0  # seconds after which a new process is not young any more: `watch/new_processes.py`
    )


def measure(root: Path, scale: Scale) -> Watched:
    with Troupe(root / "few") as troupe:
        troupe.grow_to(scale.live)
        with daemon(troupe.environ) as (pid, start):
            time.sleep(scale.settle)
            quiet = cpu_share(pid, scale.seconds)
            working = _measure_work(troupe, pid, scale.seconds)
            memory = own_megabytes(pid)
            changes = _measure_changes(troupe, scale.times)
            deaths = _measure_deaths(troupe, scale)
    laden_root = root / "many"
    corpus.build(laden_root / "home", scale.history, now=time.time())
    with Troupe(laden_root) as troupe:
        troupe.grow_to(scale.live)
        _fill_journal(Path(troupe.environ["AGENTCTL_HOME"]), scale.rows)
        with daemon(troupe.environ) as (pid, laden_start):
            time.sleep(scale.settle)
            laden = _measure_work(troupe, pid, scale.seconds)
            laden_memory = own_megabytes(pid)
    return Watched(
        quiet, working, laden, memory, laden_memory, start, laden_start, deaths, changes,
        os.getloadavg()[0],
    )  # fmt: skip


def in_a_room(root: Path, scale: Scale) -> Watched:
    return Watched(*run_in_a_room("tests.bench.watching", root, json.dumps(scale)))


def run_in_a_room(module: str, root: Path, *words: str) -> list[Any]:
    """Return the last line of this program, run in a room if the machine allows one."""
    root.mkdir(parents=True, exist_ok=True)
    program = [sys.executable, "-m", module, str(root), *words]
    if sandbox.find_obstacle() is None:
        program = sandbox.command_line(program, [str(root)])
    ran = subprocess.run(program, stdout=subprocess.PIPE, check=True)
    result: list[Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


# the daemon


@contextmanager
def daemon(environ: Mapping[str, str]) -> Iterator[tuple[int, float]]:
    """Run a daemon for the block. Yield its pid, and the seconds until it answered."""
    began = time.perf_counter()
    subprocess.run([AGENTCTL, "daemon", "start"], env=environ, stdout=subprocess.DEVNULL, check=True)
    took = time.perf_counter() - began
    holder = lock_file.find_proven(environ["AGENTCTL_HOME"])
    assert holder is not None
    try:
        yield holder.identity.pid, took
    finally:
        subprocess.run([AGENTCTL, "daemon", "stop"], env=environ, stdout=subprocess.DEVNULL, check=True)


def cpu_seconds(pid: int) -> float:
    """Read the clock that the kernel keeps for each process (CPUCLOCK_SCHED)."""
    return time.clock_gettime((~pid << 3) | 2)


def cpu_share(pid: int, seconds: float) -> float:
    """Return the share of one core, while this process sleeps."""
    began, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - used) / (time.monotonic() - began)


def own_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _measure_work(troupe: Troupe, pid: int, seconds: float) -> float:
    """One agent opens and closes its turn again and again, the others are quiet."""
    _, puppet = troupe.puppets[0]
    began, used, step = time.monotonic(), cpu_seconds(pid), 0
    while time.monotonic() < began + seconds:
        puppet.do(("rest", "work")[step % 2])
        step += 1
        time.sleep(min(STEP, seconds / 2))
    return (cpu_seconds(pid) - used) / (time.monotonic() - began)


def _fill_journal(state: Path, rows: int) -> None:
    """Write as many events as a busy week leaves, of sessions that have ended."""
    state.mkdir(parents=True, exist_ok=True)
    now, body = time.time(), {"session": {"status": "stopped"}, "evidence": [], "data": {}}
    with db.transaction(str(state / "state.db")) as connection:
        for number in range(rows):
            seen_at, subject = now - 6 * 86400 + number, f"ended-{number % 5000}"
            journal.append_event(
                connection, Event("session.stopped", seen_at, seen_at, "codex", subject, None, body)
            )


# how soon


class Stream:
    """The lines of `agentctl events --json`, with the time of each read. A context manager."""

    def __init__(self, environ: Mapping[str, str], *words: str) -> None:
        self._child = subprocess.Popen(
            [AGENTCTL, "events", "--json", *words], env=environ, stdout=subprocess.PIPE
        )
        self._events: Queue[tuple[float, dict[str, Any]]] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Stream:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._child.terminate()  # our own child
        self._child.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._child.stdout is not None
        self._child.stdout.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            now = time.time()
            self._events.put((now, json.loads(line)))

    def next(self, matches: Callable[[dict[str, Any]], bool]) -> tuple[float, dict[str, Any]]:
        end = time.monotonic() + PATIENCE
        while (remaining := end - time.monotonic()) > 0:
            try:
                moment, event = self._events.get(timeout=remaining)
            except Empty:
                break
            if matches(event):
                return moment, event
        raise RuntimeError("an event did not come")


def _about(session: str | None, kind: str) -> Callable[[dict[str, Any]], bool]:
    def matches(event: dict[str, Any]) -> bool:
        about = event.get("session") or {}
        return bool(event["type"] == kind and about.get("id") == session)

    return matches


def _measure_changes(troupe: Troupe, times: int) -> list[float]:
    """Change the record of one agent in place, as the agent does."""
    stage, puppet = next((s, p) for s, p in troupe.puppets if s.adapter == "claude-code")
    path = stage.records(puppet)[0]
    record, took = json.loads(path.read_text(encoding="utf-8")), []
    with Stream(troupe.environ, "--session", str(puppet.session_id)) as stream:
        _await_stream(stream, puppet)
        for number in range(times):
            word, kind = (("busy", "session.running"), ("idle", "session.idle"))[number % 2]
            moment = time.time()
            stamp = int(moment * 1000)
            record |= {"status": word, "updatedAt": stamp, "statusUpdatedAt": stamp}
            path.write_text(json.dumps(record), encoding="utf-8")
            seen_at, _ = stream.next(_about(puppet.session_id, kind))
            took.append(seen_at - moment)
            time.sleep(0.5 + number * 0.0137 % 0.25)  # past the second look, at any moment of a beat
    return took


def _await_stream(stream: Stream, puppet: Any) -> None:
    """Return when the stream has the events of this puppet."""
    puppet.do("rest")
    time.sleep(2.0)
    puppet.do("work")
    stream.next(lambda event: event["type"] == "session.running")
    puppet.do("rest")
    stream.next(lambda event: event["type"] == "session.idle")
    time.sleep(1.0)


def _measure_deaths(troupe: Troupe, scale: Scale) -> list[float]:
    took: list[float] = []
    with Stream(troupe.environ) as stream:
        _await_stream(stream, troupe.puppets[0][1])
        while len(took) < scale.times:
            stage, puppet = troupe.puppets.pop()
            with pidfd.Handle(puppet.identity) as handle:
                moment = time.time()
                handle.signal(signal.SIGKILL)
                seen_at, _ = stream.next(_about(puppet.session_id, "session.stopped"))
            took.append(seen_at - moment)
            puppet.reap()
            stage.puppets.remove(puppet)
            if len(troupe.puppets) < scale.live - 3:  # start the next while none is killed
                troupe.grow_to(scale.live)
                time.sleep(scale.settle)
            else:
                time.sleep(0.4 + len(took) * 0.0137 % 0.25)
    return took


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def format_watched(watched: Watched) -> str:
    ms = {name: [1000 * t for t in getattr(watched, name)] for name in ("deaths", "changes")}
    spread = "; ".join(
        f"{name} median {statistics.median(t):.1f} p95 {percentile(t, 0.95):.1f} ms (n={len(t)})"
        for name, t in ms.items()
    )
    return (
        f"quiet {watched.quiet:.3%} working {watched.working:.3%} laden {watched.laden:.3%}; "
        f"own {watched.memory:.1f} MB, laden {watched.laden_memory:.1f} MB; "
        f"start {watched.start:.2f} s, laden {watched.laden_start:.2f} s; {spread}; load {watched.load}"
    )


if __name__ == "__main__":
    measured = measure(Path(sys.argv[1]), Scale(*json.loads(sys.argv[2])))
    print(format_watched(measured), file=sys.stderr)
    print(json.dumps(measured))
