"""OpenAI Codex CLI.

Binding: `thread-writer-locks/<thread>.lock` held open (its existence proves nothing: a kill leaves it
behind); before 0.147 there is no lock and the rollout open to be written counts; then `resume <uuid>` in
argv.
Status: the rollout's last turn event, if it is not older than the lock: whoever is killed leaves his
turn open for ever, and the lock is made anew each time it is taken. (How far the owner has written does
not tell: it opens the rollout at its end.)

The plain TUI runs nothing: it is a client of a daemon, which owns the locks, files and tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentctl.adapters.base import Place, Starting, Wanted
from agentctl.adapters.codex import rollout
from agentctl.adapters.codex.argv import invocation_of, is_codex
from agentctl.adapters.codex.lines import message
from agentctl.adapters.codex.open_files import LOCKS, Grip, grip_of, read_grip
from agentctl.adapters.codex.places import Titles, days, find, home_of, of_days, packed, rollouts
from agentctl.adapters.codex.rollout import Rollout
from agentctl.adapters.registry import COMMS
from agentctl.adapters.roots import CODEX_LOCKS, codex_root
from agentctl.errors import SourceError
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.truth.bind import Bound, Tie, bind
from agentctl.truth.look import Look
from agentctl.truth.model import EntryPoint, Evidence, Facts, Message, Observation
from agentctl.truth.observe import TORN, ended, living, settled, transcript, unless_prompted

A_CLOCK = 60.0  # seconds ahead of us: set back since
SLACK = 0.002  # seconds: a record's time is cut to the millisecond, a file's is not
OWNERS: dict[str, EntryPoint] = {"exec": "headless", "tui": "interactive", "app-server": "daemon"}


class Codex(Starting):
    start = "agentctl.adapters.codex.start"
    name = "codex"
    comms = COMMS["codex"]
    binary = "codex"
    permission_modes = ("read-only", "workspace-write", "danger-full-access", "approve-for-me")

    def owns(self, process: Process) -> bool:
        if not is_codex(process):
            return False
        return invocation_of(process).words[:3] != ("app-server", "daemon", "pid-update-loop")

    def recognised(self, look: Look) -> Iterable[Process]:
        """Whoever has locked a thread runs it, under whatever name."""
        for root in look.roots(codex_root):
            for name in look.names(f"{root}/{CODEX_LOCKS}"):
                if rollout.is_id(name.removesuffix(".lock")):
                    yield from look.lock_holders(f"{root}/{CODEX_LOCKS}/{name}")

    def live(self, look: Look) -> Iterable[Observation]:
        grips = [grip for process in look.owned if (grip := grip_of(process, look)) is not None]
        _set_aside(grips, look)
        active = [grip for grip in grips if grip.process.pid not in look.aside]
        bounds = bind(_ties(active, look))
        titles, by_pid = Titles(look), {grip.process.pid: grip for grip in active}
        for bound in bounds.values():
            yield _living(bound, by_pid[bound.candidates[0].pid], titles, look)

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        titles, seen = Titles(look), set[str]()

        def may(process: Process, facts: Facts) -> bool:
            return _may_run(process, facts, look)

        for root in look.roots(codex_root):
            for session_id, path in rollouts(root, wanted.id_prefix, look):
                if session_id in seen:  # archived and not, or packed and not
                    continue
                seen.add(session_id)
                if path.endswith(".zst"):
                    yield from packed(session_id, path, wanted, look)
                    continue
                for ending in ended(look, session_id, path, rollout.read, wanted, may=may):
                    yield _named(ending, titles.of(root, session_id))

    def messages(self, seen: Observation, look: Look) -> Iterator[Message]:
        if seen.transcript is not None and seen.transcript.endswith(".zst"):
            look.problem("unsupported", "a compressed rollout (.jsonl.zst)", seen.transcript)
            return
        for offset, record in transcript(seen, look):
            if (found := message(offset, record)) is not None:
                yield found

    def signs(self, seen: Observation, look: Look) -> Iterable[str]:
        """Its lock comes when it begins a thread, its rollout with the first prompt."""
        if seen.owner is not None:
            root = home_of(seen.owner, look)
            yield f"{root}{LOCKS}*"
            created = rollout.created_at(seen.session_id) if seen.session_id else None
            for day in days(root, look.now if created is None else created):
                yield f"{day}/*"

    def places(self, look: Look) -> Iterable[Place]:
        held = {lock for p in look.owned if (grip := grip_of(p, look)) for lock in grip.locks}
        for root in look.roots(codex_root):
            yield Place("rollouts", f"{root}/sessions")
            yield Place("archive", f"{root}/archived_sessions")
            yield Place("writer locks", f"{root}{LOCKS}")
            for name in look.names(f"{root}{LOCKS}"):
                session_id = name.removesuffix(".lock")
                if rollout.is_id(session_id) and session_id not in held:
                    look.problem("stale", "no process holds it", f"{root}{LOCKS}{name}")


def _may_run(process: Process, facts: Facts, look: Look) -> bool:
    """Whoever runs a thread has its lock or its rollout open: one whose descriptors we have seen to
    hold neither is no suspect. But an exec gives its thread back some 30 ms before it ends, and what
    is being killed has nothing open; one we could not look into is a suspect, too."""
    try:
        grip = read_grip(process, look)
        if grip.nothing or not grip.empty:
            return True
        return grip.call.role == "exec" and _its_own(facts, grip, look) and not _awaits_input(process)
    except SourceError:
        return True


def _awaits_input(process: Process) -> bool:
    """An exec that has not begun: one of its threads reads a pipe, its standard input. At its end none
    does."""
    return any("pipe" in place for place in process.sleeps_in())


def _its_own(facts: Facts, grip: Grip, look: Look) -> bool:
    """Whether an exec may have begun this thread: after its own start, in its directory."""
    since = (facts.started_at or 0.0) >= look.started_at(grip.process)
    where = grip.call.directory(grip.process.cwd)
    return facts.entry_point == "headless" and facts.cwd == where and since


def _set_aside(grips: list[Grip], look: Look) -> None:
    """Those that run no thread by design."""
    daemons = {home_of(grip.process, look): grip for grip in grips if grip.call.serves}
    for grip in grips:
        if grip.empty and (why := _idle_by_design(grip, daemons, look)):
            look.set_aside(grip.process, why)


def _idle_by_design(grip: Grip, daemons: dict[str, Grip], look: Look) -> str:
    call = grip.call
    if call.role == "app-server":
        return "an app server with no thread loaded"
    if call.role == "tool":
        return f"codex {call.words[0] if call.words else '--version'} runs no thread"
    if call.remote:
        return "client of a remote app server"
    if call.role == "tui" and not call.embedded:
        daemon = daemons.get(home_of(grip.process, look))
        if daemon is None or (daemon.empty and call.resumes is not None):
            return ""  # until a daemon has the thread, nobody but this one has to do with it
        return f"client of the daemon pid {daemon.process.pid}"
    return ""


def _ties(grips: list[Grip], look: Look) -> Iterator[Tie]:
    locked = {session_id for grip in grips for session_id in grip.locks}
    noted = {tie.process.pid: tie for tie in look.noted()}
    for grip in grips:
        process = grip.process
        for session_id, lock in grip.locks.items():
            yield Tie(session_id, process, "held open", lock.removesuffix(" (deleted)"), shared=True)
        if grip.locks:  # one that takes locks runs nothing else
            continue
        for session_id, path in grip.rollouts.items():
            if session_id not in locked:
                yield Tie(session_id, process, "held open", path, shared=True)
        if grip.empty and grip.call.resumes is not None:
            yield Tie(grip.call.resumes, process, "argument", process.identity.address)
        elif grip.empty and grip.call.role == "exec" and process.pid in noted:
            yield noted[process.pid]  # an exec runs one thread, and has given it back
        elif grip.spent:
            yield from _inferred(grip, look)


def _inferred(grip: Grip, look: Look) -> Iterator[Tie]:
    """Threads that a lingering exec may have run: begun after it, in its directory, and finished."""
    process, started = grip.process, look.started_at(grip.process)
    for session_id, path in of_days(home_of(process, look), started, look):
        if (rollout.created_at(session_id) or 0.0) < started:
            continue
        facts = rollout.examined(path, look).facts
        over = facts.turn is not None and facts.turn.claim == "idle"
        if over and not facts.parent_id and _its_own(facts, grip, look):
            yield Tie(session_id, process, "inferred", path)


def _living(bound: Bound, grip: Grip, titles: Titles, look: Look) -> Observation:
    session_id = bound.session_id
    lock = grip.locks.get(session_id)
    root = lock.rpartition(LOCKS)[0] if lock else home_of(grip.process, look)
    path = grip.rollouts.get(session_id) or find(root, session_id, look)
    said = rollout.examined(path, look) if path is not None else Rollout(blank=_visible(lock, look))
    evidence = _activity(bound, grip, said, path, look)
    facts = said.facts._replace(
        title=titles.of(root, session_id), entry_point=OWNERS.get(grip.call.role, said.facts.entry_point)
    )
    if evidence:
        facts = facts._replace(turn=None)  # told by the evidence, which weighs it
    return living(look, bound, path, facts, *evidence)


def _activity(
    bound: Bound, grip: Grip, said: Rollout, path: str | None, look: Look
) -> tuple[Evidence, ...]:
    """What takes the place of the rollout's own word on its last turn; nothing: that word stands."""
    turn = said.facts.turn
    lock = grip.locks.get(bound.session_id)
    taken = _taken_at(lock, grip.process, look)
    if turn is None:
        # An exec has its prompt already and writes it 20 ms after it took the lock.
        if not said.blank or grip.call.role == "exec":
            return ()
        return (Evidence("idle", bound.address, "derived", taken, note="never prompted"),)
    place = f"{path}@{turn.offset}"
    if turn.claim == "idle":
        over = Evidence(turn.claim, place, "journal", turn.at, turn.detail, turn.note)
        own = unless_prompted(over, taken - SLACK if lock else taken + TICK)
        return () if grip.call.role != "exec" or own.trusted else (own,)
    left_open = Evidence(turn.claim, place, "journal", turn.at, turn.detail, turn.note, trusted=False)
    # It holds nothing open, and works on nothing; or the clock was set back since it took its lock; or
    # what it wrote last cannot be read.
    torn = turn.note.endswith(TORN)
    if bound.method != "held open" or taken > look.now + A_CLOCK or torn:
        return (left_open,)
    if turn.at is not None and turn.at + SLACK < taken:
        note = f"the open turn at {place} is older than this: its owner died in it"
        return (Evidence("idle", bound.address, "derived", taken, note=note), left_open)
    if grip.call.role == "exec":  # it never asks: it refuses by itself
        return (left_open._replace(claim="working", detail="", trusted=True),)
    if turn.claim == "waiting":  # not answered yet; outside Plan mode Codex refuses it at once
        asks = Evidence("waiting", place, "derived", turn.at, turn.detail, turn.note)
        return (settled(asks, look.now),)
    if not said.pending:
        return ()
    from agentctl.adapters.codex import approval  # rarely needed, and `list` is to be fast

    return approval.about(said.pending, grip.process, _rules(grip, said, look), left_open, look)


def _rules(grip: Grip, said: Rollout, look: Look) -> tuple[str, ...]:
    """Where commands are written down that a person has allowed for good."""
    cwd = said.facts.cwd
    project = (look.through(grip.process, f"{cwd}/.codex"),) if cwd else ()
    return tuple(f"{root}/rules" for root in (home_of(grip.process, look), *project))


def _taken_at(lock: str | None, process: Process, look: Look) -> float:
    """When its owner took the thread: the lock's own time, else not before the process began."""
    status = look.status(lock) if lock is not None and not lock.endswith(" (deleted)") else None
    return status.st_mtime if status is not None else look.started_at(process)


def _visible(lock: str | None, look: Look) -> bool:
    """Whether we see the files that the process sees: not from outside its container."""
    return lock is not None and look.status(lock) is not None


def _named(seen: Observation, title: str | None) -> Observation:
    return seen._replace(facts=seen.facts._replace(title=title)) if title else seen
