"""More changes than the daemon can look at: each must be reported, or lie within a reported gap.

    python -m tests.bench.flood ROOT AGENTS RATE SECONDS      one line of JSON: see `Reconciled`

The agents are fakes, each in its own process, that change the status in their own records and keep a
book of the times. RATE is of each.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from agentctl.system.clock import parse_time
from agentctl.testing import Puppet
from tests.bench.watching import Stream, cpu_seconds, daemon
from tests.fakes.claude import ClaudeStage

TYPES = {"busy": "session.running", "idle": "session.idle", "waiting": "session.waiting"}
MS = 1.5  # milliseconds, to either side: times are reported in whole ones


class Reconciled(NamedTuple):
    changes: int
    reported: int  # each with its time
    gaps: int  # reported
    within: int  # changes that lie within one
    missed: list[str]  # neither
    invented: list[str]  # reported, and never happened
    longest: float  # seconds: of the gaps
    rate: float  # changes a second that the agents came to
    cpu: float  # share of one core that the daemon took meanwhile


def measure(root: Path, agents: int, rate: float, seconds: float) -> Reconciled:
    stage = ClaudeStage(root)
    try:
        puppets = [stage.start(root / "work" / str(number)) for number in range(agents)]
        for puppet in puppets:
            puppet.do("work")
            puppet.do("rest")
        with daemon(stage.environ) as (pid, _):
            return _flood(stage, puppets, pid, rate, seconds)
    finally:
        stage.close()


def _flood(
    stage: ClaudeStage, puppets: list[Puppet], pid: int, rate: float, seconds: float
) -> Reconciled:
    with Stream(stage.environ, "--since", "0") as stream:
        for puppet in puppets:
            stream.next(_is_event("session.idle", puppet.session_id))
        time.sleep(1.0)  # of quiet, after the events of the start
        began, used = time.monotonic(), cpu_seconds(pid)
        threads = [
            threading.Thread(target=p.do, args=(f"flicker {rate:g} {seconds:g}",)) for p in puppets
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        cpu = (cpu_seconds(pid) - used) / took
        books = {str(p.session_id): _read_book(stage, p) for p in puppets}
        last = {session: (TYPES[book[-1][0]], book[-1][1]) for session, book in books.items()}
        events: list[dict[str, Any]] = []
        while last:
            _, event = stream.next(lambda _: True)
            events.append(event)
            if last.get(event["subject"]) == (event["type"], _milliseconds(event["at"])):
                del last[event["subject"]]
    result = reconcile(books, events)
    return result._replace(rate=result.changes / took, cpu=cpu)


def reconcile(books: dict[str, list[tuple[str, int]]], events: Iterable[dict[str, Any]]) -> Reconciled:
    reported = {
        (e["subject"], e["type"], _milliseconds(e["at"])) for e in events if e["type"] in TYPES.values()
    }
    gaps = [
        (e["subject"], _milliseconds(e["data"]["from"]), _milliseconds(e["data"]["to"]))
        for e in events
        if e["type"] == "events.gap"
    ]
    changes = {(s, TYPES[word], at) for s, book in books.items() for word, at in book}
    unreported = changes - reported
    within = {
        (session, kind, at)
        for session, kind, at in unreported
        if any(who in (session, None) and a - MS <= at <= b + MS for who, a, b in gaps)
    }
    return Reconciled(
        len(changes),
        len(changes & reported),
        len(gaps),
        len(within),
        [str(change) for change in sorted(unreported - within)],
        [str(change) for change in sorted(reported - changes)],
        max(((b - a) / 1000 for _, a, b in gaps), default=0.0),
        0.0,
        0.0,
    )


def _read_book(stage: ClaudeStage, puppet: Puppet) -> list[tuple[str, int]]:
    path = stage.home / f"book-{puppet.session_id}.json"
    return [(word, at) for word, at in json.loads(path.read_text(encoding="utf-8"))]


def _milliseconds(moment: str | None) -> int:
    return round((parse_time(moment) or 0.0) * 1000)


def _is_event(kind: str, session: str | None) -> Any:
    return lambda event: event["type"] == kind and event["subject"] == session


if __name__ == "__main__":
    numbers = (int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
    print(json.dumps(measure(Path(sys.argv[1]), *numbers)))
