"""OpenAI Codex CLI.

Binding: `thread-writer-locks/<thread>.lock` held open (its existence proves nothing: it stays after a
kill). Before 0.147 there is no lock, and the rollout open for writing counts; then `resume <uuid>` in
argv. Status: the rollout's last turn event, if it is not older than the lock: a killed process leaves
its turn open, and each owner creates the lock again. (The owner's position in the rollout shows nothing:
Codex opens it at its end.)

The plain TUI runs no thread: it is a client of a daemon, which has the locks, files and tools.
"""

from __future__ import annotations

from agentctl.adapters.base import HistoryQuery, Place, StartModule
from agentctl.adapters.codex import agent, rollout
from agentctl.adapters.codex.argv import is_codex, read_invocation
from agentctl.adapters.codex.lines import to_message
from agentctl.adapters.codex.open_files import LOCKS, OpenFiles, find_open_files, read_open_files
from agentctl.adapters.codex.places import (
    Titles,
    codex_root,
    find_home,
    find_rollout,
    list_day_folders,
    list_rollouts,
    list_rollouts_near,
    observe_packed,
)
from agentctl.adapters.codex.rollout import Rollout
from agentctl.errors import SourceError
from agentctl.light_typing import Iterable, Iterator
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.truth.bind import Binding, Tie, bind
from agentctl.truth.look import Look
from agentctl.truth.model import EntryPoint, Evidence, Facts, Message, Observation
from agentctl.truth.observe import (
    TORN,
    discount_earlier_turn,
    is_left_open,
    observe_ended,
    observe_live,
    read_transcript,
    settle_wait,
)

CLOCK_STEP = 60.0  # seconds: a time further ahead means that the clock was set back
SLACK = 0.002  # seconds: a record's time is truncated to milliseconds, a file's is not
ENTRY_POINTS: dict[str, EntryPoint] = {"exec": "headless", "tui": "interactive", "app-server": "daemon"}


class Codex(StartModule):
    start = "agentctl.adapters.codex.start"
    name = "codex"
    api = 1
    comms = agent.PROCESSES
    binary = agent.BINARY
    permission_modes = ("read-only", "workspace-write", "danger-full-access", "approve-for-me")

    def owns(self, process: Process) -> bool:
        if not is_codex(process):
            return False
        if "pid-update-loop" not in process.argv:  # nearly all: their arguments are parsed later
            return True
        return read_invocation(process).words[:3] != ("app-server", "daemon", "pid-update-loop")

    def recognize(self, look: Look) -> Iterable[Process]:
        """Yield processes, under any name, that have locked a thread."""
        for root in look.find_roots(codex_root):
            for name in look.list_names(f"{root}{LOCKS}"):
                if rollout.is_id(name.removesuffix(".lock")):
                    yield from look.find_lock_holders(f"{root}{LOCKS}{name}")

    def live(self, look: Look) -> Iterable[Observation]:
        holders = [
            files
            for process in look.own_processes
            if (files := find_open_files(process, look)) is not None
        ]
        _exclude_helpers(holders, look)
        active = [files for files in holders if files.process.pid not in look.exclusions]
        bindings = bind(_find_ties(active, look))
        titles, by_pid = Titles(look), {files.process.pid: files for files in active}
        for binding in bindings.values():
            yield _observe_thread(binding, by_pid[binding.candidates[0].pid], titles, look)

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        titles, seen_ids = Titles(look), set[str]()

        def may(process: Process, facts: Facts) -> bool:
            return _may_run(process, facts, look)

        for root in look.find_roots(codex_root):
            for session_id, path in list_rollouts(root, query.id_prefix, look):
                if session_id in seen_ids:  # a thread may also be archived or compressed
                    continue
                seen_ids.add(session_id)
                if path.endswith(".zst"):
                    yield from observe_packed(session_id, path, query, look)
                    continue
                for observation in observe_ended(
                    look, session_id, path, rollout.read_facts, query, may=may
                ):
                    yield _with_title(observation, titles.find(root, session_id))

    def messages(self, observation: Observation, look: Look) -> Iterator[Message]:
        if observation.transcript is not None and observation.transcript.endswith(".zst"):
            look.report_problem(
                "unsupported", "a compressed rollout (.jsonl.zst)", observation.transcript
            )
            return
        for offset, record in read_transcript(observation, look):
            if (item := to_message(offset, record)) is not None:
                yield item

    def signs(self, observation: Observation, look: Look) -> Iterable[str]:
        """The lock appears when a thread begins, the rollout with the first prompt."""
        if observation.owner is not None:
            root = find_home(observation.owner, look)
            yield f"{root}{LOCKS}*"
            created_at = (
                rollout.read_creation_time(observation.session_id) if observation.session_id else None
            )
            for day in list_day_folders(root, look.now if created_at is None else created_at):
                yield f"{day}/*"

    def places(self, look: Look) -> Iterable[Place]:
        locked_ids = {
            lock
            for p in look.own_processes
            if (files := find_open_files(p, look))
            for lock in files.locks
        }
        for root in look.find_roots(codex_root):
            yield Place("rollouts", f"{root}/sessions")
            yield Place("archive", f"{root}/archived_sessions")
            yield Place("writer locks", f"{root}{LOCKS}")
            for name in look.list_names(f"{root}{LOCKS}"):
                session_id = name.removesuffix(".lock")
                if rollout.is_id(session_id) and session_id not in locked_ids:
                    look.report_problem("stale", "no process holds it", f"{root}{LOCKS}{name}")


