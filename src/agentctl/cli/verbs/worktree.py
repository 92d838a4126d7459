"""The worktrees that launches made: what is in each, and away with those that are done with."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from agentctl import paths, text
from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_common
from agentctl.errors import NotFound, SourceError, UsageError
from agentctl.paths import home
from agentctl.sessions import query
from agentctl.view import rows, table
from agentctl.view.table import Cell, Column

if TYPE_CHECKING:
    from agentctl.state.locks import Lock
    from agentctl.truth.survey import Survey
    from agentctl.worktrees.safety import Standing
    from agentctl.worktrees.worktree import Checkout

ACTIONS = ("list", "clean")
EXAMPLES = """\
  agentctl worktree                          this repository's, and who is there
  agentctl worktree list ~/shop --json       another repository's, for a script
  agentctl worktree clean --merged           what is merged goes, branches stay
  agentctl worktree clean --delete-branch    branches go as well
  agentctl worktree clean agentctl/fix/opus  only this one
  agentctl worktree clean --group fix --dry-run
                                             what would happen to a group's"""
DESCRIPTION = """\
Worktrees that agentctl made: list them, or remove them (clean).

clean refuses, one by one, where files are not committed, and with --delete-branch where commits are
in no other branch and on no remote; --force overrides both. A worktree in which a session runs is
never removed: stop the session first. Without --delete-branch the branch stays, and so does all that
is committed."""
LAYOUT = (
    Column("BRANCH", 12),
    Column("BASE", 7, goes=3),
    Column("COMMITS", 7, goes=2),
    Column("STATE", 8),
    Column("SESSION", 8, goes=1),
    Column("PATH", 16, goes=4),
)


class Done(NamedTuple):
    found: Standing
    result: str  # removed, refused, kept, would remove
    reason: str


