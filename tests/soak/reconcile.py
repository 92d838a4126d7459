"""Compares the events, exits and deliveries with the driver's book. Each complaint is one line."""

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
from tests.soak.flapping import Arrival
from tests.soak.scene import WANTED

SETTLED = 5.0  # seconds of a watched state after which its event is surely written
BRIEF = 1.0  # seconds of a life that agentctl may miss
# OpenCode sorts its messages by their times, and we read them in that order; who owns an open turn of
# Codex follows from its time alone. After the clock was set, the state of neither can be known.
BY_TIME = ("opencode", "codex")
STATES = tuple(f"session.{word}" for word in ("running", "waiting", "idle", "unknown", "stopped"))
Timeline = list[tuple[float, Event]]  # each event with the moment at which it was surely there


def check_journal(timeline: Timeline) -> Iterator[str]:
    """No number is missing, none comes twice."""
    numbers = [event.seq for _, event in timeline]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the numbers of {len(numbers)} events do not follow each other"


def check_sessions(book: Book, timeline: Timeline) -> Iterator[str]:
    by_session: dict[str, Timeline] = defaultdict(list)
    for moment, event in timeline:
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
        if _is_ambiguous(its_runs, by_session.get(session, [])):
            continue
        ends = sum(event.type == "session.stopped" for _, event in by_session.get(session, []))
        # a run that ended before it had a session id may be reported by that id, if its launch gives one
        identified = (
            its_runs if ends >= len(its_runs) else [run for run in its_runs if run not in nameless]
        )
        yield from _check_ends(book, session, identified, by_session.get(session, []))
        yield from _check_states(book, its_runs, by_session.get(session, []))
    lost = {launch.cwd for launch in book.launches if launch.id is None}
    for session in by_session.keys() - runs.keys():
        events = [event for _, event in by_session[session]]
        if session.startswith("proc:"):
            yield from _check_nameless(session, events, timeline)
        elif not any((e.body.get("session") or {}).get("cwd") in lost for e in events):
            yield f"{session}: {events[0].type}, and the driver knows no such session"


def _is_ambiguous(runs: list[Run], timeline: Timeline) -> bool:
    """A Pi is ambiguous while another one has begun beside it and has no session yet: both are then
    unknown (docs/adapters/agents.md)."""
    return runs[0].adapter == "pi" and any(event.type == "session.unknown" for _, event in timeline)


def _check_ends(book: Book, session: str, runs: list[Run], timeline: Timeline) -> Iterator[str]:
    ends = [event for _, event in timeline if event.type == "session.stopped"]
    gaps = [event for _, event in timeline if event.type == "events.gap"]
    merged = [event for event in gaps if event.body["data"]["reason"] == ANOTHER]
    runs = runs if timeline else [run for run in runs if not is_brief(run)]
    most, least = (_separable_runs(book, runs, surely=surely) for surely in (False, True))
    runs = most if len(ends) + len(merged) == len(most) else least
    if len(ends) + len(merged) != len(runs):
        types = [event.type for _, event in timeline]
        yield f"{session}: {len(runs)} runs, {len(ends)} ends, {len(merged)} gaps: {types} {runs}"
    elif not merged:
        for run, event in zip(runs, ends, strict=True):
            yield from _check_end(book, run, event)


def is_brief(run: Run) -> bool:
    """Not launched, and ended so soon that a daemon may miss it. The summary counts these."""
    return run.launch is None and (run.gone_by or 0.0) - (run.ready or 0.0) < BRIEF


def _separable_runs(book: Book, runs: list[Run], *, surely: bool) -> list[Run]:
    """Runs between whose ends a daemon could look. Without a look two are one, and a gap says why."""
    return [
        run
        for run, following in zip(runs, [*runs, None][1:], strict=True)
        if following is None
        or book.can_look(run.gone_by or 0.0, following.gone_by or 0.0, surely=surely)
    ]


def _check_end(book: Book, run: Run, event: Event) -> Iterator[str]:
    row, process = event.body["session"], event.body["data"].get("process")
    if process is not None and run.process is not None and process != run.process:
        yield f"event {event.seq}: {process} has ended, and not {run}"
    codes = (run.code,) if run.launch else (run.code, None)
    troubled = run.ending is not None and run.gone_by is not None
    full = troubled and book.disk_was_full(run.ending or 0, run.gone_by or 0, margin=5)
    if run.code is not None and row["exit_code"] not in codes and not (full and run.launch):
        yield f"event {event.seq}: exit code {row['exit_code']}, and it was {run}"
    if row["outcome"] not in run.outcomes and not full:
        yield f"event {event.seq}: outcome {row['outcome']}, exit code {row['exit_code']}: {run}"


