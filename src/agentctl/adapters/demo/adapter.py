"""The built-in demo agent (`agentctl.demo.agent`), and the example of an adapter.

Binding: `live/PID.json`, valid when its procStart is the process's. Status: the journal's last turn
record. It shows all that an adapter does, in the order in which a survey calls it.
"""

from __future__ import annotations

from agentctl.adapters.base import HistoryQuery, Place
from agentctl.adapters.demo import agent
from agentctl.errors import Gone, SourceError
from agentctl.light_typing import TYPE_CHECKING, Iterable, Iterator
from agentctl.paths import home_directory
from agentctl.system import files, jsonl, proc
from agentctl.system.proc import Process
from agentctl.truth.bind import Tie, bind
from agentctl.truth.look import Environ, Look
from agentctl.truth.model import PROMPT_CAP, Evidence, Facts, Message, Observation, Tokens, Turn
from agentctl.truth.observe import observe_ended, observe_live, read_live_facts, read_transcript

if TYPE_CHECKING:
    from agentctl.adapters.plans import Command, LaunchRequest, StopPlan

MODULE = "agentctl.demo.agent"


class Demo:
    name = "demo"
    api = 1
    comms = agent.PROCESSES
    binary = agent.BINARY
    permission_modes = ()

    def owns(self, process: Process) -> bool:
        return MODULE in process.argv

    def live(self, look: Look) -> Iterable[Observation]:
        ties = [tie for process in look.own_processes if (tie := _find_tie(process, look)) is not None]
        for session_id, binding in bind(ties).items():
            path = f"{look.find_root(binding.candidates[0], _find_root)}/sessions/{session_id}.jsonl"
            yield observe_live(look, binding, path, read_live_facts(look, path, _read_facts))

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        for root in look.find_roots(_find_root):
            leftovers = _read_leftovers(root, look)
            for name in look.list_names(f"{root}/sessions"):
                session_id, dot, _ = name.partition(".jsonl")
                if dot and session_id.startswith(query.id_prefix):
                    path = f"{root}/sessions/{name}"
                    fate = leftovers.get(session_id, ())
                    yield from observe_ended(look, session_id, path, _read_facts, query, *fate)

    def messages(self, observation: Observation, look: Look) -> Iterator[Message]:
        for offset, record in read_transcript(observation, look):
            if record.get("type") == "say":
                yield Message(str(offset), record["role"], record["text"], record["at"])

    def launch(self, request: LaunchRequest) -> Command:
        return _command(request)

    def resume(self, observation: Observation, request: LaunchRequest) -> Command:
        return _command(request, "--resume", observation.session_id or "")._replace(
            expected_id=observation.session_id
        )

    def stop_plan(self, observation: Observation) -> StopPlan:  # noqa: ARG002 - the same for every session
        from signal import SIGINT, SIGTERM

        from agentctl.adapters.plans import StopPlan

        return StopPlan(((SIGINT, 3.0), (SIGTERM, 3.0)), pid_markers=("DEMO_AGENT_PID",))

    def places(self, look: Look) -> Iterable[Place]:
        for root in look.find_roots(_find_root):
            yield Place("journals", f"{root}/sessions")
            yield Place("live records", f"{root}/live")
            for session_id in _read_leftovers(root, look):
                look.report_problem(
                    "stale", f"names a process that is gone; session {session_id}", f"{root}/live"
                )


def _command(request: LaunchRequest, *words: str) -> Command:
    """Return how to start the demo agent. `list` does not need the imports here."""
    import sys

    from agentctl.adapters.plans import Command
    from agentctl.errors import UsageError

    if request.system_prompt is not None:
        raise UsageError("the demo agent has no system prompt to append to")
    model = ("--model", request.model) if request.model is not None else ()
    # -P: the working directory may contain another agentctl.py.
    return Command(
        (sys.executable, "-P", "-m", MODULE, *words, *model, *request.native, "-"),
        request.cwd,
        request.prompt.encode(),
        read_id=_read_id,
    )


def _read_id(line: bytes) -> str | None:
    """Return the session's id from the first line of output."""
    text = line.decode(errors="replace").strip()
    return text if _is_id(text) else None


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) == 36 and value.count("-") == 4


