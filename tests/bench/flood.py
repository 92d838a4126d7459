"""More changes than anybody can look at: each must be told, or lie within a gap that is told.

    python -m tests.bench.flood ROOT AGENTS RATE SECONDS      one line of JSON: see `Reconciled`

The agents are fakes that change the status in their own records, each in its own process, and write down
when. RATE is of each.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from agentctl.system.clock import parse
from agentctl.testing import Puppet
from tests.bench.watching import Stream, cpu_seconds, daemon
from tests.fakes.claude import ClaudeStage

SAID = {"busy": "session.running", "idle": "session.idle", "waiting": "session.waiting"}
MS = 1.5  # milliseconds, to either side: times are told in whole ones


class Reconciled(NamedTuple):
    changes: int
    told: int  # each with its moment
    gaps: int  # told
    within: int  # changes that lie within one
    missed: list[str]  # neither
    invented: list[str]  # told, and never happened
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
            return _flooded(stage, puppets, pid, rate, seconds)
    finally:
        stage.close()


def _flooded(
    stage: ClaudeStage, puppets: list[Puppet], pid: int, rate: float, seconds: float
) -> Reconciled:
    with Stream(stage.environ, "--since", "0") as stream:
        for puppet in puppets:
            stream.next(_is("session.idle", puppet.session_id))
        time.sleep(1.0)  # of quiet: what came of the start is over
        began, used = time.monotonic(), cpu_seconds(pid)
        together = [
            threading.Thread(target=p.do, args=(f"flicker {rate:g} {seconds:g}",)) for p in puppets
        ]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join()
        took = time.monotonic() - began
        cpu = (cpu_seconds(pid) - used) / took
        books = {str(p.session_id): _book(stage, p) for p in puppets}
        last = {session: (SAID[book[-1][0]], book[-1][1]) for session, book in books.items()}
        heard: list[dict[str, Any]] = []
        while last:
            _, event = stream.next(lambda _: True)
            heard.append(event)
            if last.get(event["subject"]) == (event["type"], _ms(event["at"])):
                del last[event["subject"]]
    found = reconcile(books, heard)
    return found._replace(rate=found.changes / took, cpu=cpu)


def reconcile(books: dict[str, list[tuple[str, int]]], heard: Iterable[dict[str, Any]]) -> Reconciled:
    told = {(e["subject"], e["type"], _ms(e["at"])) for e in heard if e["type"] in SAID.values()}
    gaps = [
        (e["subject"], _ms(e["data"]["from"]), _ms(e["data"]["to"]))
        for e in heard
        if e["type"] == "events.gap"
    ]
    happened = {(s, SAID[word], at) for s, book in books.items() for word, at in book}
    untold = happened - told
    within = {
        (session, kind, at)
        for session, kind, at in untold
        if any(who in (session, None) and a - MS <= at <= b + MS for who, a, b in gaps)
    }
    return Reconciled(
        len(happened),
        len(happened & told),
        len(gaps),
        len(within),
        [str(change) for change in sorted(untold - within)],
        [str(change) for change in sorted(told - happened)],
        max(((b - a) / 1000 for _, a, b in gaps), default=0.0),
        0.0,
        0.0,
    )


def _book(stage: ClaudeStage, puppet: Puppet) -> list[tuple[str, int]]:
    path = stage.home / f"book-{puppet.session_id}.json"
    return [(word, at) for word, at in json.loads(path.read_text(encoding="utf-8"))]


def _ms(moment: str | None) -> int:
    return round((parse(moment) or 0.0) * 1000)


def _is(kind: str, session: str | None) -> Any:
    return lambda event: event["type"] == kind and event["subject"] == session


if __name__ == "__main__":
    given = (int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
    print(json.dumps(measure(Path(sys.argv[1]), *given)))