def _may_run(process: Process, facts: Facts, look: Look) -> bool:
    """Return False if the process has neither a lock nor a rollout open: it runs no thread. But an exec
    releases its thread some 30 ms before it ends, and a process that is being killed has no files open.
    A process whose files are withheld may run the thread, too."""
    try:
        files = read_open_files(process, look)
        if files.has_none or not files.has_no_thread:
            return True
        return (
            files.call.role == "exec"
            and _may_have_begun(facts, files, look)
            and not _awaits_input(process)
        )
    except SourceError:
        return True


def _awaits_input(process: Process) -> bool:
    """Return True for an exec that has not begun: one of its threads reads a pipe, its standard input.
    At its end none does."""
    return any("pipe" in place for place in process.read_wait_channels())


def _may_have_begun(facts: Facts, files: OpenFiles, look: Look) -> bool:
    """Return True if an exec may have begun this thread: after its own start, in its directory."""
    is_since = (facts.started_at or 0.0) >= look.find_start_time(files.process)
    where = files.call.directory(files.process.cwd)
    return facts.entry_point == "headless" and facts.cwd == where and is_since


def _exclude_helpers(holders: list[OpenFiles], look: Look) -> None:
    """Exclude the processes that run no thread by design."""
    daemons = {find_home(files.process, look): files for files in holders if files.call.is_daemon}
    for files in holders:
        if files.has_no_thread and (reason := _find_exclusion(files, daemons, look)):
            look.exclude_process(files.process, reason)


def _find_exclusion(files: OpenFiles, daemons: dict[str, OpenFiles], look: Look) -> str:
    call = files.call
    if call.role == "app-server":
        return "an app server with no thread loaded"
    if call.role == "tool":
        return f"codex {call.words[0] if call.words else '--version'} runs no thread"
    if call.is_remote:
        return "client of a remote app server"
    if call.role == "tui" and not call.is_embedded:
        daemon = daemons.get(find_home(files.process, look))
        if daemon is None or (daemon.has_no_thread and call.resumed_id is not None):
            return ""  # no daemon has the thread yet: show this process
        return f"client of the daemon pid {daemon.process.pid}"
    return ""


def _find_ties(holders: list[OpenFiles], look: Look) -> Iterator[Tie]:
    locked_ids = {session_id for files in holders for session_id in files.locks}
    launch_ties = {tie.process.pid: tie for tie in look.find_launch_ties()}
    for files in holders:
        process = files.process
        for session_id, lock in files.locks.items():
            yield Tie(session_id, process, "held open", lock.removesuffix(" (deleted)"), shared=True)
        if files.locks:  # a process with locks runs no other thread
            continue
        for session_id, path in files.rollouts.items():
            if session_id not in locked_ids:
                yield Tie(session_id, process, "held open", path, shared=True)
        if files.has_no_thread and files.call.resumed_id is not None:
            yield Tie(files.call.resumed_id, process, "argument", process.identity.address)
        elif files.has_no_thread and files.call.role == "exec" and process.pid in launch_ties:
            yield launch_ties[process.pid]  # an exec runs one thread, and has released it
        elif files.is_lingering_exec:
            yield from _infer_ties(files, look)


