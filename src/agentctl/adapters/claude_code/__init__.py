"""Claude Code (npm and native installs; formats seen in 2.1.197 and 2.1.325).

Binding: `sessions/PID.json`, checked (`pid_record`). Status: that record's, else what the
transcript's last turn says (`transcript`). Nothing is held open, and a live session may
have neither file: then it is listed as the process that it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agentctl.adapters.base import Place, Starting, Wanted
from agentctl.adapters.claude_code import midturn
from agentctl.adapters.claude_code.argv import (
    argued,
    chooses,
    errand,
    is_claude,
    is_headless,
    is_machinery,
    is_prompted,
    on_node,
)
from agentctl.adapters.claude_code.lines import messages
from agentctl.adapters.claude_code.pid_record import (
    Leftover,
    Paper,
    is_spare,
    job_word,
    leftovers,
    paper,
    plausible,
    recorded,
    status,
)
from agentctl.adapters.claude_code.transcript import (
    entry_point,
    find,
    read_ended,
    read_live,
    slug,
)
from agentctl.adapters.registry import COMMS
from agentctl.adapters.roots import claude_root
from agentctl.errors import SourceError
from agentctl.system import clock, jsonl
from agentctl.system.jsonl import as_text
from agentctl.system.proc import NEVER, Process
from agentctl.truth.bind import Bound, Tie, bind
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Message, Observation
from agentctl.truth.observe import ended, facts_or_none, living, settled, unless_prompted
from agentctl.truth.survey import bare_process

CHILD = "CLAUDE_CODE_CHILD_SESSION"


class ClaudeCode(Starting):
    start = "agentctl.adapters.claude_code.start"
    name = "claude-code"
    comms = COMMS["claude-code"]
    binary = "claude"
    # "manual" was "default" before, which is still taken
    permission_modes = (
        "acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan",
    )  # fmt: skip

    def owns(self, process: Process) -> bool:
        return is_claude(process) and not is_machinery(process.argv)

    def recognised(self, look: Look) -> Iterable[Process]:
        """A record that names a live process, with its very start, is that process's own."""
        for root in look.roots(claude_root):
            yield from recorded(root, look)

    def live(self, look: Look) -> Iterable[Observation]:
        papers = [paper(process, look) for process in look.owned]
        noted = {tie.process.pid: tie for tie in look.noted()}
        cases = [(_tie(found, look) or noted.get(found.process.pid), found) for found in papers]
        said = {p.path: status(p.record, p.path, look) for p in papers if p.record is not None}
        unrecorded = [found for tie, found in cases if tie is None and _keeps_no_record(found)]
        guesses = [(tie, found) for found in unrecorded for tie in _inferred(found, look)]
        pairs = [(tie, found) for tie, found in (*cases, *guesses) if tie is not None]
        # of two processes on one session, the one that decides its status stands for it
        bounds = bind(sorted((tie for tie, _ in pairs), key=lambda tie: _urgency(said.get(tie.address))))
        for session_id, bound in bounds.items():
            inferred = bound.method == "inferred"  # a guess is no proof that it shares a session
            sharing = [
                found
                for tie, found in pairs
                if tie.session_id == session_id and (tie.method == "inferred") == inferred
            ]
            yield _living(look, bound, sharing, [e for p in sharing if (e := said.get(p.path))])
        candidates = {process.pid for bound in bounds.values() for process in bound.candidates}
        for tie, found in cases:
            if tie is None and found.process.pid not in candidates:
                yield from _without_session(found, look)

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        for root in look.roots(claude_root):
            left = {str(found.record.get("sessionId")): found for found in leftovers(root, look)}
            jobs = set(look.names(f"{root}/jobs"))
            for session_id, path in _transcripts(root, wanted.id_prefix, look):
                found = left.get(session_id)
                fate = found.fate(look) if found is not None else ()
                for seen in ended(look, session_id, path, read_ended, wanted, *fate, may=_may_run):
                    job = job_word(root, session_id, look) if session_id[:8] in jobs else None
                    yield _with_last_words(seen, found, job, look)

    def messages(self, seen: Observation, look: Look) -> Iterator[Message]:
        return messages(seen, look)

    def signs(self, seen: Observation, look: Look) -> Iterable[str]:
        """Its record is all that ties it to a session; what it does, that says too."""
        if seen.owner is not None and (root := look.root_of(seen.owner, claude_root)):
            yield f"{root}/sessions/*"
            yield f"{root}/sessions/{seen.owner.pid}.json"

    def places(self, look: Look) -> Iterable[Place]:
        for root in look.roots(claude_root):
            yield Place("registry", f"{root}/sessions")
            yield Place("transcripts", f"{root}/projects")
            yield Place("background jobs", f"{root}/jobs")
            for found in leftovers(root, look):
                if not found.foreign:
                    said = f"its process is gone (its last word: status {found.record.get('status')})"
                    look.problem("stale", said, found.path)


