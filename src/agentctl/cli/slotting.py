"""From the words of `launch`, and a matrix file if one is named, to slots: one start each, in a worktree
of its own where there are several."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from agentctl import paths
from agentctl.cli import launching
from agentctl.config import settings as config
from agentctl.errors import AgentctlError, NotFound, UsageError
from agentctl.launch import slots as naming
from agentctl.launch.order import Prepared, Wish, prepared
from agentctl.launch.slots import Slot
from agentctl.launch.start import launch
from agentctl.truth.model import Session, Worktree

# What a matrix file may say and a flag says louder.
FROM_FILE = (
    "cwd", "spec", "name", "group", "on_create", "on_complete", "timeout", "permission_mode",
    "base_branch", "branch",
)  # fmt: skip


class Task(NamedTuple):
    """Everything that one call of `launch` is to start."""

    slots: tuple[Slot, ...]
    arguments: argparse.Namespace
    settings: config.Config
    prompt: str  # for slots that have none of their own
    group: str | None
    repository: str | None  # None: no worktrees

    def wish(self, slot: Slot, tree: Worktree | None) -> Wish:
        adapter = slot.adapter or launching.default_adapter(self.settings)
        asked = launching.wish(adapter, self.arguments, self.settings, self.prompt)
        several = len(self.slots) > 1
        return asked._replace(
            prompt=self.prompt if slot.prompt is None else slot.prompt,
            model=slot.model or asked.model,
            name=_named(asked.name, slot.name) if several else asked.name,
            permission_mode=slot.permission_mode or asked.permission_mode,
            native=(*asked.native, *slot.args),
            environ=(*slot.env, *asked.environ),  # a flag wins: it comes later
            group=self.group,
            worktree=tree,
            cwd=_inside(asked.cwd, tree) if tree is not None else asked.cwd,
        )

    def foreseen(self, slot: Slot) -> Prepared:
        """As it would be started, in a worktree that is not made."""
        if self.repository is None or slot.branch is None:
            return prepared(self.wish(slot, None), os.environ)
        from agentctl.worktrees import worktree

        place = worktree.place(worktree.main_checkout(self.repository), self.settings.worktrees.value)
        tree = worktree.foreseen(self.repository, slot.branch, self.arguments.base_branch, place)
        return prepared(self.wish(slot, tree), os.environ, foreseen=True)

    def start(self, state: str, slot: Slot, tell: Callable[[Session], None] | None = None) -> Session:
        """Raises what `launch` raises; a worktree that was made for nothing goes with it."""
        tree = self._worktree(slot)
        try:
            return launch(state, prepared(self.wish(slot, tree), os.environ).order, tell)
        except BaseException:
            if tree is not None:
                _remove(tree, state)
            raise

    def _worktree(self, slot: Slot) -> Worktree | None:
        if self.repository is None or slot.branch is None:
            return None
        from agentctl.worktrees import worktree

        place = worktree.place(worktree.main_checkout(self.repository), self.settings.worktrees.value)
        base = self.arguments.base_branch
        return worktree.create(self.repository, slot.branch, base, place, self.group)


def task(arguments: argparse.Namespace, settings: config.Config) -> Task:
    """Raises UsageError for words that exclude each other."""
    words = [word for word in arguments.words if word != "-"]
    pairs = [*(("adapter", word) for word in words), *(getattr(arguments, "pairs", None) or ())]
    if arguments.matrix is not None:
        if pairs:
            raise UsageError(
                "--matrix names the agents and models", "leave out ADAPTER, --adapter and --model"
            )
        found = _from_file(arguments)
    else:
        found = naming.slots_of_pairs(pairs) if pairs else (Slot(),)
    found = tuple(_known(slot, settings) for slot in found)
    several = len(found) > 1
    group = settings.defaults.group.over(arguments.group).value or (
        _new_group(arguments) if several else None
    )
    repository = arguments.worktree or (launching.directory(arguments, settings) if several else None)
    if repository is None and (arguments.branch or arguments.base_branch):
        raise UsageError("a branch is for a worktree", "say of which repository: --worktree REPO")
    if repository is not None:
        _check_repository(repository, several=several)
    issue = launching.issue(arguments, settings)
    found = tuple(_with_shared(slot, arguments, issue) for slot in found)
    own = all(slot.prompt is not None for slot in found)
    return Task(
        naming.slots(found, group or os.urandom(3).hex(), arguments.branch),
        arguments,
        settings,
        "" if own else launching.prompt(arguments, issue, stdin="-" in arguments.words),
        group,
        repository,
    )


def _from_file(arguments: argparse.Namespace) -> tuple[Slot, ...]:
    from agentctl.launch import matrix

    plan = matrix.read(arguments.matrix)
    for name in FROM_FILE:
        if getattr(arguments, name) is None:
            setattr(arguments, name, getattr(plan, name))
    arguments.meta = [*plan.meta, *arguments.meta]
    arguments.file = [*plan.files, *arguments.file]
    if arguments.prompt is None and arguments.prompt_file is None and "-" not in arguments.words:
        arguments.prompt, arguments.prompt_file = plan.prompt, plan.prompt_file
    return tuple(slot._replace(env=(*plan.env, *slot.env)) for slot in plan.slots)


def _with_shared(slot: Slot, arguments: argparse.Namespace, issue: str | None) -> Slot:
    """Its own prompt, if it has one, with what all of them get."""
    if slot.prompt is None:
        return slot
    return slot._replace(prompt=launching.prompt(arguments, issue, slot.prompt))


def _known(slot: Slot, settings: config.Config) -> Slot:
    name = slot.adapter or launching.default_adapter(settings)
    if name not in settings.agents:
        known = f"known adapters: {', '.join(settings.agents)}"
        prompt = len(name.split()) > 1
        raise UsageError(f"no adapter named {name!r}", "a prompt follows -p" if prompt else known)
    return slot._replace(adapter=name)


def _check_repository(repository: str, *, several: bool) -> None:
    """Once, before anything is made."""
    from agentctl.worktrees import worktree

    try:
        worktree.main_checkout(repository)
    except NotFound as error:
        why = "several agents need a worktree each; " if several else ""
        raise UsageError(str(error), f"{why}--worktree REPO names the repository") from error


def _new_group(arguments: argparse.Namespace) -> str:
    """A word to type: by the name, if there is one."""
    return f"{naming.plain(arguments.name or 'group')}-{os.urandom(2).hex()}"


def _named(name: str | None, slot: str | None) -> str | None:
    return f"{name}/{slot}" if name and slot else slot or name


def _inside(cwd: str, tree: Worktree) -> str:
    """The same directory in the worktree, unless the branch does not have it."""
    from agentctl.worktrees import git

    try:
        below = os.path.join(tree.path, git.line(cwd, "rev-parse", "--show-prefix")).rstrip("/")
    except AgentctlError:  # --cwd is not of that repository
        return tree.path
    return below if os.path.isdir(below) or not os.path.isdir(tree.path) else tree.path


def _remove(tree: Worktree, state: str) -> None:
    """Unless somebody is in it: one that has no session in time, or whose hook fails, runs on."""
    from agentctl.state import locks
    from agentctl.worktrees import safety, worktree

    with suppress(AgentctlError):  # something is in it by now: it stays, and `worktree list` shows it
        held = locks.held(paths.notes_file(state))
        if not any(safety.within(tree.path, lock.directory) for lock in held):
            worktree.discard(tree)
