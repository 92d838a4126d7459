"""`agentctl worktree`: list the worktrees of launches, and remove them."""

from __future__ import annotations

import argparse
import json
import os

from agentctl import text
from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_common
from agentctl.light_typing import TYPE_CHECKING, Any
from agentctl.paths import home_directory
from agentctl.sessions import query
from agentctl.view import rows, table
from agentctl.view.table import Cell, Column
from agentctl.wire import session as wire
from agentctl.wire.session import wire_session

if TYPE_CHECKING:
    from agentctl.truth.model import Problem
    from agentctl.worktrees.clean import CleanResult
    from agentctl.worktrees.safety import WorktreeState
    from agentctl.worktrees.worktree import Checkout

EXAMPLES = """\
  agentctl worktree                          worktrees of this repository
  agentctl worktree list ~/shop --json       another repository, for a script
  agentctl worktree clean --merged           keep those that are not merged
  agentctl worktree clean --delete-branch    delete the branches as well
  agentctl worktree clean agentctl/fix/opus  only this one"""
LIST_EXAMPLES = """\
  agentctl worktree list ~/shop              those of this repository
  agentctl worktree list --merged            those that are safe to remove
  agentctl worktree list --group fix --json  for a script"""
CLEAN_EXAMPLES = """\
  agentctl worktree clean --merged           keep those that are not merged
  agentctl worktree clean --delete-branch    delete the branches as well
  agentctl worktree clean agentctl/fix/opus  only this one
  agentctl worktree clean --group fix --dry-run
                                             show what would happen to a group"""
CLEAN_DESCRIPTION = """\
Remove worktrees that agentctl created. Without --delete-branch the branches stay, with all commits.

clean refuses a worktree with files that are not committed, and with --delete-branch one with commits
that no other branch and no remote has; --force overrides both. It never removes a worktree in which a
session runs: stop the session first."""
LAYOUT = (
    Column("BRANCH", 12),
    Column("BASE", 7, goes=3),
    Column("COMMITS", 7, goes=2),
    Column("STATE", 8),
    Column("SESSION", 8, goes=1),
    Column("PATH", 16, goes=4),
)
NONE = "no worktree of ours"


def parser() -> Parser:
    parser = Parser("worktree", "Worktrees that agentctl created for launches.", EXAMPLES, bare="list")
    listing = parser.add_command("list", "list the worktrees of a repository", LIST_EXAMPLES)
    listing.add_argument(
        "names", metavar="DIR", nargs="*", help="a repository (default: that of the current directory)"
    )
    listing.add_argument("--merged", action="store_true", help="only those whose changes are merged")
    clean = parser.add_command("clean", "remove worktrees", CLEAN_EXAMPLES, CLEAN_DESCRIPTION)
    clean.add_argument(
        "names",
        metavar="DIR|BRANCH",
        nargs="*",
        help="a repository, the folder of a worktree, or its branch (default: the repository of the "
        "current directory)",
    )
    clean.add_argument("--merged", action="store_true", help="only those whose changes are merged")
    clean.add_argument("--delete-branch", action="store_true", help="delete the branches, too")
    clean.add_argument("--force", action="store_true", help="even if work is lost")
    clean.add_argument("--dry-run", action="store_true", help="only show what would happen")
    for command in (listing, clean):
        command.add_argument("--group", metavar="G", help="only those of this group")
        add_common(command)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return _list(arguments) if arguments.command == "list" else _clean(arguments)


def _list(arguments: argparse.Namespace) -> int:
    from agentctl.worktrees import clean, safety

    survey = query.survey_sessions(None, (), arguments.deadline)
    checkouts = clean.find_worktrees(arguments.names, arguments.group, only_repositories=True)
    states = [safety.read_state(checkout, survey.sessions) for checkout in checkouts]
    if arguments.merged:
        states = [state for state in states if state.merged]
    if arguments.json:
        _print_json([safety.wire_state(state) for state in states], survey.problems)
        return 0
    if states:
        cells = [_cells(state) for state in states]
        print("\n".join(table.render(LAYOUT, cells, text.terminal_columns(), colour=text.has_colour())))
    else:
        print(NONE)
    answer.show_problems(survey.problems)
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    from agentctl.worktrees import clean, safety

    checkouts = clean.find_worktrees(arguments.names, arguments.group)
    options = clean.CleanOptions(
        merged=arguments.merged,
        delete_branch=arguments.delete_branch,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )
    problems = query.survey_sessions(None, (), arguments.deadline).problems
    results = []
    for result in clean.clean_worktrees(checkouts, options, os.environ, arguments.deadline):
        results.append(result)
        if not arguments.json:
            print(_result_line(result), flush=True)
    if arguments.json:
        _print_json([safety.wire_state(*result) for result in results], problems)
    else:
        if not results:
            print(NONE)
        answer.show_problems(problems)
    return 4 if any(each.result == "refused" for each in results) else 0


def _result_line(result: CleanResult) -> str:
    checkout = result.state.checkout
    branch = checkout.worktree.branch if checkout.worktree else "-"
    path = text.shorten_home(checkout.path, home_directory(os.environ))
    return text.clean_line(f"{result.result}  {branch}  {path}: {result.reason}")


def _cells(state: WorktreeState) -> list[Cell]:
    checkout, created = state.checkout, state.checkout.worktree
    assert created is not None
    branch = created.branch
    if checkout.branch != branch:
        branch = f"{branch} (at {_head_name(checkout)})"
    path = text.shorten_home(checkout.path, home_directory(os.environ))
    return [
        Cell(text.clean_line(branch), "bold", keep_end=True),
        Cell(created.base[:8]),
        Cell("?" if state.ahead is None or state.behind is None else f"+{state.ahead} -{state.behind}"),
        _state_cell(state),
        _session_cell(state),
        Cell(text.clean_line(path), keep_end=True),
    ]


def _head_name(checkout: Checkout) -> str:
    return checkout.branch or (checkout.head or "nothing")[:8]


def _state_cell(state: WorktreeState) -> Cell:
    if not state.there:
        return Cell("folder gone", "red")
    if state.unknown is not None:
        return Cell(text.clean_line(f"unknown: {state.unknown}"), "magenta")
    parts = [f"{state.dirty} uncommitted"] if state.dirty else []
    if state.ahead == 0 and not state.dirty:
        parts.append("unchanged")
    elif state.ahead:
        parts.append("merged" if state.merged else "pushed" if state.pushed else "not merged")
    is_safe = not state.dirty and (state.merged or state.pushed)
    return Cell(", ".join(parts), "green" if is_safe else "yellow")


def _session_cell(state: WorktreeState) -> Cell:
    if not state.sessions:
        return Cell("-", "dim")
    first = state.sessions[0]
    more = f" +{len(state.sessions) - 1}" if len(state.sessions) > 1 else ""
    name = rows.short_ids([rows.session_name(first)])[0]
    colour = rows.COLOURS.get(first.verdict.status, "")
    return Cell(f"{name} {rows.status_word(wire_session(first))}{more}", colour)


def _print_json(worktrees: list[dict[str, Any]], problems: list[Problem]) -> None:
    shape = {
        "version": wire.VERSION,
        "worktrees": worktrees,
        "problems": [wire.dump_problem(problem) for problem in problems],
    }
    print(json.dumps(shape, indent=1))
