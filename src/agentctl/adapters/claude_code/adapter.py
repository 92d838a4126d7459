"""Claude Code (npm and native installs; formats seen in 2.1.197 and 2.1.325).

Binding: `sessions/PID.json`, checked (`pid_record`). Status: that record's, else that of the
transcript's last turn (`transcript`). Claude Code holds no file open, and a live session may have
neither file: then it is listed as a process without a session.
"""

from __future__ import annotations

from agentctl import paths
from agentctl.adapters.base import HistoryQuery, Place, StartModule
from agentctl.adapters.claude_code import agent
from agentctl.adapters.claude_code.argv import (
    find_errand,
    is_claude,
    is_headless,
    is_machinery,
    is_prompted,
    read_session_id,
    runs_on_node,
    shows_list,
)
from agentctl.adapters.claude_code.lines import read_messages
from agentctl.adapters.claude_code.pid_record import (
    DIALOG,
    Leftover,
    OwnRecord,
    check_id,
    find_leftovers,
    find_recorded,
    is_spare,
    read_job_state,
    read_own_record,
    read_status,
)
from agentctl.adapters.claude_code.places import (
    claude_root,
    find_transcript,
    list_transcripts,
    list_transcripts_in,
    slug,
)
from agentctl.adapters.claude_code.transcript import (
    read_ended,
    read_entry_point,
    read_live,
)
from agentctl.errors import SourceError
from agentctl.light_typing import Iterable, Iterator, Sequence
from agentctl.system import clock, jsonl
from agentctl.system.jsonl import as_text
from agentctl.system.proc import NEVER, Process
from agentctl.truth.bind import Binding, Tie, bind
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Message, Observation
from agentctl.truth.observe import (
    discount_earlier_turn,
    make_turn_evidence,
    observe_ended,
    observe_live,
    read_live_facts,
    settle_wait,
)
from agentctl.truth.survey import observe_process

CHILD = "CLAUDE_CODE_CHILD_SESSION"


class ClaudeCode(StartModule):
    start = "agentctl.adapters.claude_code.start"
    name = "claude-code"
    api = 1
    comms = agent.PROCESSES
    binary = agent.BINARY
    # "manual" was named "default" before; Claude Code still accepts both.
    permission_modes = (
        "acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan",
    )  # fmt: skip

    def owns(self, process: Process) -> bool:
        return is_claude(process) and not is_machinery(process.argv)

    def recognize(self, look: Look) -> Iterable[Process]:
        """Yield the live processes that a record names, with their start."""
        for root in look.find_roots(claude_root):
            yield from find_recorded(root, look)

    def live(self, look: Look) -> Iterable[Observation]:
        records = [read_own_record(process, look) for process in look.own_processes]
        launch_ties = {tie.process.pid: tie for tie in look.find_launch_ties()}
        cases = [(_find_tie(own, look) or launch_ties.get(own.process.pid), own) for own in records]
        published = {
            p.path: read_status(p.record, p.path, look) for p in records if p.record is not None
        }
        unrecorded = [own for tie, own in cases if tie is None and _keeps_no_record(own)]
        guesses = [(tie, own) for own in unrecorded for tie in _infer_ties(own, look)]
        pairs = [(tie, own) for tie, own in (*cases, *guesses) if tie is not None]
        # Of two processes on one session, the one whose record decides the status is the owner.
        bindings = bind(
            sorted((tie for tie, _ in pairs), key=lambda tie: _rank_activity(published.get(tie.address)))
        )
        by_session: dict[tuple[str, bool], list[OwnRecord]] = {}
        for each, own in pairs:
            by_session.setdefault((each.session_id, each.method == "inferred"), []).append(own)
        for session_id, binding in bindings.items():
            is_inferred = binding.method == "inferred"  # not a proof that it shares a session
            sharing = by_session[session_id, is_inferred]
            yield _observe_session(
                look, binding, sharing, [e for p in sharing if (e := published.get(p.path))]
            )
        candidates = {process.pid for binding in bindings.values() for process in binding.candidates}
        for tie, own in cases:
            if tie is None and own.process.pid not in candidates:
                yield from _observe_bare_process(own, look)

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        for root in look.find_roots(claude_root):
            leftovers = {str(each.record.get("sessionId")): each for each in find_leftovers(root, look)}
            jobs = set(look.list_names(f"{root}/jobs"))
            for session_id, path in list_transcripts(root, query.id_prefix, look):
                leftover = leftovers.get(session_id)
                fate = leftover.find_fate(look) if leftover is not None else ()
                for observation in observe_ended(
                    look, session_id, path, read_ended, query, *fate, may=_may_run
                ):
                    job = read_job_state(root, session_id, look) if session_id[:8] in jobs else None
                    yield _add_last_records(observation, leftover, job, look)

    def messages(self, observation: Observation, look: Look) -> Iterator[Message]:
        return read_messages(observation, look)

    def signs(self, observation: Observation, look: Look) -> Iterable[str]:
        """Only its record ties a process to a session, and it has the status, too."""
        if observation.owner is not None and (root := look.find_root(observation.owner, claude_root)):
            yield f"{root}/sessions/*"
            yield f"{root}/sessions/{observation.owner.pid}.json"

    def places(self, look: Look) -> Iterable[Place]:
        for root in look.find_roots(claude_root):
            yield Place("registry", f"{root}/sessions")
            yield Place("transcripts", f"{root}/projects")
            yield Place("background jobs", f"{root}/jobs")
            for leftover in find_leftovers(root, look):
                if not leftover.is_foreign:
                    message = (
                        f"its process is gone (its last word: status {leftover.record.get('status')})"
                    )
                    look.report_problem("stale", message, leftover.path)


