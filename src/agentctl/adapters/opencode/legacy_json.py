"""Read the history of OpenCode before 1.2, JSON files in two layouts:

storage/session/PROJECT/ses_….json         message/SESSION/msg_….json    part/MESSAGE/prt_….json
project/SLUG/storage/session/info/ses_….json   message/SESSION/…         part/SESSION/MESSAGE/…

Only sessions that no database has: later versions copied them and left the files.
"""

from __future__ import annotations

from agentctl.adapters.opencode.messages import (
    read_model,
    read_prompt,
    read_title,
    read_turn,
    to_messages,
)
from agentctl.errors import Gone, Malformed, SourceError
from agentctl.light_typing import Iterator, NamedTuple
from agentctl.system import clock, files, jsonl
from agentctl.system.jsonl import Record, as_dict
from agentctl.truth.look import Look
from agentctl.truth.model import Facts, Message, Observation
from agentctl.truth.observe import observe_ended
from agentctl.truth.survey import HistoryQuery


class _Folders(NamedTuple):
    messages: str  # of one session
    parts: str  # of all its messages


def list_sessions(look: Look, data: str) -> Iterator[tuple[str, str]]:
    """Yield id and path of every session below a data directory."""
    folders = [
        f"{data}/storage/session/{project}" for project in look.list_names(f"{data}/storage/session")
    ]
    folders += [
        f"{data}/project/{slug}/storage/session/info" for slug in look.list_names(f"{data}/project")
    ]
    for folder in folders:
        for name in look.list_names(folder):
            session_id, dot, _ = name.rpartition(".json")
            if dot:
                yield session_id, f"{folder}/{name}"


def observe_history(
    look: Look, data: str, database_ids: frozenset[str], query: HistoryQuery
) -> Iterator[Observation]:
    for session_id, path in list_sessions(look, data):
        if session_id not in database_ids and session_id.startswith(query.id_prefix):
            yield from observe_ended(look, session_id, path, read_facts, query)


def read_facts(path: str, look: Look) -> Facts:
    info = _load(path)
    times = as_dict(info.get("time"))
    folders = _find_folders(path, look)
    names = sorted(look.list_names(folders.messages))  # message ids begin with their time
    last = _load(f"{folders.messages}/{names[-1]}") if names else {}
    version = info.get("version")
    turn = None
    if last:
        # The oldest of these versions do not write `finish`.
        message = last if "finish" in last else {**last, "finish": "stop"}
        parts = (
            [part for _, part in _read_parts(look, folders, names[-1])]
            if _may_be_unfinished(last)
            else []
        )
        turn = read_turn(message, parts, look, path, version, is_gone=True)
    return Facts(
        cwd=info.get("directory") or as_dict(last.get("path")).get("cwd"),
        model=read_model(last),
        title=read_title(info.get("title")),
        prompt=read_prompt(part for _, part in _read_parts(look, folders, names[0])) if names else None,
        started_at=clock.parse_ms(times.get("created")),
        last_activity_at=clock.parse_ms(times.get("updated")),
        agent_version=version,
        parent_id=info.get("parentID"),
        turn=turn,
    )


def read_messages(path: str, look: Look) -> Iterator[Message]:
    folders = _find_folders(path, look)
    for name in sorted(look.list_names(folders.messages), reverse=True):
        try:
            message = _load(f"{folders.messages}/{name}")
        except Gone:
            continue
        except SourceError as error:
            look.report_unreadable(error)
            continue
        yield from to_messages(name.removesuffix(".json"), message, _read_parts(look, folders, name))


def _may_be_unfinished(message: Record) -> bool:
    return message.get("finish") not in (None, "stop", "length")


def _find_folders(path: str, look: Look) -> _Folders:
    folder, _, name = path.rpartition("/")
    session_id, above = name.removesuffix(".json"), folder.rpartition("/")[0]
    if folder.endswith("/info") and look.stat(f"{above}/message") is not None:
        return _Folders(f"{above}/message/{session_id}", f"{above}/part/{session_id}")
    storage = above.rpartition("/")[0]
    return _Folders(f"{storage}/message/{session_id}", f"{storage}/part")


def _read_parts(look: Look, folders: _Folders, message: str) -> list[tuple[str, Record]]:
    folder = f"{folders.parts}/{message.removesuffix('.json')}"
    parts = []
    for name in sorted(look.list_names(folder)):
        try:
            parts.append((name.removesuffix(".json"), _load(f"{folder}/{name}")))
        except SourceError as error:
            look.report_unreadable(error)
    return parts


def _load(path: str) -> Record:
    record = jsonl.parse_record(files.read_file(path).data)
    if record is None:
        raise Malformed(path, "not a JSON object")
    return record