def _check_states(book: Book, runs: list[Run], timeline: Timeline) -> Iterator[str]:
    """The last event before the end of a state names that state, if it was watched for long enough."""
    for state in (state for run in runs for state in run.states):
        if state.until - state.since < SETTLED or not book.was_watched(
            state.until - SETTLED, state.until
        ):
            continue
        if runs[0].adapter in BY_TIME and book.was_clock_set(runs[0].began, state.until):
            continue
        before = [event for at, event in timeline if at <= state.until and event.type in STATES]
        if not before or before[-1].type != f"session.{state.status}":
            last = before[-1].type if before else "nothing"
            seconds = state.until - state.since
            yield f"{runs[0].session} was {state.status} for {seconds:.1f} s: the last event was {last}"


def _check_nameless(address: str, events: list[Event], timeline: Timeline) -> Iterator[str]:
    """It became a session, or it ended."""
    identified = any(e.body.get("data", {}).get("was") == address for _, e in timeline)
    ends = sum(event.type == "session.stopped" for event in events)
    if ends + identified != 1:
        yield f"{address}, which had no session, ended {ends} times and was identified: {identified}"


def check_daemons(book: Book, timeline: Timeline) -> Iterator[str]:
    """One event for each daemon, and a gap for each time without one."""
    began = [index for index, (_, event) in enumerate(timeline) if event.type == "daemon.started"]
    pids = [timeline[index][1].body["data"]["pid"] for index in began]
    sure = [w for w in book.watches if not book.disk_was_full(w.began, w.killed or w.began, margin=1)]
    if missing := {w.pid for w in sure} - set(pids):
        yield f"daemons without an event: {missing}"
    if len(pids) != len(set(pids)) or set(pids) - {w.pid for w in book.watches}:
        yield f"events of daemons {pids}, and there were {[w.pid for w in book.watches]}"
    for index, following in zip(began, [*began[1:], len(timeline)], strict=True):
        gaps = [e for _, e in timeline[index:following] if e.body.get("data", {}).get("reason") == AWAY]
        pid = timeline[index][1].body["data"]["pid"]
        if len(gaps) != (index != began[0]) and pid in {w.pid for w in sure}:
            yield f"daemon {pid} reported {len(gaps)} gaps before it"


def check_launches(book: Book, timeline: Timeline, hooks: list[str]) -> Iterator[str]:
    by_id: dict[str, list[Event]] = defaultdict(list)
    by_place: dict[str, list[Event]] = defaultdict(list)
    for _, event in timeline:
        if event.type.startswith(("launch.", "hook.")):
            by_id[event.body["data"]["launch"]].append(event)
            by_place[event.body["data"]["cwd"]].append(event)
    ran: Counter[tuple[str, ...]] = Counter(tuple(line.split()) for line in hooks)
    for launch in book.launches:
        if launch.id is not None:
            yield from _check_launch(launch, by_id.pop(launch.id, []), ran)
        elif launch.expected == "refused" or launch.exit == 0:
            right = launch.exit == 4 or book.disk_was_full(launch.called, launch.returned, margin=1)
            if not right or by_place.get(launch.cwd):
                yield f"a launch in {launch.cwd} should be refused: {launch}"
        else:
            yield from _check_failed_launch(book, launch, by_place.get(launch.cwd, []))
    failed = {launch.cwd for launch in book.launches if launch.id is None}
    for name, events in by_id.items():
        if events[0].body["data"]["cwd"] not in failed:
            yield f"launch {name}: events, and the driver knows no such launch"


def _check_launch(launch: Launch, events: list[Event], ran: Counter[tuple[str, ...]]) -> Iterator[str]:
    run = launch.run
    assert run is not None
    assert launch.id is not None
    counted = Counter(event.type for event in events)
    counted.pop("launch.identified", None)  # no such event if we chose the session's id
    right = Counter({"launch.started": 1, "launch.ended": 1})
    right += Counter({"hook.succeeded": 2, "launch.expired": int(launch.expires)})
    if +counted != right:
        yield f"launch {launch.id}: events {dict(counted)}, not {dict(right)}: {run}"
    codes = [e.body["data"]["exit_code"] for e in events if e.type == "launch.ended"]
    if run.code is not None and codes != [run.code]:
        yield f"launch {launch.id}: exit code {codes} reported: {run}"
    code = str(run.code if run.code is not None else codes[0] if codes else None)
    for line in (
        ("create", launch.id, run.session or ""),
        ("complete", launch.id, run.session or "", code),
    ):
        if ran[line] != 1:
            its = [key for key in ran if launch.id in key]
            yield f"hook {' '.join(line)} ran {ran[line]} times: {its}"