# which process runs which session


def _find_tie(own: OwnRecord, look: Look) -> Tie | None:
    if own.record is not None:
        session_id = own.session_id
        if session_id is None:
            look.report_problem("malformed", "names no session", own.path)
            return None
        # With `--continue`, in the list of sessions and in a respawned job, the record has a provisional
        # id and no status at first. 2.1.197 never has a status with `-p`; but an id with a transcript is
        # real.
        tie = Tie(session_id, own.process, "pid record", own.path)
        if "status" in own.record:
            return tie
        argument = read_session_id(own.process.argv)
        is_settled = argument == session_id or _find_transcript_of(own, session_id, look) is not None
        return tie if is_settled else _argument_tie(argument, own)
    return _argument_tie(read_session_id(own.process.argv), own) or _child_tie(own.process, look)


def _argument_tie(session_id: str | None, own: OwnRecord) -> Tie | None:
    if session_id is None:
        return None
    return Tie(session_id, own.process, "argument", own.process.identity.address)


def _child_tie(process: Process, look: Look) -> Tie | None:
    """Tools and hooks have the session's id in their environment."""
    for child in look.find_descendants(process):
        try:
            environ = child.environ()
            session_id = check_id(environ.get("CLAUDE_CODE_SESSION_ID"))
            if session_id is not None and _is_pid_of(environ.get("CLAUDE_PID"), child, process):
                return Tie(session_id, process, "child's environment", child.identity.address)
        except SourceError:  # the child has ended, or belongs to another user
            continue
    return None


def _is_pid_of(pid: str | None, child: Process, process: Process) -> bool:
    """Return True if a pid in the child's environment is that of the process. A Claude Code in a
    container below this one has other pids there."""
    return child.pid_namespace == process.pid_namespace and pid == str(process.read_inner_pid())


def _keeps_no_record(own: OwnRecord) -> bool:
    """Versions before 2.1 keep no record and overwrite their arguments."""
    return own.record is None and own.doubt is None and runs_on_node(own.process)


def _infer_ties(own: OwnRecord, look: Look) -> Iterator[Tie]:
    """Yield ties to the transcripts of the process's directory that were written since it began, but not
    to one of a launched process that has ended since. `bind` accepts a tie if it is the only one."""
    process = own.process
    if process.cwd is None:
        return
    from agentctl.truth.launches import find_recorded_exits, is_overtaken  # for old versions only

    started_at, exits = look.find_start_time(process), find_recorded_exits(look)
    folder = f"{own.root}/projects/{slug(process.cwd)}"
    for session_id, path in list_transcripts_in(folder, "", look):
        status = look.stat(path)
        if status is None or status.st_mtime < started_at:
            continue
        if session_id not in exits or is_overtaken(exits[session_id], status.st_mtime):
            yield Tie(session_id, process, "inferred", path)


