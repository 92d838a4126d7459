"""One session as text: all facts, the evidence, how it ended."""

from __future__ import annotations

from agentctl import text
from agentctl.durations import format_age
from agentctl.light_typing import Iterable
from agentctl.system.clock import format_rfc3339
from agentctl.truth.model import Evidence, HookRun, Tokens, Worktree
from agentctl.view import rows
from agentctl.view.table import Screen
from agentctl.wire.session import WireLaunch, WireSession

Fact = tuple[str, str | None]


def status_lines(session: WireSession, screen: Screen) -> list[str]:
    """Return one line for each fact that is known."""
    facts = [(name, value) for name, value in _facts(session, screen) if value]
    titles = [text.paint(text.pad(name, 14), "dim", on=screen.colour) for name, _ in facts]
    return [f"{title}{text.clean_line(value)}" for title, (_, value) in zip(titles, facts, strict=True)]


def why_lines(session: WireSession, screen: Screen) -> list[str]:
    """Return the headline, the evidence that decided, what was overruled, and what is not known."""
    lines = headline(session, screen)
    lines += _evidence("decided by", session.used, screen)
    lines += _evidence("overruled", session.overruled, screen)
    unknown = _unknown(session)
    if unknown:
        lines += ["", text.paint("not known", "dim", on=screen.colour), f"  {', '.join(unknown)}"]
    return lines


def headline(session: WireSession, screen: Screen) -> list[str]:
    status = text.paint(rows.status_word(session), rows.status_colour(session), on=screen.colour)
    return [f"{rows.wire_name(session)}  {session.adapter}  {status}", text.clean_line(session.reason)]


def format_outcome(session: WireSession) -> str:
    """Return `completed, exit code 0`; of a live session its status."""
    if session.status != "stopped":
        return session.status
    is_known = session.outcome not in (None, "unknown")
    parts = [str(session.outcome) if is_known else "outcome unknown"]
    if session.launch is not None and session.launch.expired_at is not None:
        parts.append("timed out")
    code = session.exit_code
    if code is not None:
        parts.append(f"exit code {code}" if code >= 0 else f"signal {-code}")
    return ", ".join(parts)


def format_state(session: WireSession) -> str:
    if session.status == "stopped":
        return f"stopped ({format_outcome(session)})"
    if session.status == "unknown":
        return text.clean_line(f"unknown: {session.reason}")
    return f"{session.status}{f' for {session.waiting_for}' if session.waiting_for else ''}"


def _facts(session: WireSession, screen: Screen) -> list[Fact]:
    home, now = screen.home, screen.now
    cwd, transcript = session.cwd, session.transcript
    cost, code = session.cost_usd, session.exit_code
    return [
        ("id", session.id or "none yet"),
        ("status", _status(session, now)),
        ("because", session.reason),
        ("exit code", str(code) if code is not None else None),
        ("agent", f"{session.adapter} {session.agent_version or ''}".rstrip()),
        ("entry point", session.entry_point),
        ("process", str(session.pid) if session.pid is not None else None),
        ("directory", text.shorten_home(cwd, home) if cwd else None),
        ("model", session.model),
        ("title", session.title),
        ("prompt", session.prompt),
        ("started", _moment(session.started_at, now)),
        ("last activity", _moment(session.last_activity_at, now)),
        ("tokens", _tokens(session.tokens)),
        ("cost", f"${cost:.4f}" if cost is not None else None),
        ("parent", session.parent_id),
        ("transcript", text.shorten_home(transcript, home) if transcript else None),
        *(_launch(session.launch, now) if session.launch is not None else ()),
    ]


def _launch(launch: WireLaunch, now: float) -> list[Fact]:
    worktree, expired = launch.worktree, _moment(launch.expired_at, now)
    return [
        ("launch", launch.id),
        ("name", launch.name),
        ("group", launch.group),
        ("spec", launch.spec),
        ("worktree", _worktree(worktree) if worktree is not None else None),
        *((f"meta {key}", value) for key, value in launch.meta),
        *((run.hook, _hook(run)) for run in launch.hooks),
        ("timeout", f"stopped at {expired}" if expired else None),
    ]


def _worktree(worktree: Worktree) -> str:
    return f"{worktree.path}, branch {worktree.branch} from {worktree.base[:12]}"


def _hook(run: HookRun) -> str:
    """Return how a hook ended. A failure is never hidden."""
    result = "timed out" if run.code is None else "done" if run.code == 0 else "FAILED"
    code = f", exit code {run.code}" if run.code else ""
    return f"{result}{code}, {run.seconds:.1f} s: {run.command} (output: {run.output})"


def _status(session: WireSession, now: float) -> str:
    parts = [session.status]
    if session.outcome:
        parts.append(session.outcome)
    if session.waiting_for:
        parts.append(f"for {session.waiting_for}")
    if session.status == "running" and session.activity == "unknown":
        parts.append("(activity unknown)")
    if session.suspended:
        parts.append("(suspended)")
    moment = rows.status_since(session)
    if moment is not None:
        parts.append(f"· {format_age(now - moment)}")
    return " ".join(parts)


def _moment(seconds: float | None, now: float) -> str | None:
    if seconds is None:
        return None
    return f"{format_rfc3339(seconds)} ({format_age(now - seconds)} ago)"


def _tokens(tokens: Tokens | None) -> str | None:
    if tokens is None:
        return None
    totals = ((name, value) for name, value in tokens._asdict().items() if value is not None)
    return ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in totals)


def _evidence(title: str, evidence: Iterable[Evidence], screen: Screen) -> list[str]:
    lines: list[str] = []
    for piece in evidence:
        claim = f"{piece.claim}: {piece.detail}" if piece.detail else piece.claim
        when = f"{format_age(screen.now - piece.at)} ago" if piece.at is not None else "-"
        doubt = "" if piece.trusted else "  not trusted"
        address = text.clean_line(text.shorten_home(piece.address, screen.home))
        lines.append(f"  {piece.authority:<8} {text.clean_line(claim):<20} {when:<9} {address}{doubt}")
        if piece.note:
            note = text.clean_line(text.shorten_homes(piece.note, screen.home))
            lines.append(text.paint(f"{'':11}{note}", "dim", on=screen.colour))
    return ["", text.paint(title, "dim", on=screen.colour), *lines] if lines else []


def _unknown(session: WireSession) -> list[str]:
    """Return what no source says and the user might ask for next."""
    missing = []
    if session.status == "running" and session.activity == "unknown":
        missing.append("what it is doing")
    if session.status == "stopped" and session.exit_code is None:
        missing.append("exit code")
    if session.status == "stopped" and session.outcome == "unknown":
        missing.append("how it ended")
    absent = (("model", session.model), ("tokens", session.tokens), ("cost", session.cost_usd))
    return missing + [name for name, value in absent if value is None]
