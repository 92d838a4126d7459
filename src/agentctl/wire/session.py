"""Session, Problem and the envelope as plain dicts. docs/reference/json.md is generated from the
tables here; absent facts are null, never invented, and times are RFC 3339 UTC."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from agentctl.system.clock import rfc3339
from agentctl.truth.model import Evidence, Launch, Message, Problem, Session, Tokens

VERSION = 1

SESSION_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("id", "string | null", "the agent's own session id; null: a live agent process with no session yet"),
    ("adapter", "string", "which agent: claude-code, codex, opencode, pi, demo, or a third party's"),
    ("status", "string", "running, waiting, idle, stopped or unknown"),
    ("activity", "string", "working, waiting, idle or unknown; unknown while running: alive, and no source tells"),
    ("waiting_for", "string | null", "permission, question or startup; null unless waiting"),
    ("outcome", "string | null", "completed, failed, interrupted, killed or unknown; null while it lives"),
    ("suspended", "boolean", "its process is stopped by a signal (Ctrl-Z, SIGSTOP) and does nothing until it is continued"),
    ("exit_code", "integer | null", "exit code, or minus the signal; null: not known, never 0 for want of knowledge"),
    ("reason", "string", "why this status, in one sentence"),
    ("pid", "integer | null", "the live process that runs it"),
    ("started_at", "time | null", "when the session began"),
    ("last_activity_at", "time | null", "when it last wrote something"),
    ("cwd", "string | null", "its directory"),
    ("model", "string | null", "the model that answered last"),
    ("title", "string | null", "given by the person or the agent"),
    ("prompt", "string | null", "the first prompt, at most its first 1000 characters"),
    ("tokens", "object | null", "totals: input, output, cache_read, cache_write, each an integer or null"),
    ("cost_usd", "number | null", "total, where the agent writes it"),
    ("transcript", "string | null", "the native file or database it is recorded in"),
    ("entry_point", "string | null", "interactive, headless, background or daemon"),
    ("agent_version", "string | null", "version of the agent that wrote it"),
    ("parent_id", "string | null", "the session that forked or spawned it"),
    ("host", "string", "the machine it is on"),
    ("launch", "object | null", "the start that agentctl made, see below; null: not ours, or forgotten"),
    ("evidence", "array", "every fact the verdict was made from, the deciding ones first"),
)  # fmt: skip
LAUNCH_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("id", "string", "of the launch; its processes have it as AGENTCTL_LAUNCH_ID"),
    ("name", "string | null", "given with --name"),
    ("group", "string | null", "given with --group, or made for several slots"),
    ("spec", "string | null", "given with --spec"),
    ("meta", "object", "given with --meta"),
    ("created_at", "time | null", "when it was launched"),
    ("model", "string | null", "the model asked for"),
    ("worktree", "object | null", "repository, path, branch, base: the checkout made for it"),
    ("on_complete", "string | null", "the command to run when it has ended"),
    ("expired_at", "time | null", "when its --timeout was over and it was ended for that"),
    ("hooks", "array", "those that ran: hook, command, code (null: took too long), seconds, output"),
)  # fmt: skip
EVIDENCE_FIELDS: tuple[tuple[str, str, str], ...] = (
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
    ("trusted", "boolean", "false: a word we do not know, or a record that fails validation"),
    ("decided", "boolean", "whether the verdict rests on it"),
)
PROBLEM_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("adapter", "string", "whose source it is; empty: not of one adapter"),
    (
        "kind",
        "string",
        "gone, forbidden, exhausted, malformed, unsupported, drift, late, broken or stale",
    ),
    ("message", "string", "what is wrong"),
    ("source", "string", "where"),
)
MESSAGE_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("role", "string", "user, assistant, tool or system"),
    ("at", "time | null", "when it was said"),
    ("tool", "string | null", "the tool called or answering"),
    ("text", "string", "what was said"),
)
STOPPED_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("id", "string | null", "the session; null: a process that had none"),
    ("adapter", "string", "which agent"),
    ("already", "boolean", "it had ended before anything was done"),
    ("ended", "integer", "how many processes have ended, its own included"),
    ("survivors", "array", "processes of it that could not be ended: pid, why, command"),
    (
        "spared",
        "array",
        "processes inside it that live on: pid, why, command, terminal (if a person uses it)",
    ),
    ("signals", "array", "sent to its own process, in order"),
    ("seconds", "number", "how long that took"),
)

HOST = os.uname().nodename


def envelope(sessions: Iterable[Session], problems: Iterable[Problem]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "sessions": [session(s) for s in sessions],
        "problems": [problem(p) for p in problems],
    }


def session(given: Session) -> dict[str, Any]:
    seen, verdict, facts = given.seen, given.verdict, given.seen.facts
    return {
        "id": seen.session_id,
        "adapter": seen.adapter,
        "status": verdict.status,
        "activity": verdict.activity,
        "waiting_for": verdict.waiting_for,
        "outcome": verdict.outcome,
        "suspended": verdict.suspended,
        "exit_code": verdict.exit_code,
        "reason": verdict.reason,
        "pid": seen.owner.pid if seen.owner is not None else None,
        "started_at": rfc3339(facts.started_at),
        "last_activity_at": rfc3339(facts.last_activity_at),
        "cwd": facts.cwd,
        "model": facts.model,
        "title": facts.title,
        "prompt": facts.prompt,
        "tokens": tokens(facts.tokens),
        "cost_usd": facts.cost_usd,
        "transcript": seen.transcript,
        "entry_point": facts.entry_point,
        "agent_version": facts.agent_version,
        "parent_id": facts.parent_id,
        "host": HOST,
        "launch": launch(given.launch),
        "evidence": [
            *(evidence(e, decided=True) for e in verdict.used),
            *(evidence(e, decided=False) for e in verdict.overruled),
        ],
    }


def evidence(given: Evidence, *, decided: bool) -> dict[str, Any]:
    return {
        "claim": given.claim,
        "detail": given.detail or None,
        "authority": given.authority,
        "at": rfc3339(given.at),
        "address": given.address,
        "note": given.note or None,
        "trusted": given.trusted,
        "decided": decided,
    }


def tokens(given: Tokens | None) -> dict[str, int | None] | None:
    return None if given is None else given._asdict()


def launch(given: Launch | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {
        "id": given.id,
        "name": given.name,
        "group": given.group,
        "spec": given.spec,
        "meta": dict(given.meta),
        "created_at": rfc3339(given.created_at),
        "model": given.model,
        "worktree": given.worktree._asdict() if given.worktree is not None else None,
        "on_complete": given.on_complete,
        "expired_at": rfc3339(given.expired_at),
        "hooks": [run._asdict() for run in given.hooks],
    }


def problem(given: Problem) -> dict[str, str]:
    return given._asdict()


def message(given: Message) -> dict[str, Any]:
    return {"role": given.role, "at": rfc3339(given.at), "tool": given.tool, "text": given.text}