# which process runs which session


def _tie(found: Paper, look: Look) -> Tie | None:
    if found.record is not None:
        session_id = found.session_id
        if session_id is None:
            look.problem("malformed", "names no session", found.path)
            return None
        named = argued(found.process.argv)
        settled = "status" in found.record or named == session_id
        # `--continue`, the list to choose from and a respawned job show a made-up id and no status
        # until they know. 2.1.197 never has one with `-p`; but an id with a transcript is not made up.
        if settled or _transcript(found, session_id, look) is not None:
            return Tie(session_id, found.process, "pid record", found.path)
        return _argument(named, found)
    return _argument(argued(found.process.argv), found) or _child_tie(found.process, look)


def _argument(session_id: str | None, found: Paper) -> Tie | None:
    if session_id is None:
        return None
    return Tie(session_id, found.process, "argument", found.process.identity.address)


def _child_tie(process: Process, look: Look) -> Tie | None:
    """Its tools and hooks are told whose they are."""
    for child in look.descendants(process):
        try:
            environ = child.environ()
            session_id = plausible(environ.get("CLAUDE_CODE_SESSION_ID"))
            if session_id is not None and _names(environ.get("CLAUDE_PID"), child, process):
                return Tie(session_id, process, "child's environment", child.identity.address)
        except SourceError:  # ended meanwhile, or another user's: it tells nothing
            continue
    return None


def _names(pid: str | None, child: Process, process: Process) -> bool:
    """Whether this pid, as the child was given it, is the process's own. A Claude Code that runs in a
    container below this one has pids of its own there."""
    return child.namespace == process.namespace and pid == str(process.inner_pid())


def _keeps_no_record(found: Paper) -> bool:
    """Versions before 2.1 keep none, and have overwritten their arguments."""
    return found.record is None and found.doubt is None and on_node(found.process)


def _inferred(found: Paper, look: Look) -> Iterator[Tie]:
    """Transcripts of its directory that were written to since it began: if there is one, and nobody else
    who could have, it is its own. Not one of a launched process that has ended since."""
    process = found.process
    if process.cwd is None:
        return
    from agentctl.truth.launched import ends, overtaken  # for old versions only

    began, over = look.started_at(process), ends(look)
    folder = f"{found.root}/projects/{slug(process.cwd)}"
    for session_id, path in _transcripts_in(folder, "", look):
        status = look.status(path)
        if status is None or status.st_mtime < began:
            continue
        if session_id not in over or overtaken(over[session_id], status.st_mtime):
            yield Tie(session_id, process, "inferred", path)


def _urgency(said: Evidence | None) -> int:
    return ACTIVITY.index(said.claim) if said is not None and said.trusted else len(ACTIVITY)


# live sessions


def _living(look: Look, bound: Bound, sharing: Sequence[Paper], said: Sequence[Evidence]) -> Observation:
    owner = bound.candidates[0]
    for other in sharing if bound.owner is not None else ():
        if other.process.pid != owner.pid:
            look.set_aside(other.process, f"runs session {bound.session_id} too, as pid {owner.pid}")
    found = next(p for p in sharing if p.process.pid == owner.pid)
    path = _transcript(found, bound.session_id, look)
    facts = _merged(facts_or_none(look, path, read_live), found.record or {})
    doubt = _doubt(facts, bound, found.record or {}, look)
    prompted = is_prompted(owner.argv) and (facts.turn is None or doubt)
    if prompted or (doubt and _is_respawned(facts)):
        # its record says that it is idle before it has read its prompt
        said = [unless_prompted(piece, NEVER) for piece in said]
    if not doubt:
        facts, said = midturn.distrust_open_turn(facts, said, path)
        return living(look, bound, path, facts, *said)
    turn = facts.turn
    assert turn is not None
    note = f"{turn.note}; {doubt}"
    old = Evidence(turn.claim, f"{path}@{turn.offset}", "journal", turn.at, turn.detail, note, False)
    return living(look, bound, path, facts._replace(turn=None), *said, old)


def _doubt(facts: Facts, bound: Bound, record: jsonl.Record, look: Look) -> str:
    """Why the transcript's last turn does not tell what this process is doing; empty if it does."""
    owner = bound.candidates[0]
    if facts.turn is None:
        return ""
    if facts.turn.at is not None and facts.turn.at < look.started_at(owner) + clock.TICK:
        return "written before this process started"
    if is_spare(owner) and "status" not in record:  # it was there before the session was its own
        taken = clock.from_ms(record.get("startedAt"))
        if taken is None or facts.turn.at is None or facts.turn.at < taken:
            return "written before this process took the session up"
    # without a record nobody tells of a /clear, which leaves the arguments as they were
    if bound.method not in ("pid record", "inferred") and not is_headless(owner.argv):
        return "the process may have switched to another session since"
    return ""


