"""The built-in demo agent (`agentctl.demo.agent`), and the example of an adapter.

Binding: `live/PID.json`, valid when its procStart is the process's. Status: the journal's last turn
record. All that an adapter has to do is here, in the order in which a survey asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from agentctl.adapters.base import Place, Wanted
from agentctl.adapters.registry import COMMS
from agentctl.errors import Gone, SourceError
from agentctl.paths import home
from agentctl.system import files, jsonl, proc
from agentctl.system.proc import Process
from agentctl.truth.bind import Tie, bind
from agentctl.truth.look import Environ, Look
from agentctl.truth.model import PROMPT_CAP, Evidence, Facts, Message, Observation, Tokens, Turn
from agentctl.truth.observe import ended, facts_or_none, living, transcript

if TYPE_CHECKING:
    from agentctl.adapters.plans import Command, LaunchRequest, StopPlan

MODULE = "agentctl.demo.agent"


class Demo:
    name = "demo"
    comms = COMMS["demo"]
    binary = "agentctl"
    permission_modes = ()

    def owns(self, process: Process) -> bool:
        return MODULE in process.argv

    def live(self, look: Look) -> Iterable[Observation]:
        ties = [tie for process in look.owned if (tie := _tie(process, look)) is not None]
        for session_id, bound in bind(ties).items():
            path = f"{look.root_of(bound.candidates[0], _root)}/sessions/{session_id}.jsonl"
            yield living(look, bound, path, facts_or_none(look, path, _read))

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        for root in look.roots(_root):
            left_behind = _left_behind(root, look)
            for name in look.names(f"{root}/sessions"):
                session_id, dot, _ = name.partition(".jsonl")
                if dot and session_id.startswith(wanted.id_prefix):
                    path = f"{root}/sessions/{name}"
                    fate = left_behind.get(session_id, ())
                    yield from ended(look, session_id, path, _read, wanted, *fate)

    def messages(self, seen: Observation, look: Look) -> Iterator[Message]:
        for offset, record in transcript(seen, look):
            if record.get("type") == "say":
                yield Message(str(offset), record["role"], record["text"], record["at"])

    def launch(self, request: LaunchRequest) -> Command:
        return _command(request)

    def resume(self, seen: Observation, request: LaunchRequest) -> Command:
        return _command(request, "--resume", seen.session_id or "")._replace(expected=seen.session_id)

    def stop_plan(self, seen: Observation) -> StopPlan:  # noqa: ARG002 - it ends like any other
        from signal import SIGINT, SIGTERM

        from agentctl.adapters.plans import StopPlan

        return StopPlan(((SIGINT, 3.0), (SIGTERM, 3.0)), pid_markers=("DEMO_AGENT_PID",))

    def places(self, look: Look) -> Iterable[Place]:
        for root in look.roots(_root):
            yield Place("journals", f"{root}/sessions")
            yield Place("live records", f"{root}/live")
            for session_id in _left_behind(root, look):
                look.problem(
                    "stale", f"names a process that is gone; session {session_id}", f"{root}/live"
                )


def _command(request: LaunchRequest, *words: str) -> Command:
    """Starting is described here and done elsewhere: what it needs is imported when it is wanted."""
    import sys

    from agentctl.adapters.plans import Command
    from agentctl.errors import UsageError

    if request.system_prompt is not None:
        raise UsageError("the demo agent has no system prompt to append to")
    model = ("--model", request.model) if request.model is not None else ()
    # -P: where it works there may be an agentctl.py of somebody else
    return Command(
        (sys.executable, "-P", "-m", MODULE, *words, *model, *request.native, "-"),
        request.cwd,
        request.prompt.encode(),
        announced=_announced,
    )


def _announced(line: bytes) -> str | None:
    """Its first line of output is its session's id."""
    text = line.decode(errors="replace").strip()
    return text if _is_id(text) else None


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) == 36 and value.count("-") == 4


def _root(environ: Environ) -> str | None:
    base = home(environ)
    return environ.get("DEMO_AGENT_HOME") or (f"{base}/.demo-agent" if base else None)


def _record(path: str, look: Look) -> jsonl.Record | None:
    try:
        record = jsonl.parse(files.whole(path).data)
    except Gone:  # its process has just started, or has just ended
        return None
    except SourceError as error:
        look.unreadable(error)
        return None
    has_session = record is not None and _is_id(record.get("session"))
    if record is None or not has_session or not _is_start(record.get("procStart")):
        look.problem("malformed", "not a record of a live process", path)
        return None
    return record


def _is_start(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20


def _left_behind(root: str, look: Look) -> dict[str, tuple[Evidence, ...]]:
    """What became of the processes that never took their record back, by session."""
    found = {}
    for name in look.names(f"{root}/live"):
        path, pid = f"{root}/live/{name}", name.removesuffix(".json")
        record = _record(path, look) if pid.isascii() and pid.isdecimal() else None
        if record is not None:
            fate = tuple(_fate(int(pid), record, path, look))
            if fate:
                found[str(record["session"])] = fate
    return found


def _fate(pid: int, record: jsonl.Record, path: str, look: Look) -> Iterator[Evidence]:
    """A number means nothing outside of the pid namespace that it was given in."""
    ours = proc.namespace()
    written_in = record.get("namespace", ours)
    if written_in != ours:
        note = f"its record was written in another pid namespace ({written_in}), out of our sight"
        yield Evidence("hidden", path, "record", note=note)
    else:
        yield from look.fate(pid, int(record["procStart"]), path)


def _tie(process: Process, look: Look) -> Tie | None:
    """The session that the process's own record names, if the record is this very process's."""
    try:
        path = f"{look.root_of(process, _root)}/live/{process.inner_pid()}.json"
    except Gone:  # it ended while we looked
        return None
    record = _record(path, look)
    if record is None:  # listed as a process without a session
        return None
    if record["procStart"] != str(process.identity.start):
        look.problem("stale", "written by an earlier process with this pid", path)
        return None
    return Tie(str(record["session"]), process, "pid record", path)


def _read(path: str, look: Look) -> Facts:
    """Head for what never changes, tail for what does."""
    tally = jsonl.Tally()
    piece = files.tail(path)
    first = piece if piece.whole else files.first_lines(path, 4096)
    session = prompt = None
    for _, record in jsonl.oldest_first(first, tally):
        if record.get("type") == "session":
            session = record
        elif record.get("type") == "say":
            prompt = str(record.get("text"))[:PROMPT_CAP]
            break
    if piece.whole:
        tally = jsonl.Tally()  # the same lines come again below
    turn, usage, last = None, None, None
    for offset, record in jsonl.newest_first(piece, tally):
        last = record.get("at") if last is None else last
        if record.get("type") == "turn" and turn is None:
            turn = _turn(record, offset, path, look)
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


def _turn(record: jsonl.Record, offset: int, path: str, look: Look) -> Turn | None:
    state, at = record.get("state"), record.get("at")
    if state == "working":
        return Turn("working", at=at, offset=offset, note="turn working")
    if state == "waiting":
        return Turn("waiting", "question", at, offset, note=str(record.get("question")))
    if state == "over":
        return Turn("idle", str(record.get("how")), at, offset, note=f"turn over: {record.get('how')}")
    look.drift("turn state", state, None, f"{path}@{offset}")
    return None
