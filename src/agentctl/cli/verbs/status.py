"""All facts of one session."""

from __future__ import annotations

import argparse

from agentctl import text
from agentctl.cli import answer as ask
from agentctl.cli.answer import Answer, Asker, Screen, here, show
from agentctl.cli.parser import Parser, add_no_daemon, add_session
from agentctl.system.clock import rfc3339
from agentctl.truth.model import HookRun, Launch, Session, Tokens
from agentctl.view import rows

EXAMPLES = """\
  agentctl status 4f2a          any unambiguous prefix of an id
  agentctl status pid:4711      a process that has no session yet
  agentctl status 4f2a --json   for a script"""


def parser() -> Parser:
    made = Parser("status", "All facts of one session.", EXAMPLES)
    add_session(made)
    add_no_daemon(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    return show(answer(arguments, here()))


def answer(arguments: argparse.Namespace, asker: Asker) -> Answer:
    return ask.about_one(arguments, asker, lines)


def lines(session: Session, screen: Screen) -> list[str]:
    known = [(name, value) for name, value in _facts(session, screen) if value]
    titles = [text.paint(text.pad(name, 14), "dim", on=screen.colour) for name, _ in known]
    return [f"{title}{text.one_line(v)}" for title, (_, v) in zip(titles, known, strict=True)]


def _facts(session: Session, screen: Screen) -> list[tuple[str, str | None]]:
    seen, verdict, facts = session.seen, session.verdict, session.seen.facts
    place, now, note = screen.home, screen.now, session.launch
    return [
        ("id", seen.session_id or "none yet"),
        ("status", _status(session, now)),
        ("because", verdict.reason),
        ("exit code", str(verdict.exit_code) if verdict.exit_code is not None else None),
        ("agent", f"{seen.adapter} {facts.agent_version or ''}".rstrip()),
        ("entry point", facts.entry_point),
        ("process", str(seen.owner.pid) if seen.owner is not None else None),
        ("directory", text.tilde(facts.cwd, place) if facts.cwd else None),
        ("model", facts.model),
        ("title", facts.title),
        ("prompt", facts.prompt),
        ("started", _moment(facts.started_at, now)),
        ("last activity", _moment(facts.last_activity_at, now)),
        ("tokens", _tokens(facts.tokens)),
        ("cost", f"${facts.cost_usd:.4f}" if facts.cost_usd is not None else None),
        ("parent", facts.parent_id),
        ("transcript", text.tilde(seen.transcript, place) if seen.transcript else None),
        *(_launch(note, now) if note is not None else ()),
    ]


def _launch(note: Launch, now: float) -> list[tuple[str, str | None]]:
    tree = note.worktree
    return [
        ("launch", note.id),
        ("name", note.name),
        ("group", note.group),
        ("spec", note.spec),
        ("worktree", f"{tree.path}, branch {tree.branch} from {tree.base[:12]}" if tree else None),
        *((f"meta {key}", value) for key, value in note.meta),
        *((run.hook, _hook(run)) for run in note.hooks),
        (
            "timeout",
            f"stopped at {_moment(note.expired_at, now)}" if note.expired_at is not None else None,
        ),
    ]


def _hook(run: HookRun) -> str:
    """A hook's failure is never hidden."""
    how = "ended for taking too long" if run.code is None else "done" if run.code == 0 else "FAILED"
    code = f", exit code {run.code}" if run.code else ""
    return f"{how}{code}, {run.seconds:.1f} s: {run.command} (said: {run.output})"


def _status(session: Session, now: float) -> str:
    verdict = session.verdict
    parts: list[str] = [verdict.status]
    if verdict.outcome:
        parts.append(verdict.outcome)
    if verdict.waiting_for:
        parts.append(f"for {verdict.waiting_for}")
    if verdict.status == "running" and verdict.activity == "unknown":
        parts.append("(activity unknown)")
    if verdict.suspended:
        parts.append("(suspended)")
    moment = rows.since(session)
    if moment is not None:
        parts.append(f"· {text.age(now - moment)}")
    return " ".join(parts)


def _moment(seconds: float | None, now: float) -> str | None:
    if seconds is None:
        return None
    return f"{rfc3339(seconds)} ({text.age(now - seconds)} ago)"


def _tokens(tokens: Tokens | None) -> str | None:
    if tokens is None:
        return None
    named = (
        f"{name.replace('_', ' ')} {value:,}"
        for name, value in tokens._asdict().items()
        if value is not None
    )
    return ", ".join(named)