def _is_respawned(facts: Facts) -> bool:
    """Whether this is a background job that was killed in mid-turn. Its supervisor starts it again, and
    it goes on with that turn."""
    turn_open = facts.turn is not None and facts.turn.claim != "idle"
    return turn_open and facts.entry_point == "background"


def _merged(facts: Facts, record: jsonl.Record) -> Facts:
    """The transcript's facts, with the record's where it knows better."""
    named = as_text(record.get("name")) if record.get("nameSource") == "user" else None
    touched = [t for t in (facts.last_activity_at, clock.from_ms(record.get("updatedAt"))) if t]
    return facts._replace(
        cwd=as_text(record.get("cwd")) or facts.cwd,  # a resume elsewhere shows here first
        title=facts.title or named,
        started_at=facts.started_at or clock.from_ms(record.get("startedAt")),
        last_activity_at=max(touched, default=None),
        entry_point=entry_point(record.get("kind"), record.get("entrypoint")) or facts.entry_point,
        agent_version=as_text(record.get("version")) or facts.agent_version,
    )


def _without_session(found: Paper, look: Look) -> Iterator[Observation]:
    """A process that runs no session we can name: its row says why, where that is known."""
    process = found.process
    if found.unclaimed:
        look.set_aside(process, "a spare for background jobs, not claimed yet")
        return
    if found.record is None and (why := errand(process.argv)):
        look.set_aside(process, why)
        return
    doubt = found.doubt
    if found.record is not None and chooses(process.argv):
        note = "it was told to resume, but not which session: it shows a list to choose from"
        at = clock.from_ms(found.record.get("startedAt"))
        doubt = settled(Evidence("waiting", found.path, "derived", at, "startup", note), look.now)
    elif found.record is not None and found.session_id is None:
        note = "its record names no session that Claude Code could have made: the id in it is damaged"
        doubt = Evidence("alive", found.path, "record", note=note, trusted=False)
    elif found.record is not None:
        note = f"session {found.record.get('sessionId')} is provisional until the record has a status"
        doubt = Evidence("alive", found.path, "record", note=note, trusted=False)
    elif doubt is None and look.environ_of(process).get(CHILD):
        note = f"it inherited {CHILD}: interactive, it keeps neither record nor transcript"
        doubt = Evidence("alive", process.identity.address, "derived", note=note)
    if doubt is not None:
        row = bare_process(look, process)
        yield row._replace(evidence=(*row.evidence, doubt))


# ended sessions


def _may_run(process: Process, facts: Facts) -> bool:
    """A transcript's lines carry the directory of the process that writes them, or one below it."""
    if facts.cwd is None or process.cwd is None:
        return True
    return f"{facts.cwd}/".startswith(process.cwd.rstrip("/") + "/")


def _transcripts(root: str, prefix: str, look: Look) -> Iterator[tuple[str, str]]:
    for project in look.names(f"{root}/projects"):
        yield from _transcripts_in(f"{root}/projects/{project}", prefix, look)


def _transcripts_in(folder: str, prefix: str, look: Look) -> Iterator[tuple[str, str]]:
    for name in look.names(folder):
        # agent-ID.jsonl: older versions kept sub-agents here; they are no sessions
        if name.endswith(".jsonl") and name.startswith(prefix) and not name.startswith("agent-"):
            yield name[:-6], f"{folder}/{name}"


def _with_last_words(
    seen: Observation, left: Leftover | None, job: Evidence | None, look: Look
) -> Observation:
    """What a killed process's record said last, and what the supervisor of jobs says of it."""
    if left is None and job is None:
        return seen
    words = [] if job is None else [job]
    if left is not None:
        said = status(left.record, left.path, look)
        said = said or Evidence("alive", left.path, "record", note="no status", trusted=False)
        words.append(said._replace(note=f"left behind by pid {left.number}: {said.note}"))
    return seen._replace(evidence=(*seen.evidence, *(_unless_overtaken(w, seen) for w in words)))


def _unless_overtaken(said: Evidence, seen: Observation) -> Evidence:
    """Somebody else may have resumed and ended the session since."""
    turn = seen.facts.turn
    if turn is None or turn.claim == said.claim:
        return said
    if turn.at is None or said.at is None or turn.at <= said.at:
        return said
    return said._replace(note=f"{said.note}; overtaken by the transcript", trusted=False)


def _transcript(found: Paper, session_id: str, look: Look) -> str | None:
    cwd = as_text((found.record or {}).get("cwd")) or found.process.cwd
    return find(found.root, session_id, cwd, look)