def _rank_activity(piece: Evidence | None) -> int:
    return ACTIVITY.index(piece.claim) if piece is not None and piece.trusted else len(ACTIVITY)


# live sessions


def _observe_session(
    look: Look, binding: Binding, records: Sequence[OwnRecord], published: Sequence[Evidence]
) -> Observation:
    owner = binding.candidates[0]
    for other in records if binding.owner is not None else ():
        if other.process.pid != owner.pid:
            look.exclude_process(
                other.process, f"runs session {binding.session_id} too, as pid {owner.pid}"
            )
    own = next(p for p in records if p.process.pid == owner.pid)
    path = _find_transcript_of(own, binding.session_id, look)
    facts = _merge_facts(read_live_facts(look, path, read_live), own.record or {})
    doubt = _find_turn_doubt(facts, binding, own.record or {}, look)
    is_prompted_now = (facts.turn is None or doubt) and is_prompted(owner.argv)
    if is_prompted_now or (doubt and _is_respawned(facts)):
        # The record says idle before Claude Code has read its prompt.
        published = [discount_earlier_turn(piece, NEVER) for piece in published]
    if not doubt:
        facts, published = _distrust_open_turn(facts, published, path)
        return observe_live(look, binding, path, facts, *published)
    turn = facts.turn
    assert turn is not None
    note = f"{turn.note}; {doubt}"
    old = Evidence(turn.claim, f"{path}@{turn.offset}", "journal", turn.at, turn.detail, note, False)
    return observe_live(look, binding, path, facts._replace(turn=None), *published, old)


def _distrust_open_turn(
    facts: Facts, pieces: Sequence[Evidence], path: str | None
) -> tuple[Facts, Sequence[Evidence]]:
    """Return facts and evidence, with distrust where a record does not show, during a turn, whether
    Claude Code waits for the user. It has the same words for a dialog that opened by itself and for one
    that the user opened, and may use words that we do not know. The transcript does not distinguish a
    question from work. Then neither is trusted."""
    if facts.turn is None or facts.turn.claim != "working":
        return facts, pieces
    doubts = [_find_dialog_doubt(piece) for piece in pieces]
    if not any(doubts):
        return facts, pieces
    distrusted = [
        piece._replace(note=f"{piece.note}; {doubt}", trusted=False) if doubt else piece
        for piece, doubt in zip(pieces, doubts, strict=True)
    ]
    open_turn = [piece._replace(trusted=False) for piece in make_turn_evidence(facts, path)]
    return facts._replace(turn=None), [*distrusted, *open_turn]


def _find_dialog_doubt(piece: Evidence) -> str:
    """Return why this evidence leaves open whether the user is needed; empty if it does not."""
    if piece.note == DIALOG:
        return "its turn is open, and nothing tells whether the dialog holds it up"
    if piece.note.startswith("waitingFor"):
        return "it waits, and the transcript cannot tell for whom"
    return ""


def _find_turn_doubt(facts: Facts, binding: Binding, record: jsonl.Record, look: Look) -> str:
    """Return why the transcript's last turn is not what this process does now; empty if it is."""
    owner = binding.candidates[0]
    if facts.turn is None:
        return ""
    if facts.turn.at is not None and facts.turn.at < look.find_start_time(owner) + clock.TICK:
        return "written before this process started"
    if is_spare(owner) and "status" not in record:  # the process is older than its session
        taken_at = clock.parse_ms(record.get("startedAt"))
        if taken_at is None or facts.turn.at is None or facts.turn.at < taken_at:
            return "written before this process took the session up"
    # Without a record a /clear is invisible: the arguments stay as they were.
    if binding.method not in ("pid record", "inferred") and not is_headless(owner.argv):
        return "the process may have switched to another session since"
    return ""


