"""History that OpenCode before 1.2 left as JSON files, in two layouts:

storage/session/PROJECT/ses_….json         message/SESSION/msg_….json    part/MESSAGE/prt_….json
project/SLUG/storage/session/info/ses_….json   message/SESSION/…         part/SESSION/MESSAGE/…

Read only, and only for sessions that no database has: later versions copied them and left the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentctl.adapters.opencode.messages import (
    model_of,
    prompt_of,
    said_in,
    title_of,
    turn_of,
)
from agentctl.errors import Gone, Malformed, SourceError
from agentctl.system import clock, files, jsonl
from agentctl.system.jsonl import Record, as_dict
from agentctl.truth.look import Look
from agentctl.truth.model import Facts, Message, Observation
from agentctl.truth.observe import ended
from agentctl.truth.survey import Wanted


class _Folders(NamedTuple):
    messages: str  # of one session
    parts: str  # of all its messages


def sessions(look: Look, data: str) -> Iterator[tuple[str, str]]:
    """(id, path) of every session below a data directory."""
    folders = [f"{data}/storage/session/{project}" for project in look.names(f"{data}/storage/session")]
    folders += [f"{data}/project/{slug}/storage/session/info" for slug in look.names(f"{data}/project")]
    for folder in folders:
        for name in look.names(folder):
            session_id, dot, _ = name.rpartition(".json")
            if dot:
                yield session_id, f"{folder}/{name}"


def history(look: Look, data: str, known: frozenset[str], wanted: Wanted) -> Iterator[Observation]:
    for session_id, path in sessions(look, data):
        if session_id not in known and session_id.startswith(wanted.id_prefix):
            yield from ended(look, session_id, path, read, wanted)


def read(path: str, look: Look) -> Facts:
    info = _record(path)
    times = as_dict(info.get("time"))
    folders = _folders(path, look)
    names = sorted(look.names(folders.messages))  # message ids begin with their time
    last = _record(f"{folders.messages}/{names[-1]}") if names else {}
    version = info.get("version")
    turn = None
    if last:
        # `finish` was not written yet by the oldest of these versions
        told = last if "finish" in last else {**last, "finish": "stop"}
        parts = [part for _, part in _parts(look, folders, names[-1])] if _open_ended(last) else []
        turn = turn_of(told, parts, look, path, version, gone=True)
    return Facts(
        cwd=info.get("directory") or as_dict(last.get("path")).get("cwd"),
        model=model_of(last),
        title=title_of(info.get("title")),
        prompt=prompt_of(part for _, part in _parts(look, folders, names[0])) if names else None,
        started_at=clock.from_ms(times.get("created")),
        last_activity_at=clock.from_ms(times.get("updated")),
        agent_version=version,
        parent_id=info.get("parentID"),
        turn=turn,
    )


def messages(path: str, look: Look) -> Iterator[Message]:
    folders = _folders(path, look)
    for name in sorted(look.names(folders.messages), reverse=True):
        try:
            message = _record(f"{folders.messages}/{name}")
        except Gone:
            continue
        except SourceError as error:
            look.unreadable(error)
            continue
        yield from said_in(name.removesuffix(".json"), message, _parts(look, folders, name))


def _open_ended(message: Record) -> bool:
    return message.get("finish") not in (None, "stop", "length")


def _folders(path: str, look: Look) -> _Folders:
    folder, _, name = path.rpartition("/")
    session_id, above = name.removesuffix(".json"), folder.rpartition("/")[0]
    if folder.endswith("/info") and look.status(f"{above}/message") is not None:
        return _Folders(f"{above}/message/{session_id}", f"{above}/part/{session_id}")
    storage = above.rpartition("/")[0]
    return _Folders(f"{storage}/message/{session_id}", f"{storage}/part")


def _parts(look: Look, folders: _Folders, message: str) -> list[tuple[str, Record]]:
    folder = f"{folders.parts}/{message.removesuffix('.json')}"
    found = []
    for name in sorted(look.names(folder)):
        try:
            found.append((name.removesuffix(".json"), _record(f"{folder}/{name}")))
        except SourceError as error:
            look.unreadable(error)
    return found


def _record(path: str) -> Record:
    record = jsonl.parse(files.whole(path).data)
    if record is None:
        raise Malformed(path, "not a JSON object")
    return record
