"""Holds what was told to the driver's book, to the last entry. Each complaint is one line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event
from agentctl.watch.observer import AWAY
from agentctl.watch.story import ANOTHER
from tests.soak.book import Book, Launch, Run
from tests.soak.flapping import Got
from tests.soak.scene import WANTED

SETTLED = 5.0  # seconds of a state, watched, after which it has surely been told
BRIEF = 1.0  # seconds
# OpenCode puts its messages into the order of their times, and we read them so; whose an open turn of
# Codex is, its time alone tells. After the clock was set neither tells what it is doing.
BY_TIME = ("opencode", "codex")
STATES = tuple(f"session.{word}" for word in ("running", "waiting", "idle", "unknown", "stopped"))
Told = list[tuple[float, Event]]  # with the moment at which each was surely there


def journal(told: Told) -> Iterator[str]:
    """No number is left out, none comes twice."""
    numbers = [event.seq for _, event in told]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the numbers of {len(numbers)} events do not follow each other"


def sessions(book: Book, told: Told) -> Iterator[str]:
    by_session: dict[str, Told] = defaultdict(list)
    for moment, event in told:
        if event.type.startswith("session.") or (event.type == "events.gap" and event.subject):
            by_session[event.subject or ""].append((moment, event))
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in book.runs:
        runs[run.session or f"none: {run.process}"].append(run)
    for session, its_runs in runs.items():
        nameless = [
            r
            for r in its_runs
            if any(e.type == "session.stopped" for _, e in by_session.get(r.process or "", []))
        ]
        if _nobody_could_tell(its_runs, by_session.get(session, [])):
            continue
        ends = sum(event.type == "session.stopped" for _, event in by_session.get(session, []))
        # one that ended before it had a name may be told of by its id too, when its launch tells that
        named = its_runs if ends >= len(its_runs) else [run for run in its_runs if run not in nameless]
        yield from _ends(book, session, named, by_session.get(session, []))
        yield from _states(book, its_runs, by_session.get(session, []))
    lost = {launch.cwd for launch in book.launches if launch.id is None}
    for session in by_session.keys() - runs.keys():
        events = [event for _, event in by_session[session]]
        if session.startswith("proc:"):
            yield from _nameless(session, events, told)
        elif not any((e.body.get("session") or {}).get("cwd") in lost for e in events):
            yield f"{session} is told of, and the driver knows no such session: {events[0].type}"


def _nobody_could_tell(runs: list[Run], told: Told) -> bool:
    """Of a Pi nobody can, while another one has begun beside it and has no session yet: that is told
    then (docs/adapters/agents.md)."""
    return runs[0].adapter == "pi" and any(event.type == "session.unknown" for _, event in told)


def _ends(book: Book, session: str, runs: list[Run], told: Told) -> Iterator[str]:
    ends = [event for _, event in told if event.type == "session.stopped"]
    gaps = [event for _, event in told if event.type == "events.gap"]
    merged = [event for event in gaps if event.body["data"]["reason"] == ANOTHER]
    runs = runs if told else [run for run in runs if not brief(run)]
    most, least = (_seen_apart(book, runs, surely=surely) for surely in (False, True))
    runs = most if len(ends) + len(merged) == len(most) else least
    if len(ends) + len(merged) != len(runs):
        what = [event.type for _, event in told]
        yield f"{session}: {len(runs)} runs, {len(ends)} ends told, {len(merged)} gaps: {what} {runs}"
    elif not merged:
        for run, event in zip(runs, ends, strict=True):
            yield from _right_end(book, run, event)


def brief(run: Run) -> bool:
    """Not launched, and gone before anybody can be relied on to have looked. The summary counts them."""
    return run.launch is None and (run.gone or 0.0) - (run.ready or 0.0) < BRIEF


def _seen_apart(book: Book, runs: list[Run], *, surely: bool) -> list[Run]:
    """Those between whose ends somebody could look. Else they are one, and a gap tells why."""
    return [
        run
        for run, following in zip(runs, [*runs, None][1:], strict=True)
        if following is None or book.could_look(run.gone or 0.0, following.gone or 0.0, surely=surely)
    ]


def _right_end(book: Book, run: Run, event: Event) -> Iterator[str]:
    row, process = event.body["session"], event.body["data"].get("process")
    if process is not None and run.process is not None and process != run.process:
        yield f"event {event.seq}: {process} has ended, and not {run}"
    known = (run.code,) if run.launch else (run.code, None)
    troubled = run.ending is not None and run.gone is not None
    full = troubled and book.disk_was_full(run.ending or 0, run.gone or 0, margin=5)
    if run.code is not None and row["exit_code"] not in known and not (full and run.launch):
        yield f"event {event.seq}: exit code {row['exit_code']}, and it was {run}"
    if row["outcome"] not in run.outcomes and not full:
        yield f"event {event.seq}: outcome {row['outcome']}, exit code {row['exit_code']}: {run}"


def _states(book: Book, runs: list[Run], told: Told) -> Iterator[str]:
    """What was last said when a state was over, if it was watched for long enough."""
    for held in (held for run in runs for held in run.held):
        if held.until - held.since < SETTLED or not book.watched(held.until - SETTLED, held.until):
            continue
        if runs[0].adapter in BY_TIME and book.stepped(runs[0].began, held.until):
            continue
        said = [event for at, event in told if at <= held.until and event.type in STATES]
        if not said or said[-1].type != f"session.{held.status}":
            was = said[-1].type if said else "nothing"
            yield f"{runs[0].session} was {held.status} for {held.until - held.since:.1f} s: told {was}"


def _nameless(address: str, events: list[Event], told: Told) -> Iterator[str]:
    """It became a session, or it ended."""
    named = any(e.body.get("data", {}).get("was") == address for _, e in told)
    ends = sum(event.type == "session.stopped" for event in events)
    if ends + named != 1:
        yield f"{address}, which had no session, ended {ends} times and was named {named}"


def watching(book: Book, told: Told) -> Iterator[str]:
    """One word for each daemon, and a gap for each time that there was none."""
    began = [index for index, (_, event) in enumerate(told) if event.type == "daemon.started"]
    pids = [told[index][1].body["data"]["pid"] for index in began]
    sure = [w for w in book.watches if not book.disk_was_full(w.began, w.killed or w.began, margin=1)]
    if missing := {w.pid for w in sure} - set(pids):
        yield f"daemons that nobody told of: {missing}"
    if len(pids) != len(set(pids)) or set(pids) - {w.pid for w in book.watches}:
        yield f"daemons told of: {pids}, and there were {[w.pid for w in book.watches]}"
    for index, following in zip(began, [*began[1:], len(told)], strict=True):
        gaps = [e for _, e in told[index:following] if e.body.get("data", {}).get("reason") == AWAY]
        pid = told[index][1].body["data"]["pid"]
        if len(gaps) != (index != began[0]) and pid in {w.pid for w in sure}:
            yield f"daemon {pid} told of {len(gaps)} gaps before it"


def launches(book: Book, told: Told, hooks: list[str]) -> Iterator[str]:
    by_id: dict[str, list[Event]] = defaultdict(list)
    by_place: dict[str, list[Event]] = defaultdict(list)
    for _, event in told:
        if event.type.startswith(("launch.", "hook.")):
            by_id[event.body["data"]["launch"]].append(event)
            by_place[event.body["data"]["cwd"]].append(event)
    ran: Counter[tuple[str, ...]] = Counter(tuple(line.split()) for line in hooks)
    for launch in book.launches:
        if launch.id is not None:
            yield from _one_launch(launch, by_id.pop(launch.id, []), ran)
        elif launch.expected == "refused" or launch.exit == 0:
            right = launch.exit == 4 or book.disk_was_full(launch.called, launch.returned, margin=1)
            if not right or by_place.get(launch.cwd):
                yield f"a launch in {launch.cwd} was to be refused: {launch}"
        else:
            yield from _no_launch(book, launch, by_place.get(launch.cwd, []))
    in_vain = {launch.cwd for launch in book.launches if launch.id is None}
    for name, events in by_id.items():
        if events[0].body["data"]["cwd"] not in in_vain:
            yield f"launch {name} is told of, and the driver knows no such launch"


def _one_launch(launch: Launch, told: list[Event], ran: Counter[tuple[str, ...]]) -> Iterator[str]:
    run = launch.run
    assert run is not None
    assert launch.id is not None
    counted = Counter(event.type for event in told)
    counted.pop("launch.identified", None)  # not of an agent whose session's id we choose
    right = Counter({"launch.started": 1, "launch.ended": 1})
    right += Counter({"hook.succeeded": 2, "launch.expired": int(launch.expires)})
    if +counted != right:
        yield f"launch {launch.id}: {dict(counted)} is told, not {dict(right)}: {run}"
    codes = [e.body["data"]["exit_code"] for e in told if e.type == "launch.ended"]
    if run.code is not None and codes != [run.code]:
        yield f"launch {launch.id}: exit code {codes} is told: {run}"
    said = str(run.code if run.code is not None else codes[0] if codes else None)
    for line in (
        ("create", launch.id, run.session or ""),
        ("complete", launch.id, run.session or "", said),
    ):
        if ran[line] != 1:
            its = [key for key in ran if launch.id in key]
            yield f"hook {' '.join(line)} ran {ran[line]} times: {its}"


def _no_launch(book: Book, launch: Launch, told: list[Event]) -> Iterator[str]:
    counted = Counter(event.type for event in told)
    full = book.disk_was_full(launch.called, launch.returned, margin=1)
    if launch.expected == "failed" and counted["launch.failed"] != 1 and not full:
        yield f"a launch in {launch.cwd} was to fail: {dict(counted)}, {launch}"
    if not full and launch.exit == 0:
        yield f"a launch in {launch.cwd} was to fail, and has not: {launch}"
    open_ = counted["launch.started"] - counted["launch.ended"] - counted["launch.failed"]
    if open_:
        yield f"a launch in {launch.cwd} failed, and its end is not told: {dict(counted)}, {launch}"


def fuses(book: Book, told: Told, burned: list[str]) -> Iterator[str]:
    events: dict[str, list[Event]] = defaultdict(list)
    for _, event in told:
        if event.type.startswith("fuse."):
            events[event.body["data"]["fuse"]].append(event)
    lines = Counter(line.strip() for line in burned)
    for name, its in events.items():
        counted = Counter(event.type for event in its)
        ends = sum(counted[f"fuse.{word}"] for word in ("fired", "failed", "cancelled"))
        if counted["fuse.set"] != ends:  # it burns on where the launch that put it out has failed
            yield f"fuse {name}: {dict(counted)}"
    for fuse in book.fuses:
        want = "fuse.cancelled" if fuse.settled else "fuse.fired"
        counted = Counter(event.type for event in events.pop(fuse.id, []))
        if counted[want] != 1:
            yield f"{fuse}: {dict(counted)} is told, not {want}"
        if lines[fuse.id] != (0 if fuse.settled else 1):
            yield f"{fuse}: its command ran {lines[fuse.id]} times"
    emitted = sum(event.type == "user.soak" for _, event in told)
    if emitted != (right := sum(f.does == "emit" for f in book.fuses)):
        yield f"{emitted} events were emitted by fuses, not {right}"
    failed = [e.body["data"] for its in events.values() for e in its if e.type == "fuse.failed"]
    yield from (f"a timeout failed: {data}" for data in failed)


def locks(book: Book, told: Told) -> Iterator[str]:
    taken: Counter[str] = Counter()
    freed: dict[str, list[str]] = defaultdict(list)
    for _, event in told:
        if event.type == "lock.acquired":
            taken[event.subject or ""] += 1
        elif event.type.startswith("lock."):
            freed[event.subject or ""].append(event.type)
    for place, count in taken.items():
        if len(freed[place]) != count:
            yield f"{place} was locked {count} times and freed {freed[place]}"
    for lock in book.locks:
        if freed[lock.directory] != [f"lock.{lock.how}"]:
            yield f"{lock}: {freed[lock.directory]} is told"


def deliveries(told: Told, sent: list[Delivery], got: list[Got]) -> Iterator[str]:
    """`sent`: all that is in the outbox; `got`: all that arrived."""
    synced = min((one.seq for one in sent), default=0)
    wanted = {event.seq for _, event in told if _wanted(event) and (event.seq or 0) >= synced}
    events = Counter(one.seq for one in sent)
    if missing := wanted - events.keys():
        yield f"events without a delivery: {sorted(filter(None, missing))[:20]}"
    if twice := [seq for seq, count in events.items() if count != 1]:
        yield f"events with several deliveries: {twice[:20]}"
    taken = {each.delivery for each in got if each.taken}
    if len({each[:3] + each[4:] for each in got}) != len({each.delivery for each in got}):
        yield "a delivery came with two bodies"
    parting = max((e.seq or 0 for _, e in told if e.type == "daemon.stopped"), default=0)
    for one in sent:  # that the last daemon has ended is for the next one to deliver
        if (one.state != "delivered" or one.id not in taken) and one.seq != parting:
            yield f"{one}, and was it taken: {one.id in taken}"
    if strange := {each.delivery for each in got} - {one.id for one in sent}:
        yield f"deliveries of nothing: {strange}"


def _wanted(event: Event) -> bool:
    return any(fnmatchcase(event.type, pattern) for pattern in WANTED)


def list_of_all(book: Book, rows: list[dict[str, Any]]) -> Iterator[str]:
    seen = {row["id"]: row for row in rows}
    if len(seen) != len(rows):
        yield f"{len(rows)} rows for {len(seen)} sessions"
    last = {run.session: run for run in book.runs if run.session}
    lost = {launch.cwd for launch in book.launches if launch.id is None}
    for session, run in last.items():
        row = seen.pop(session, None)
        if row is None or row["status"] != "stopped":
            yield f"list shows {row and row['status']}: {run}"
        elif row["outcome"] not in run.outcomes or (
            run.code is not None and row["exit_code"] not in (run.code, None)
        ):
            yield f"list shows {row['outcome']}, exit code {row['exit_code']}: {run}"
    for row in seen.values():
        if row["cwd"] not in lost:
            yield f"list shows {row['id']}, which the driver does not know"