def _is_respawned(facts: Facts) -> bool:
    """Return True for a background job that was killed during a turn. Its supervisor starts it again,
    and the job continues that turn."""
    turn_open = facts.turn is not None and facts.turn.claim != "idle"
    return turn_open and facts.entry_point == "background"


def _merge_facts(facts: Facts, record: jsonl.Record) -> Facts:
    """Return the transcript's facts, with those of the record where they are newer."""
    name = as_text(record.get("name")) if record.get("nameSource") == "user" else None
    times = [t for t in (facts.last_activity_at, clock.parse_ms(record.get("updatedAt"))) if t]
    return facts._replace(
        cwd=as_text(record.get("cwd")) or facts.cwd,  # a resume in another directory shows here first
        title=facts.title or name,
        started_at=facts.started_at or clock.parse_ms(record.get("startedAt")),
        last_activity_at=max(times, default=None),
        entry_point=read_entry_point(record.get("kind"), record.get("entrypoint")) or facts.entry_point,
        agent_version=as_text(record.get("version")) or facts.agent_version,
    )


def _observe_bare_process(own: OwnRecord, look: Look) -> Iterator[Observation]:
    """Yield the row of a process without a known session, with the reason if there is one."""
    process = own.process
    if own.is_unclaimed:
        look.exclude_process(process, "a spare for background jobs, not claimed yet")
        return
    if own.record is None and (reason := find_errand(process.argv)):
        look.exclude_process(process, reason)
        return
    doubt = own.doubt
    if own.record is not None and shows_list(process.argv):
        note = "it was told to resume, but not which session: it shows a list to choose from"
        at = clock.parse_ms(own.record.get("startedAt"))
        doubt = settle_wait(Evidence("waiting", own.path, "derived", at, "startup", note), look.now)
    elif own.record is not None and own.session_id is None:
        note = "its record names no session that Claude Code could have made: the id in it is damaged"
        doubt = Evidence("alive", own.path, "record", note=note, trusted=False)
    elif own.record is not None:
        note = f"session {own.record.get('sessionId')} is provisional until the record has a status"
        doubt = Evidence("alive", own.path, "record", note=note, trusted=False)
    elif doubt is None and look.read_environ(process).get(CHILD):
        note = f"it inherited {CHILD}: interactive, it keeps neither record nor transcript"
        doubt = Evidence("alive", process.identity.address, "derived", note=note)
    if doubt is not None:
        row = observe_process(look, process)
        yield row._replace(evidence=(*row.evidence, doubt))


# ended sessions


def _may_run(process: Process, facts: Facts) -> bool:
    """Lines of a transcript have the directory of their process, or one below it."""
    if facts.cwd is None or process.cwd is None:
        return True
    return paths.is_inside(facts.cwd, process.cwd)


def _add_last_records(
    observation: Observation, leftover: Leftover | None, job: Evidence | None, look: Look
) -> Observation:
    """Add the last status in a killed process's record, and the job state of the supervisor."""
    if leftover is None and job is None:
        return observation
    pieces = [] if job is None else [job]
    if leftover is not None:
        last = read_status(leftover.record, leftover.path, look)
        last = last or Evidence("alive", leftover.path, "record", note="no status", trusted=False)
        pieces.append(last._replace(note=f"left behind by pid {leftover.number}: {last.note}"))
    return observation._replace(
        evidence=(*observation.evidence, *(_distrust_if_overtaken(w, observation) for w in pieces))
    )


def _distrust_if_overtaken(piece: Evidence, observation: Observation) -> Evidence:
    """Another process may have resumed and ended the session since."""
    turn = observation.facts.turn
    if turn is None or turn.claim == piece.claim:
        return piece
    if turn.at is None or piece.at is None or turn.at <= piece.at:
        return piece
    return piece._replace(note=f"{piece.note}; overtaken by the transcript", trusted=False)


def _find_transcript_of(own: OwnRecord, session_id: str, look: Look) -> str | None:
    cwd = as_text((own.record or {}).get("cwd")) or own.process.cwd
    return find_transcript(own.root, session_id, cwd, look)