def parser() -> argparse.ArgumentParser:
    made = Parser("worktree", DESCRIPTION, EXAMPLES)
    made.add_argument(
        "action", metavar="ACTION", nargs="?", default="list", help="list (default) or clean"
    )
    made.add_argument(
        "names",
        metavar="DIR|BRANCH",
        nargs="*",
        help="a repository, or for clean also a branch or a worktree's folder (default: the repository "
        "of the current directory)",
    )
    made.add_argument("--group", metavar="G", help="only those of this group")
    made.add_argument("--merged", action="store_true", help="only those whose changes are merged")
    made.add_argument("--delete-branch", action="store_true", help="clean: the branch goes, too")
    made.add_argument("--force", action="store_true", help="clean: even if work is lost")
    made.add_argument("--dry-run", action="store_true", help="clean: only say what would happen")
    add_common(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    if arguments.action not in ACTIONS:
        raise UsageError(f"no action {arguments.action!r}", f"known: {', '.join(ACTIONS)}")
    if arguments.action == "list" and (arguments.delete_branch or arguments.force or arguments.dry_run):
        raise UsageError("list removes nothing", "agentctl worktree clean does")
    survey = query.everything(None, (), arguments.deadline)
    found = [s for c in _chosen(arguments) if _wanted(s := _standing(c, survey), arguments)]
    if arguments.action == "list":
        return _show(found, survey, arguments)
    return _clean(found, survey, arguments)


def _chosen(arguments: argparse.Namespace) -> list[Checkout]:
    """Each name is a repository, or one of our worktrees by folder or by branch."""
    from agentctl.worktrees import worktree

    if not arguments.names:
        return worktree.ours(os.getcwd())
    found: dict[str, Checkout] = {}
    for name in arguments.names:
        for checkout in _named(name, only_repositories=arguments.action == "list"):
            found[checkout.path] = checkout
    return list(found.values())


def _named(name: str, *, only_repositories: bool) -> list[Checkout]:
    from agentctl.worktrees import worktree

    if os.path.isdir(name):
        known = worktree.ours(name)
        itself = [c for c in known if os.path.realpath(name) == os.path.realpath(c.path)]
        return itself if itself and not only_repositories else known
    if only_repositories:
        raise NotFound(f"not a directory: {name}", "name a repository")
    matching = [
        c for c in worktree.ours(os.getcwd()) if c.made and name in (c.made.branch, c.branch, c.path)
    ]
    if not matching:
        raise NotFound(f"no worktree of ours for {name!r}", "agentctl worktree list shows them")
    return matching


def _standing(checkout: Checkout, survey: Survey) -> Standing:
    from agentctl.worktrees.safety import standing

    return standing(checkout, survey.sessions)


def _wanted(found: Standing, arguments: argparse.Namespace) -> bool:
    if arguments.group and found.checkout.group != arguments.group:
        return False
    return not (arguments.merged and arguments.action == "list") or found.merged is True


def _show(found: list[Standing], survey: Survey, arguments: argparse.Namespace) -> int:
    if arguments.json:
        _print_json([Done(standing, "", "") for standing in found], survey)
        return 0
    if not found:
        print("no worktree of ours")
    else:
        cells = [_row(standing) for standing in found]
        print("\n".join(table.render(LAYOUT, cells, text.columns(), colour=text.coloured())))
    answer.show_problems(survey.problems)
    return 0


def _row(found: Standing) -> list[Cell]:
    checkout, made = found.checkout, found.checkout.made
    assert made is not None
    branch = made.branch if checkout.branch == made.branch else f"{made.branch} (at {_place(checkout)})"
    return [
        Cell(text.one_line(branch), "bold", keep_end=True),
        Cell(made.base[:8]),
        Cell(_commits(found)),
        _state(found),
        _sessions(found),
        Cell(text.one_line(text.tilde(checkout.path, home(os.environ))), keep_end=True),
    ]


def _place(checkout: Checkout) -> str:
    return checkout.branch or (checkout.head or "nothing")[:8]


def _commits(found: Standing) -> str:
    if found.ahead is None or found.behind is None:
        return "?"
    return f"+{found.ahead} -{found.behind}"


def _state(found: Standing) -> Cell:
    if not found.there:
        return Cell("folder gone", "red")
    if found.unknown is not None:
        return Cell(text.one_line(f"unknown: {found.unknown}"), "magenta")
    parts = [f"{found.dirty} uncommitted"] if found.dirty else []
    if found.ahead == 0 and not found.dirty:
        parts.append("unchanged")
    elif found.ahead:
        parts.append("merged" if found.merged else "pushed" if found.pushed else "not merged")
    safe = not found.dirty and (found.merged or found.pushed)
    return Cell(", ".join(parts), "green" if safe else "yellow")


def _sessions(found: Standing) -> Cell:
    if not found.sessions:
        return Cell("-", "dim")
    first = found.sessions[0]
    more = f" +{len(found.sessions) - 1}" if len(found.sessions) > 1 else ""
    short = rows.short_ids([rows.name(first)])[0]
    return Cell(f"{short} {rows.word(first)}{more}", rows.COLOURS.get(first.verdict.status, ""))


def _clean(found: list[Standing], survey: Survey, arguments: argparse.Namespace) -> int:
    done = []
    for standing in found:
        one = _cleaned(standing, arguments)
        done.append(one)
        if not arguments.json:
            branch = standing.checkout.made.branch if standing.checkout.made else "-"
            place = text.tilde(standing.checkout.path, home(os.environ))
            print(text.one_line(f"{one.result}  {branch}  {place}: {one.reason}"))
    if arguments.json:
        _print_json(done, survey)
    elif not done:
        print("no worktree of ours")
    if not arguments.json:
        answer.show_problems(survey.problems)
    return 4 if any(one.result == "refused" for one in done) else 0


def _cleaned(found: Standing, arguments: argparse.Namespace) -> Done:
    """Asked anew for each: what was deleted before counts, and somebody may have started to work."""
    from agentctl.worktrees import safety, worktree

    locks = _locks()
    fresh = _standing(found.checkout, query.everything(None, (), arguments.deadline))
    taken = safety.in_use(fresh, locks)
    if taken is not None:
        return Done(fresh, "refused", taken)
    if arguments.merged and not fresh.merged:
        return Done(fresh, "kept", fresh.unknown or "not merged")
    risk = safety.at_risk(fresh, locks, delete_branch=arguments.delete_branch)
    if risk is not None and not arguments.force:
        return Done(fresh, "refused", f"{risk} (--force removes it all the same)")
    named = safety.branches(fresh.checkout)
    gone = f"branch {', '.join(named)} " if named else "no branch "
    reason = gone + ("deleted" if arguments.delete_branch else "kept")
    if arguments.dry_run:
        return Done(fresh, "would remove", reason)
    try:
        worktree.remove(fresh.checkout, force=arguments.force)
        for branch in named if arguments.delete_branch else ():
            worktree.delete_branch(fresh.checkout.repository, branch, whosever=True)
    except SourceError as error:
        return Done(fresh, "refused", f"git: {error.why}")
    return Done(fresh, "removed", reason)


def _locks() -> list[Lock]:
    state = paths.state_directory(os.environ)
    if state is None:
        return []
    from agentctl.state import locks

    return locks.held(paths.notes_file(state))


def _print_json(done: list[Done], survey: Survey) -> None:
    from agentctl.wire import session

    shape = {
        "version": session.VERSION,
        "worktrees": [_shape(one) for one in done],
        "problems": [session.problem(problem) for problem in survey.problems],
    }
    print(json.dumps(shape, indent=1))


def _shape(one: Done) -> dict[str, object]:
    from agentctl.wire import worktree as worktrees

    found, checkout = one.found, one.found.checkout
    assert checkout.made is not None
    names = ("there", "ahead", "behind", "dirty", "merged", "pushed", "unknown")
    return worktrees.worktree(
        checkout.made,
        branch=checkout.branch,
        group=checkout.group,
        state={name: getattr(found, name) for name in names},
        sessions=found.sessions,
        result=one.result or None,
        reason=one.reason or None,
    )
