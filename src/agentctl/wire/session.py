"""The wire session: the public, flat form of a session, as a value, as JSON and as JSON text.

Every view renders it. docs/reference/json.md is generated from the tables here. Absent facts are null,
never invented; times are RFC 3339 in UTC.
"""

from __future__ import annotations

import os

from agentctl.errors import Malformed
from agentctl.json_text import encode, quote
from agentctl.light_functools import lru_cache
from agentctl.light_typing import Any, Callable, Iterable, NamedTuple, TypeVar, cast
from agentctl.system.clock import format_rfc3339, parse_time
from agentctl.truth.model import (
    Evidence,
    HookRun,
    Launch,
    Message,
    Problem,
    Session,
    Tokens,
    Worktree,
)

VERSION = 1
Field = tuple[str, str, str]  # name, type, meaning
Fields = tuple[Field, ...]  # of one JSON object, in order

SESSION_FIELDS: Fields = (
    ("id", "string | null", "the agent's own session id; null: a live agent process with no session yet"),
    ("adapter", "string", "which agent: claude-code, codex, opencode, pi, demo, or a third party's"),
    ("status", "string", "running, waiting, idle, stopped or unknown"),
    ("activity", "string", "working, waiting, idle or unknown; unknown while running: alive, and no source says what it does"),
    ("waiting_for", "string | null", "permission, question or startup; null unless waiting"),
    ("outcome", "string | null", "completed, failed, interrupted, killed or unknown; null while it lives"),
    ("suspended", "boolean", "its process is stopped by a signal (Ctrl-Z, SIGSTOP) and does nothing until it is continued"),
    ("exit_code", "integer | null", "exit code, or minus the signal; null: not known"),
    ("reason", "string", "why this status, in one sentence"),
    ("pid", "integer | null", "the live process that runs it"),
    ("started_at", "time | null", "when the session began"),
    ("last_activity_at", "time | null", "when it last wrote something"),
    ("cwd", "string | null", "its directory"),
    ("model", "string | null", "the model that answered last"),
    ("title", "string | null", "set by the user or the agent"),
    ("prompt", "string | null", "the first prompt, at most its first 1000 characters"),
    ("tokens", "object | null", "totals: input, output, cache_read, cache_write, each an integer or null"),
    ("cost_usd", "number | null", "total, if the agent records it"),
    ("transcript", "string | null", "the file or database in which the agent records it"),
    ("entry_point", "string | null", "interactive, headless, background or daemon"),
    ("agent_version", "string | null", "version of the agent that recorded it"),
    ("parent_id", "string | null", "the session that forked or spawned it"),
    ("host", "string", "the machine it is on"),
    ("launch", "object | null", "its launch by agentctl, see below; null: not launched by agentctl, or pruned"),
    ("evidence", "array", "every fact behind the verdict, the deciding ones first"),
)  # fmt: skip
LAUNCH_FIELDS: Fields = (
    ("id", "string", "of the launch; AGENTCTL_LAUNCH_ID in its processes"),
    ("name", "string | null", "set with --name"),
    ("group", "string | null", "set with --group, or made for several slots"),
    ("spec", "string | null", "set with --spec"),
    ("meta", "object", "set with --meta"),
    ("created_at", "time | null", "when it was launched"),
    ("model", "string | null", "the model that was asked for"),
    ("worktree", "object | null", "repository, path, branch, base: the worktree made for it"),
    ("on_complete", "string | null", "the command that runs when it has ended"),
    ("expired_at", "time | null", "when its --timeout was due and ended it"),
    ("hooks", "array", "hooks that ran: hook, command, code (null: took too long), seconds, output"),
)  # fmt: skip
EVIDENCE_FIELDS: Fields = (
    (
        "claim",
        "string",
        "alive, suspended, ended, gone, ambiguous, hidden, working, waiting, idle or exited",
    ),
    ("detail", "string | null", "waiting: what for; idle: how the turn ended"),
    ("authority", "string", "kernel, record, journal or derived, strongest first"),
    ("at", "time | null", "when it became true at the source"),
    ("address", "string", "where to check it: proc:PID@START, a file, or file@offset"),
    ("note", "string | null", "what the source literally says"),
    ("trusted", "boolean", "false: an unknown value, or a record that fails validation"),
    ("decided", "boolean", "whether it decided the verdict"),
)
PROBLEM_FIELDS: Fields = (
    ("adapter", "string", "the adapter whose source it is; empty: not of one adapter"),
    (
        "kind",
        "string",
        "gone, forbidden, exhausted, malformed, unsupported, drift, late, broken or stale",
    ),
    ("message", "string", "what is wrong"),
    ("source", "string", "the file, process or address"),
)
MESSAGE_FIELDS: Fields = (
    ("role", "string", "user, assistant, tool or system"),
    ("at", "time | null", "when it was written"),
    ("tool", "string | null", "the tool that is called, or answers"),
    ("text", "string", "the words"),
)
STOPPED_FIELDS: Fields = (
    ("id", "string | null", "the session; null: a process without a session"),
    ("adapter", "string", "which agent"),
    ("already", "boolean", "it had ended before the stop"),
    ("ended", "integer", "how many processes ended, its own included"),
    ("survivors", "array", "processes of it that are still alive: pid, why, command"),
    (
        "spared",
        "array",
        "processes inside it that were left alone: pid, why, command, terminal (if a person uses it)",
    ),
    ("signals", "array", "signals sent to its own process, in order"),
    ("seconds", "number", "how long the stop took"),
)

