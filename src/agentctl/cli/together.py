"""Several slots launched at once: their progress for a person, their sessions for a script. One that
fails does not stop the others, and the exit code says that it did."""

from __future__ import annotations

import argparse
import sys

from agentctl.cli import launching
from agentctl.cli.answer import SAID
from agentctl.cli.slotting import Task
from agentctl.errors import AgentctlError
from agentctl.launch.group import Result, launch_all
from agentctl.text import cut, one_line
from agentctl.truth.model import Session
from agentctl.view import rows
from agentctl.view.progress import Progress

INTERRUPTED = 130  # the exit code of whatever Ctrl-C has ended


def run(state: str, task: Task) -> int:
    shown = Progress([slot.name or "" for slot in task.slots])
    interrupts: list[str] = []

    def news(index: int, result: Result[Session]) -> None:
        shown.tell(index, result.state, _detail(result))

    def interrupted() -> None:
        interrupts.append("Ctrl-C")
        shown.say("interrupted: no more are begun; Ctrl-C again leaves at once")

    try:
        results = launch_all(task.slots, lambda slot: task.start(state, slot), news, interrupted)
    except KeyboardInterrupt:
        told = one_line(f"left; agentctl stop --group {task.group} ends what has started")
        raise KeyboardInterrupt(told) from None
    sessions = [result.got for result in results if result.got is not None]
    failed = [result for result in results if result.got is None]
    for result in failed:
        _complain(result)
    if sessions:
        _point(task.group, interrupted=bool(interrupts))
    if interrupts:
        task.arguments.wait = False
    code = _answer(sessions, failed, task.arguments, told=shown.whole and sys.stdout.isatty())
    return INTERRUPTED if interrupts else code or _worst(failed, all_failed=not sessions)


def _answer(
    sessions: list[Session],
    failed: list[Result[Session]],
    arguments: argparse.Namespace,
    *,
    told: bool,  # the person who reads the answer has seen the ids
) -> int:
    if not arguments.json and not told:
        for session in sessions:
            print(rows.name(session), flush=True)
    failures = [_failure(result) for result in failed]
    return launching.finished(sessions, arguments, {"failures": failures})


def _point(group: str | None, *, interrupted: bool) -> None:
    """To what a person wants next."""
    next_ = f"stop --group {group} ends those that started" if interrupted else f"compare {group}"
    print(one_line(f"group {group}: agentctl {next_}"), file=sys.stderr)


def _detail(result: Result[Session]) -> str:
    if result.got is not None:
        return f"{result.got.seen.session_id}  {result.seconds:.1f} s"
    return str(result.error) if result.error is not None else ""


def _complain(result: Result[Session]) -> None:
    print(one_line(f"agentctl: {result.slot.name}: {_why(result)}"), file=sys.stderr)
    if isinstance(result.error, AgentctlError):
        for line in result.error.said:
            print(f"  | {cut(one_line(line), SAID)}", file=sys.stderr)
        if result.error.hint:
            print(f"  {one_line(result.error.hint)}", file=sys.stderr)


def _failure(result: Result[Session]) -> dict[str, object]:
    slot, error = result.slot, result.error
    said = list(error.said) if isinstance(error, AgentctlError) else []
    return {
        "slot": slot.name,
        "adapter": slot.adapter,
        "model": slot.model,
        "error": _why(result),
        "said": said,
    }


def _why(result: Result[Session]) -> str:
    if result.error is None:
        return "not started: interrupted"
    if isinstance(result.error, AgentctlError):
        return str(result.error)
    return f"{type(result.error).__name__}: {result.error}"


def _worst(failed: list[Result[Session]], *, all_failed: bool) -> int:
    """1: some of them. If none has started, what it was that stopped them."""
    codes = {e.exit_code if isinstance(e, AgentctlError) else 1 for e in (r.error for r in failed)}
    if all_failed and len(codes) == 1:
        return codes.pop()
    return 1 if failed else 0
