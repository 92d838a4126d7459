"""Verbs that act on several sessions: by their ids, or all of a group. One that cannot be found costs
the others nothing."""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

from agentctl.cli.parser import Parser
from agentctl.errors import AgentctlError, UsageError
from agentctl.sessions import query
from agentctl.text import one_line
from agentctl.truth.model import Problem, Session
from agentctl.truth.survey import Survey, Wanted
from agentctl.view import rows


class SeveralParser(Parser):
    """`ID…` or `--group G`; options may stand between the ids."""

    def __init__(self, verb: str, description: str, examples: str) -> None:
        super().__init__(verb, description, examples)
        self.add_argument(
            "id", metavar="ID", nargs="*", help="session ids, any unambiguous prefixes, or pid:N"
        )
        self.add_argument(
            "--group", metavar="G", help="every session of this group, or of the only one that begins so"
        )

    def parse_words(self, words: list[str]) -> argparse.Namespace:
        given = self.parse_intermixed_args(words)
        if bool(given.id) == bool(given.group):
            self.error("which sessions? give ids, or --group")
        return given


class Asked(NamedTuple):
    """One session that was asked for, and all that was found beside it."""

    session: Session
    among: Survey


class Answers:
    """What came of it, for one after the other; the exit code is the worst of all."""

    def __init__(self) -> None:
        self.code = 0
        self.problems: list[Problem] = []

    def failed(self, what: str, error: AgentctlError) -> None:
        """As a verb's own error is told, and the rest goes on."""
        sys.stdout.flush()
        print(f"agentctl: {one_line(f'{what}: {error}')}", file=sys.stderr)
        if error.hint:
            print(f"  {one_line(error.hint)}", file=sys.stderr)
        self.code = max(self.code, error.exit_code)

    def noticed(self, problems: list[Problem]) -> None:
        self.problems += [problem for problem in problems if problem not in self.problems]


def asked(arguments: argparse.Namespace, answers: Answers) -> list[Asked]:
    """Those that are there, each once; the others are told as failed."""
    if arguments.group:
        return _group(arguments.group, arguments.deadline, answers)
    found: dict[object, Asked] = {}
    for text in arguments.id:
        try:
            survey = query.everything(query.chosen(text), (), arguments.deadline)
            answers.noticed(survey.problems)
            session = query.only(survey, text)
        except UsageError:
            raise
        except AgentctlError as error:
            if len(arguments.id) == 1:
                raise
            answers.failed(text, error)
            continue
        found.setdefault((session.seen.adapter, rows.name(session)), Asked(session, survey))
    return list(found.values())


def _group(group: str, deadline: float | None, answers: Answers) -> list[Asked]:
    survey = query.everything(Wanted(), (), deadline)
    answers.noticed(survey.problems)
    by_group: dict[str, list[Session]] = {}
    for session in survey.sessions:
        if session.launch is not None and session.launch.group:
            by_group.setdefault(session.launch.group, []).append(session)
    found = by_group[query.group_named(group, list(by_group))]
    living_first = sorted(found, key=lambda s: s.seen.owner is None)
    return [Asked(session, survey) for session in living_first]


def how_it_ended(session: Session) -> str:
    """`completed, exit code 0`; of a living one, its status."""
    verdict = session.verdict
    if verdict.status != "stopped":
        return verdict.status
    parts = [str(verdict.outcome) if verdict.outcome not in (None, "unknown") else "how is not known"]
    if session.launch is not None and session.launch.expired_at is not None:
        parts.append("its time was over")
    code = verdict.exit_code
    if code is not None:
        parts.append(f"exit code {code}" if code >= 0 else f"signal {-code}")
    return ", ".join(parts)