def _infer_ties(files: OpenFiles, look: Look) -> Iterator[Tie]:
    """Yield ties to threads that a lingering exec may have run: newer, in its directory, finished."""
    process, started = files.process, look.find_start_time(files.process)
    for session_id, path in list_rollouts_near(find_home(process, look), started, look):
        if (rollout.read_creation_time(session_id) or 0.0) < started:
            continue
        facts = rollout.read_live(path, look).facts
        is_over = facts.turn is not None and facts.turn.claim == "idle"
        if is_over and not facts.parent_id and _may_have_begun(facts, files, look):
            yield Tie(session_id, process, "inferred", path)


def _observe_thread(binding: Binding, files: OpenFiles, titles: Titles, look: Look) -> Observation:
    session_id = binding.session_id
    lock = files.locks.get(session_id)
    root = lock.rpartition(LOCKS)[0] if lock else find_home(files.process, look)
    path = files.rollouts.get(session_id) or find_rollout(root, session_id, look)
    content = (
        rollout.read_live(path, look) if path is not None else Rollout(is_blank=_is_visible(lock, look))
    )
    evidence = _replace_turn(binding, files, content, path, look)
    facts = content.facts._replace(
        title=titles.find(root, session_id),
        entry_point=ENTRY_POINTS.get(files.call.role, content.facts.entry_point),
    )
    if evidence:
        facts = facts._replace(turn=None)  # replaced by the evidence
    return observe_live(look, binding, path, facts, *evidence)


def _replace_turn(
    binding: Binding, files: OpenFiles, content: Rollout, path: str | None, look: Look
) -> tuple[Evidence, ...]:
    """Return the evidence that replaces the rollout's last turn; empty: the turn stands."""
    turn = content.facts.turn
    lock = files.locks.get(binding.session_id)
    taken_at = _find_lock_time(lock, files.process, look)
    if turn is None:
        # An exec has its prompt from the start, and records it 20 ms after it took the lock.
        if not content.is_blank or files.call.role == "exec":
            return ()
        return (Evidence("idle", binding.address, "derived", taken_at, note="never prompted"),)
    address = f"{path}@{turn.offset}"
    if turn.claim == "idle":
        ending = Evidence(turn.claim, address, "journal", turn.at, turn.detail, turn.note)
        own_ending = discount_earlier_turn(ending, taken_at - SLACK if lock else taken_at + TICK)
        return () if files.call.role != "exec" or own_ending.trusted else (own_ending,)
    left_open = Evidence(turn.claim, address, "journal", turn.at, turn.detail, turn.note, trusted=False)
    # The process holds no file open, so it does not work; or the clock was set back since it took its
    # lock; or its last line cannot be read.
    is_torn = turn.note.endswith(TORN)
    if binding.method != "held open" or taken_at > look.now + CLOCK_STEP or is_torn:
        return (left_open,)
    if is_left_open(turn, taken_at - SLACK):
        note = f"the open turn at {address} is older than this: its owner died in it"
        return (Evidence("idle", binding.address, "derived", taken_at, note=note), left_open)
    if files.call.role == "exec":  # exec never asks: it refuses by itself
        return (left_open._replace(claim="working", detail="", trusted=True),)
    if turn.claim == "waiting":  # no answer yet; outside Plan mode Codex refuses at once
        wait = Evidence("waiting", address, "derived", turn.at, turn.detail, turn.note)
        return (settle_wait(wait, look.now),)
    if not content.pending:
        return ()
    from agentctl.adapters.codex import approval  # rarely needed

    return approval.find_approval(
        content.pending, files.process, _rule_folders(files, content, look), left_open, look
    )


def _rule_folders(files: OpenFiles, content: Rollout, look: Look) -> tuple[str, ...]:
    """Return the folders of rules with commands that the user has allowed."""
    cwd = content.facts.cwd
    project = (look.resolve_path(files.process, f"{cwd}/.codex"),) if cwd else ()
    return tuple(f"{root}/rules" for root in (find_home(files.process, look), *project))


def _find_lock_time(lock: str | None, process: Process, look: Look) -> float:
    """Return when the owner took the thread: the lock's time, else the start of the process."""
    status = look.stat(lock) if lock is not None and not lock.endswith(" (deleted)") else None
    return status.st_mtime if status is not None else look.find_start_time(process)


def _is_visible(lock: str | None, look: Look) -> bool:
    """Return True if we see the files of the process, which we may not from outside its container."""
    return lock is not None and look.stat(lock) is not None


def _with_title(observation: Observation, title: str | None) -> Observation:
    return observation._replace(facts=observation.facts._replace(title=title)) if title else observation