def _find_root(environ: Environ) -> str | None:
    base = home_directory(environ)
    return environ.get("DEMO_AGENT_HOME") or (f"{base}/.demo-agent" if base else None)


def _read_record(path: str, look: Look) -> jsonl.Record | None:
    try:
        record = jsonl.parse_record(files.read_file(path).data)
    except Gone:  # the process has just started, or has just ended
        return None
    except SourceError as error:
        look.report_unreadable(error)
        return None
    has_session = record is not None and _is_id(record.get("session"))
    if record is None or not has_session or not _is_start(record.get("procStart")):
        look.report_problem("malformed", "not a record of a live process", path)
        return None
    return record


def _is_start(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20


def _read_leftovers(root: str, look: Look) -> dict[str, tuple[Evidence, ...]]:
    """Return, by session, what became of the processes that did not remove their record."""
    fates = {}
    for name in look.list_names(f"{root}/live"):
        path, pid = f"{root}/live/{name}", name.removesuffix(".json")
        record = _read_record(path, look) if pid.isascii() and pid.isdecimal() else None
        if record is not None:
            fate = tuple(_find_fate(int(pid), record, path, look))
            if fate:
                fates[str(record["session"])] = fate
    return fates


def _find_fate(pid: int, record: jsonl.Record, path: str, look: Look) -> Iterator[Evidence]:
    """Yield the fate of a process. A pid means nothing outside its pid namespace."""
    ours = proc.pid_namespace()
    written_in = record.get("namespace", ours)
    if written_in != ours:
        note = f"its record was written in another pid namespace ({written_in}), out of our sight"
        yield Evidence("hidden", path, "record", note=note)
    else:
        yield from look.find_end(pid, int(record["procStart"]), path)


def _find_tie(process: Process, look: Look) -> Tie | None:
    """Return a tie to the session in the process's record, if this process wrote it."""
    try:
        path = f"{look.find_root(process, _find_root)}/live/{process.read_inner_pid()}.json"
    except Gone:  # the process has just ended
        return None
    record = _read_record(path, look)
    if record is None:  # listed as a process without a session
        return None
    if record["procStart"] != str(process.identity.start):
        look.report_problem("stale", "written by an earlier process with this pid", path)
        return None
    return Tie(str(record["session"]), process, "pid record", path)


def _read_facts(path: str, look: Look) -> Facts:
    """Return the facts of a journal: the head never changes, the tail does."""
    tally = jsonl.SkippedLines()
    piece = files.read_tail(path)
    first = piece if piece.is_whole else files.read_first_lines(path, 4096)
    session = prompt = None
    for _, record in jsonl.records_oldest_first(first, tally):
        if record.get("type") == "session":
            session = record
        elif record.get("type") == "say":
            prompt = str(record.get("text"))[:PROMPT_CAP]
            break
    if piece.is_whole:
        tally = jsonl.SkippedLines()  # the same lines come again below
    turn, usage, last = None, None, None
    for offset, record in jsonl.records_newest_first(piece, tally):
        last = record.get("at") if last is None else last
        if record.get("type") == "turn" and turn is None:
            turn = _read_turn(record, offset, path, look)
        elif record.get("type") == "usage" and usage is None:
            usage = Tokens(record.get("input"), record.get("output"))
        if turn is not None and usage is not None:
            break
    session = session or {}
    return Facts(
        cwd=session.get("cwd"),
        model=session.get("model"),
        prompt=prompt,
        started_at=session.get("at"),
        last_activity_at=last,
        tokens=usage,
        entry_point="interactive" if session.get("interactive") else "headless",
        agent_version=session.get("version"),
        turn=turn,
        garbled=tally.garbled,
    )


def _read_turn(record: jsonl.Record, offset: int, path: str, look: Look) -> Turn | None:
    state, at = record.get("state"), record.get("at")
    if state == "working":
        return Turn("working", at=at, offset=offset, note="turn working")
    if state == "waiting":
        return Turn("waiting", "question", at, offset, note=str(record.get("question")))
    if state == "over":
        return Turn("idle", str(record.get("how")), at, offset, note=f"turn over: {record.get('how')}")
    look.report_drift("turn state", state, None, f"{path}@{offset}")
    return None
