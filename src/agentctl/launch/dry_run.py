"""Describe what a launch would do, exactly, without doing it: `--dry-run`."""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.launch.order import Order, prepare_order
from agentctl.launch.plan import LaunchPlan, build_request
from agentctl.launch.slots import Slot
from agentctl.light_typing import Any, Mapping

Description = Mapping[str, Any]


def describe_plan(plan: LaunchPlan) -> list[Description]:
    """Return the JSON objects of the slots. Raises what `start_slot` raises before it starts."""
    return [describe_order(_preview(plan, slot)) for slot in plan.slots]


def describe_order(order: Order) -> Description:
    """Return the JSON object of one start. Of the environment, only what is added is shown: the caller's
    own variables hold secrets."""
    command, request = order.command, order.request
    return {
        "adapter": request.adapter,
        "command": list(command.argv),
        "cwd": command.cwd,
        "stdin_bytes": len(command.stdin),
        "environment": {"set": _added_variables(order), "unset": list(order.removed)},
        "session_id": command.session_id or command.expected_id,
        "lock": command.cwd,
        "lock_held_by": _lock_holder(order),
        "worktree": request.worktree._asdict() if request.worktree is not None else None,
        "on_create": request.on_create,
        "on_complete": request.on_complete,
        "timeout_s": request.timeout,
    }


def _preview(plan: LaunchPlan, slot: Slot) -> Order:
    """Return the start of a slot, in a worktree that is not created."""
    if plan.repository is None or slot.branch is None:
        return prepare_order(build_request(plan, slot, None), os.environ)
    from agentctl.worktrees import worktree

    place = worktree.choose_directory(
        worktree.find_main_checkout(plan.repository), plan.settings.worktrees.directory.value
    )
    tree = worktree.preview_worktree(plan.repository, slot.branch, plan.spec.base_branch, place)
    return prepare_order(build_request(plan, slot, tree), os.environ, dry_run=True)


def _added_variables(order: Order) -> dict[str, str]:
    """Hide a value that the adapter only extends: it may hold the caller's keys."""
    extended = {name for name, _ in order.command.override if name in os.environ}
    return {name: "(yours, added to)" if name in extended else value for name, value in order.added}


def _lock_holder(order: Order) -> str | None:
    """Return why the launch would be refused; None: the directory is free."""
    from agentctl.state import locks

    state = paths.state_directory(os.environ)
    if state is None:
        return None
    holders = locks.find_holders(paths.database_file(state), order.command.cwd)
    if not holders:
        return None
    return str(locks.make_refusal(holders[0])) + (" (--force: beside it)" if order.request.force else "")