def _check_failed_launch(book: Book, launch: Launch, events: list[Event]) -> Iterator[str]:
    counted = Counter(event.type for event in events)
    full = book.disk_was_full(launch.called, launch.returned, margin=1)
    if launch.expected == "failed" and counted["launch.failed"] != 1 and not full:
        yield f"a launch in {launch.cwd} should fail: {dict(counted)}, {launch}"
    if not full and launch.exit == 0:
        yield f"a launch in {launch.cwd} should fail, and did not: {launch}"
    open_ = counted["launch.started"] - counted["launch.ended"] - counted["launch.failed"]
    if open_:
        yield f"a launch in {launch.cwd} failed, and has no end: {dict(counted)}, {launch}"


def check_fuses(book: Book, timeline: Timeline, fired: list[str]) -> Iterator[str]:
    events: dict[str, list[Event]] = defaultdict(list)
    for _, event in timeline:
        if event.type.startswith("fuse."):
            events[event.body["data"]["fuse"]].append(event)
    lines = Counter(line.strip() for line in fired)
    for name, its in events.items():
        counted = Counter(event.type for event in its)
        ends = sum(counted[f"fuse.{word}"] for word in ("fired", "failed", "cancelled"))
        if counted["fuse.set"] != ends:  # a fuse is set again if the launch that cancelled it failed
            yield f"fuse {name}: {dict(counted)}"
    for fuse in book.fuses:
        want = "fuse.cancelled" if fuse.settled else "fuse.fired"
        counted = Counter(event.type for event in events.pop(fuse.id, []))
        if counted[want] != 1:
            yield f"{fuse}: events {dict(counted)}, not {want}"
        if lines[fuse.id] != (0 if fuse.settled else 1):
            yield f"{fuse}: its command ran {lines[fuse.id]} times"
    emitted = sum(event.type == "user.soak" for _, event in timeline)
    if emitted != (right := sum(f.does == "emit" for f in book.fuses)):
        yield f"{emitted} events were emitted by fuses, not {right}"
    failed = [e.body["data"] for its in events.values() for e in its if e.type == "fuse.failed"]
    yield from (f"a timeout failed: {data}" for data in failed)


def check_locks(book: Book, timeline: Timeline) -> Iterator[str]:
    acquired: Counter[str] = Counter()
    freed: dict[str, list[str]] = defaultdict(list)
    for _, event in timeline:
        if event.type == "lock.acquired":
            acquired[event.subject or ""] += 1
        elif event.type.startswith("lock."):
            freed[event.subject or ""].append(event.type)
    for place, count in acquired.items():
        if len(freed[place]) != count:
            yield f"{place} was locked {count} times and freed {freed[place]}"
    for lock in book.locks:
        if freed[lock.directory] != [f"lock.{lock.how}"]:
            yield f"{lock}: {freed[lock.directory]} reported"


def check_deliveries(
    timeline: Timeline, outbox: list[Delivery], arrivals: list[Arrival]
) -> Iterator[str]:
    """`outbox`: all deliveries of our outbox; `arrivals`: all that reached the target."""
    synced = min((one.seq for one in outbox), default=0)
    due = {event.seq for _, event in timeline if _is_due(event) and (event.seq or 0) >= synced}
    events = Counter(one.seq for one in outbox)
    if missing := due - events.keys():
        yield f"events without a delivery: {sorted(filter(None, missing))[:20]}"
    if twice := [seq for seq, count in events.items() if count != 1]:
        yield f"events with several deliveries: {twice[:20]}"
    accepted = {each.delivery for each in arrivals if each.accepted}
    if len({each[:3] + each[4:] for each in arrivals}) != len({each.delivery for each in arrivals}):
        yield "a delivery came with two bodies"
    parting = max((e.seq or 0 for _, e in timeline if e.type == "daemon.stopped"), default=0)
    for one in outbox:  # the end of the last daemon is for the next daemon to deliver
        if (one.state != "delivered" or one.id not in accepted) and one.seq != parting:
            yield f"{one}, and was it accepted: {one.id in accepted}"
    if strange := {each.delivery for each in arrivals} - {one.id for one in outbox}:
        yield f"deliveries of nothing: {strange}"


def _is_due(event: Event) -> bool:
    return any(fnmatchcase(event.type, pattern) for pattern in WANTED)


def check_list(book: Book, rows: list[dict[str, Any]]) -> Iterator[str]:
    by_id = {row["id"]: row for row in rows}
    if len(by_id) != len(rows):
        yield f"{len(rows)} rows for {len(by_id)} sessions"
    last = {run.session: run for run in book.runs if run.session}
    lost = {launch.cwd for launch in book.launches if launch.id is None}
    for session, run in last.items():
        row = by_id.pop(session, None)
        if row is None or row["status"] != "stopped":
            yield f"list shows {row and row['status']}: {run}"
        elif row["outcome"] not in run.outcomes or (
            run.code is not None and row["exit_code"] not in (run.code, None)
        ):
            yield f"list shows {row['outcome']}, exit code {row['exit_code']}: {run}"
    for row in by_id.values():
        if row["cwd"] not in lost:
            yield f"list shows {row['id']}, which the driver does not know"
