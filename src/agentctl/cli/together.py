"""Several slots launched at once: their progress for a person, their sessions for a script. One that
fails does not stop the others, and the exit code says that it did."""

from __future__ import annotations

import json
import sys

from agentctl.cli import launching
from agentctl.cli.progress import Progress
from agentctl.cli.slotting import Task
from agentctl.cli.text import one_line
from agentctl.control.group import Result, launch_all
from agentctl.control.slots import Slot
from agentctl.errors import AgentctlError
from agentctl.truth.model import Session
from agentctl.wire import shapes


def run(state: str, task: Task) -> int:
    arguments = task.arguments
    shown = Progress([slot.name or "" for slot in task.slots])

    def news(index: int, result: Result[Session]) -> None:
        shown.tell(index, result.state, _detail(result))

    def start(slot: Slot) -> Session:
        return task.start(state, slot)

    results = launch_all(task.slots, start, news)
    sessions = [result.got for result in results if result.got is not None]
    failed = [result for result in results if result.got is None]
    for result in failed:
        _complain(result)
    if sessions:
        print(f"group {task.group}: agentctl compare {task.group}", file=sys.stderr)
    if arguments.json and not arguments.wait:
        failures = [_failure(result) for result in failed]
        print(json.dumps({**shapes.envelope(sessions, []), "failures": failures}, indent=1))
        code = 0
    else:
        for session in sessions if not arguments.json else ():
            print(session.seen.session_id, flush=True)
        code = launching.finished(sessions, arguments)
    return code or _worst(failed, all_failed=not sessions)


def _detail(result: Result[Session]) -> str:
    if result.got is not None:
        return f"{result.got.seen.session_id}  {result.seconds:.1f} s"
    return str(result.error) if result.error is not None else ""


def _complain(result: Result[Session]) -> None:
    print(f"agentctl: {result.slot.name}: {one_line(_why(result))}", file=sys.stderr)
    if isinstance(result.error, AgentctlError):
        for line in result.error.said:
            print(f"  | {one_line(line)}", file=sys.stderr)
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
