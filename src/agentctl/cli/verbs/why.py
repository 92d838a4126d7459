"""The evidence behind a status: who decided, what was overruled, what nobody knows."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from agentctl import text
from agentctl.cli import answer as ask
from agentctl.cli.answer import Answer, Asker, Screen, here, show
from agentctl.cli.parser import Parser, add_no_daemon, add_session
from agentctl.truth.model import Evidence, Session
from agentctl.view import rows

EXAMPLES = """\
  agentctl why 4f2a            how we know
  agentctl why pid:4711        of a process that has no session yet
  agentctl why 4f2a --json     every piece with its address, for a script"""


def parser() -> Parser:
    made = Parser(
        "why", "The evidence behind a session's status, each piece with its address.", EXAMPLES
    )
    add_session(made)
    add_no_daemon(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    return show(answer(arguments, here()))


def answer(arguments: argparse.Namespace, asker: Asker) -> Answer:
    return ask.about_one(arguments, asker, lines)


def lines(session: Session, screen: Screen) -> list[str]:
    verdict, on = session.verdict, screen.colour
    status = rows.word(session)
    colour = rows.COLOURS.get(status) or rows.COLOURS.get(verdict.status, "")
    head = f"{rows.name(session)}  {session.seen.adapter}  {text.paint(status, colour, on=on)}"
    shown = [head, text.one_line(verdict.reason)]
    shown += _section("decided by", verdict.used, screen)
    shown += _section("overruled", verdict.overruled, screen)
    unknown = _unknown(session)
    if unknown:
        shown += ["", text.paint("not known", "dim", on=on), f"  {', '.join(unknown)}"]
    return shown


def _section(title: str, evidence: Iterable[Evidence], screen: Screen) -> list[str]:
    found, on, base = list(evidence), screen.colour, screen.home
    if not found:
        return []
    shown = ["", text.paint(title, "dim", on=on)]
    for piece in found:
        said = f"{piece.claim}: {piece.detail}" if piece.detail else piece.claim
        when = f"{text.age(screen.now - piece.at)} ago" if piece.at is not None else "-"
        doubt = "" if piece.trusted else "  not trusted"
        place = text.one_line(text.tilde(piece.address, base))
        shown.append(f"  {piece.authority:<8} {text.one_line(said):<20} {when:<9} {place}{doubt}")
        if piece.note:
            note = text.one_line(text.tildes(piece.note, base))
            shown.append(text.paint(f"{'':11}{note}", "dim", on=on))
    return shown


def _unknown(session: Session) -> list[str]:
    """What a person might ask next and no source tells."""
    verdict, facts = session.verdict, session.seen.facts
    missing = []
    if verdict.status == "running" and verdict.activity == "unknown":
        missing.append("what it is doing")
    if verdict.status == "stopped" and verdict.exit_code is None:
        missing.append("exit code")
    if verdict.status == "stopped" and verdict.outcome == "unknown":
        missing.append("how it ended")
    absent = (("model", facts.model), ("tokens", facts.tokens), ("cost", facts.cost_usd))
    return missing + [name for name, value in absent if value is None]