HOST = os.uname().nodename
_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str, "boolean": bool, "integer": int, "number": (int, float), "time": str,
    "array": list, "object": dict,
}  # fmt: skip
_T = TypeVar("_T")
_NULL = "null"
_ENDLESS = float("inf")


class WireLaunch(NamedTuple):
    """The public part of a launch note."""

    id: str
    name: str | None
    group: str | None
    spec: str | None
    meta: tuple[tuple[str, str], ...]
    created_at: float | None
    model: str | None
    worktree: Worktree | None
    on_complete: str | None
    expired_at: float | None
    hooks: tuple[HookRun, ...]


class WireSession(NamedTuple):
    """The public, flat form of a session. It has plain values only, so a row of this look, of the daemon
    and of another machine are the same."""

    id: str | None
    adapter: str
    status: str
    activity: str
    waiting_for: str | None
    outcome: str | None
    suspended: bool
    exit_code: int | None
    reason: str
    pid: int | None
    started_at: float | None
    last_activity_at: float | None
    cwd: str | None
    model: str | None
    title: str | None
    prompt: str | None
    tokens: Tokens | None
    cost_usd: float | None
    transcript: str | None
    entry_point: str | None
    agent_version: str | None
    parent_id: str | None
    host: str
    launch: WireLaunch | None
    used: tuple[Evidence, ...]  # the evidence that decided
    overruled: tuple[Evidence, ...]


def wire_session(session: Session) -> WireSession:
    observation, verdict, note = session
    facts, owner = observation.facts, observation.owner
    return WireSession(
        id=observation.session_id,
        adapter=observation.adapter,
        status=verdict.status,
        activity=verdict.activity,
        waiting_for=verdict.waiting_for,
        outcome=verdict.outcome,
        suspended=verdict.suspended,
        exit_code=verdict.exit_code,
        reason=verdict.reason,
        pid=None if owner is None else owner.pid,
        started_at=facts.started_at,
        last_activity_at=facts.last_activity_at,
        cwd=facts.cwd,
        model=facts.model,
        title=facts.title,
        prompt=facts.prompt,
        tokens=facts.tokens,
        cost_usd=facts.cost_usd,
        transcript=observation.transcript,
        entry_point=facts.entry_point,
        agent_version=facts.agent_version,
        parent_id=facts.parent_id,
        host=HOST,
        launch=None if note is None else _wire_launch(note),
        used=verdict.used,
        overruled=verdict.overruled,
    )


def wire_sessions(sessions: Iterable[Session]) -> list[WireSession]:
    return [wire_session(session) for session in sessions]


def _wire_launch(note: Launch) -> WireLaunch:
    return WireLaunch(
        id=note.id,
        name=note.name,
        group=note.group,
        spec=note.spec,
        meta=note.meta,
        created_at=note.created_at,
        model=note.model,
        worktree=note.worktree,
        on_complete=note.on_complete,
        expired_at=note.expired_at,
        hooks=note.hooks,
    )


# to JSON


def dump_sessions(sessions: Iterable[WireSession], problems: Iterable[Problem]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "sessions": [dump_session(each) for each in sessions],
        "problems": [dump_problem(each) for each in problems],
    }


def dump_session(row: WireSession) -> dict[str, Any]:
    """Return the public JSON object. It has the fields of the tuple, in their order."""
    fields = row._asdict()
    used, overruled = fields.pop("used"), fields.pop("overruled")
    fields["started_at"] = format_rfc3339(row.started_at)
    fields["last_activity_at"] = format_rfc3339(row.last_activity_at)
    fields["tokens"] = dump_tokens(row.tokens)
    fields["launch"] = dump_launch(row.launch)
    fields["evidence"] = [
        *(dump_evidence(piece, decided=True) for piece in used),
        *(dump_evidence(piece, decided=False) for piece in overruled),
    ]
    return fields


def dump_evidence(piece: Evidence, *, decided: bool) -> dict[str, Any]:
    return {
        "claim": piece.claim,
        "detail": piece.detail or None,
        "authority": piece.authority,
        "at": format_rfc3339(piece.at),
        "address": piece.address,
        "note": piece.note or None,
        "trusted": piece.trusted,
        "decided": decided,
    }


def dump_tokens(totals: Tokens | None) -> dict[str, int | None] | None:
    return None if totals is None else totals._asdict()


def dump_launch(start: WireLaunch | None) -> dict[str, Any] | None:
    if start is None:
        return None
    return {
        **start._asdict(),
        "meta": dict(start.meta),
        "created_at": format_rfc3339(start.created_at),
        "worktree": start.worktree._asdict() if start.worktree is not None else None,
        "expired_at": format_rfc3339(start.expired_at),
        "hooks": [run._asdict() for run in start.hooks],
    }


def dump_problem(trouble: Problem) -> dict[str, str]:
    return trouble._asdict()


def dump_message(words: Message) -> dict[str, Any]:
    return {"role": words.role, "at": format_rfc3339(words.at), "tool": words.tool, "text": words.text}


# from JSON


def parse_session(row: object) -> WireSession:
    """Read what `session` writes. Raises Malformed."""
    fields = _check(row, SESSION_FIELDS, "session")
    pieces = [_check(piece, EVIDENCE_FIELDS, "evidence") for piece in fields.pop("evidence")]
    totals, start = fields["tokens"], fields["launch"]
    fields["started_at"] = parse_time(fields["started_at"])
    fields["last_activity_at"] = parse_time(fields["last_activity_at"])
    fields["tokens"] = None if totals is None else _build(Tokens, totals, "tokens")
    fields["launch"] = None if start is None else _parse_launch(start)
    fields["used"] = tuple(_parse_evidence(piece) for piece in pieces if piece["decided"])
    fields["overruled"] = tuple(_parse_evidence(piece) for piece in pieces if not piece["decided"])
    return WireSession(**fields)


def _parse_launch(row: object) -> WireLaunch:
    fields = _check(row, LAUNCH_FIELDS, "launch")
    tree = fields["worktree"]
    fields["meta"] = tuple((str(name), str(value)) for name, value in fields["meta"].items())
    fields["created_at"] = parse_time(fields["created_at"])
    fields["expired_at"] = parse_time(fields["expired_at"])
    fields["worktree"] = None if tree is None else _build(Worktree, tree, "worktree")
    fields["hooks"] = tuple(_build(HookRun, run, "hooks") for run in fields["hooks"])
    return WireLaunch(**fields)


def _parse_evidence(fields: dict[str, Any]) -> Evidence:
    return Evidence(
        claim=fields["claim"],
        address=fields["address"],
        authority=fields["authority"],
        at=parse_time(fields["at"]),
        detail=fields["detail"] or "",
        note=fields["note"] or "",
        trusted=fields["trusted"],
    )


def _check(row: object, table: Fields, what: str) -> dict[str, Any]:
    """Return the fields of the table, each of its type. Fields of a newer version are left out."""
    if not isinstance(row, dict):
        raise Malformed(what, "not a JSON object")
    fields: dict[str, Any] = {}
    for name, kind, _ in table:
        value = row.get(name)
        if value is None and kind.endswith("| null"):
            fields[name] = None
            continue
        type_name = kind.partition(" ")[0]
        is_boolean = type_name == "boolean"  # for Python, a bool is an int too
        if not isinstance(value, _KINDS[type_name]) or isinstance(value, bool) != is_boolean:
            raise Malformed(what, f"{name} is not of type {kind}")
        fields[name] = value
    return fields


def _build(kind: Callable[..., _T], row: object, what: str) -> _T:
    try:
        return kind(**cast("dict[str, Any]", row))
    except TypeError as error:
        raise Malformed(what, str(error)) from error


# to JSON text


def session_text(row: WireSession) -> str:
    """Return the same as `json.dumps(session(row))`, in half the time. A list of thousands of sessions
    spends most of its time here. A test compares the two."""
    (
        name, adapter, status, activity, waiting_for, outcome, suspended, exit_code, reason, pid,
        started_at, last_at, cwd, model, title, prompt, totals, cost, transcript, entry, version, parent,
        host, start, used, overruled,
    ) = row  # fmt: skip
    last = _time(last_at)  # often the time of a piece of evidence too
    pieces = [_evidence(piece, "true", last_at, last) for piece in used]
    if overruled:
        pieces += [_evidence(piece, "false", last_at, last) for piece in overruled]
    return (
        f'{{"id": {_NULL if name is None else quote(name)}, '
        f"{_verdict(adapter, status, activity, waiting_for, outcome)}, "
        f'"suspended": {"true" if suspended else "false"}, '
        f'"exit_code": {_NULL if exit_code is None else _number(exit_code)}, '
        f'"reason": {quote(reason)}, '
        f'"pid": {_NULL if pid is None else pid}, '
        f'"started_at": {_time(started_at)}, '
        f'"last_activity_at": {last}, '
        f'"cwd": {_NULL if cwd is None else quote(cwd)}, '
        f'"model": {_NULL if model is None else quote(model)}, '
        f'"title": {_NULL if title is None else quote(title)}, '
        f'"prompt": {_NULL if prompt is None else quote(prompt)}, '
        f'"tokens": {_NULL if totals is None else _tokens(totals)}, '
        f'"cost_usd": {_NULL if cost is None else _number(cost)}, '
        f'"transcript": {_NULL if transcript is None else quote(transcript)}, '
        f"{_origin(entry, version, parent, host)}, "
        f'"launch": {_NULL if start is None else encode(dump_launch(start))}, '
        f'"evidence": [{", ".join(pieces)}]}}'
    )


@lru_cache(256)  # a long list has few different ones
def _verdict(
    adapter: str, status: str, activity: str, waiting_for: str | None, outcome: str | None
) -> str:
    return (
        f'"adapter": {quote(adapter)}, '
        f'"status": {quote(status)}, '
        f'"activity": {quote(activity)}, '
        f'"waiting_for": {_NULL if waiting_for is None else quote(waiting_for)}, '
        f'"outcome": {_NULL if outcome is None else quote(outcome)}'
    )


@lru_cache(256)
def _origin(entry: str | None, version: str | None, parent: str | None, host: str) -> str:
    return (
        f'"entry_point": {_NULL if entry is None else quote(entry)}, '
        f'"agent_version": {_NULL if version is None else quote(version)}, '
        f'"parent_id": {_NULL if parent is None else quote(parent)}, '
        f'"host": {quote(host)}'
    )


def _evidence(piece: Evidence, decided: str, last_at: float | None, last: str) -> str:
    at = piece.at
    if at is None:
        return _timeless(piece, decided)
    return _piece(piece, decided, last if at == last_at else _time(at))


@lru_cache(256)  # thousands of ended sessions have the same piece
def _timeless(piece: Evidence, decided: str) -> str:
    return _piece(piece, decided, _NULL)


def _piece(piece: Evidence, decided: str, at: str) -> str:
    claim, address, authority, _, detail, note, trusted, _ = piece
    return (
        f'{{"claim": {quote(claim)}, '
        f'"detail": {quote(detail) if detail else _NULL}, '
        f'"authority": {quote(authority)}, '
        f'"at": {at}, '
        f'"address": {quote(address)}, '
        f'"note": {quote(note) if note else _NULL}, '
        f'"trusted": {"true" if trusted else "false"}, '
        f'"decided": {decided}}}'
    )


def _tokens(totals: Tokens) -> str:
    input_, output, cache_read, cache_write = totals
    return (
        f'{{"input": {_number(input_)}, "output": {_number(output)}, '
        f'"cache_read": {_number(cache_read)}, "cache_write": {_number(cache_write)}}}'
    )


def _number(value: float | None) -> str:
    if value is None:
        return _NULL
    if type(value) is int or (type(value) is float and -_ENDLESS < value < _ENDLESS):
        return repr(value)
    return encode(value)


def _time(seconds: float | None) -> str:
    moment = format_rfc3339(seconds)
    return _NULL if moment is None else f'"{moment}"'
