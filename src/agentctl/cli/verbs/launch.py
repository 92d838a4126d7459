"""Start an agent, or a group of agents, and print the ids of their sessions."""

from __future__ import annotations

import argparse
import os
import sys

from agentctl import paths
from agentctl.cli import launch_answer, launch_options
from agentctl.cli.parser import Parser
from agentctl.cli.runner import OUTPUT_COLUMNS
from agentctl.config import settings as config
from agentctl.errors import AgentctlError
from agentctl.launch.plan import LaunchPlan, plan_launch
from agentctl.launch.start import start_slot
from agentctl.light_typing import TYPE_CHECKING
from agentctl.text import clean_line, cut
from agentctl.truth.model import Session
from agentctl.view import rows

if TYPE_CHECKING:
    from agentctl.launch.group import Result

INTERRUPTED = 130  # the exit code of a command that Ctrl-C ended
EXAMPLES = """\
  agentctl launch claude-code -p "fix the flaky test"
  agentctl launch codex --prompt-file task.md --cwd ~/shop --wait
  git diff | agentctl launch pi -                  prompt from standard input
  agentctl launch codex -p "…" --dry-run           what would be run, and how
  agentctl launch opencode -p "…" -- --agent plan  words for the agent itself
  agentctl launch --adapter claude-code --adapter codex --worktree . -p "…"
                                                   one task, side by side
  agentctl launch --matrix tasks.yaml              slots from a file"""


def parser() -> Parser:
    parser = Parser(
        "launch", "Start an agent, detached, and print its session's id.", EXAMPLES, takes_native=True
    )
    parser.add_argument(
        "words", nargs="*", metavar="ADAPTER", help="which agent; - reads the prompt from standard input"
    )
    launch_options.add_prompt_options(parser)
    launch_options.add_slot_options(parser)
    launch_options.add_agent_options(parser)
    launch_options.add_run_options(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    settings = config.load(os.environ)
    state = paths.require_state_directory(os.environ)
    plan = plan_launch(launch_options.read_launch_spec(arguments), settings)
    if arguments.dry_run:
        from agentctl.launch.dry_run import describe_plan

        launch_answer.print_dry_run(describe_plan(plan), as_json=arguments.json)
        return 0
    launch_answer.ensure_delivery(state, settings)
    if len(plan.slots) > 1:
        code = _launch_several(state, plan, arguments)
    else:
        on_session = launch_answer.id_printer(arguments)
        session = start_slot(state, plan, plan.slots[0], on_session)
        code = launch_answer.finish_answer([session], arguments)
    from agentctl.launch.prune import prune_briefly  # after the id is printed: it imports much

    prune_briefly(state, settings.launches.ttl.value)  # the ids are printed: no user waits for this
    return code


def _launch_several(state: str, plan: LaunchPlan, arguments: argparse.Namespace) -> int:
    """Start the slots with their progress on standard error. Return the exit code."""
    from agentctl.launch import group
    from agentctl.view.progress import Progress

    progress = Progress([slot.name or "" for slot in plan.slots])
    interrupted = False

    def on_change(index: int, result: Result[Session]) -> None:
        progress.update(index, result.state, _detail(result))

    def on_interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        progress.show_note("interrupted: no more are started; Ctrl-C again leaves at once")

    try:
        results = group.start_slots(state, plan, on_change, on_interrupt)
    except KeyboardInterrupt:
        message = clean_line(f"interrupted; agentctl stop --group {plan.group} ends what has started")
        raise KeyboardInterrupt(message) from None
    sessions = [result.value for result in results if result.value is not None]
    failures = [result for result in results if result.value is None]
    for failure in failures:
        _print_failure(failure)
    if sessions:
        _print_next_step(plan.group, interrupted=interrupted)
    if interrupted:
        arguments.wait = False
    if not arguments.json and not (progress.is_complete and sys.stdout.isatty()):
        for session in sessions:
            print(rows.session_name(session), flush=True)
    extra = {"failures": [group.describe_failure(failure) for failure in failures]}
    code = launch_answer.finish_answer(sessions, arguments, extra)
    return INTERRUPTED if interrupted else code or _exit_code(failures, all_failed=not sessions)


def _print_next_step(name: str | None, *, interrupted: bool) -> None:
    command = f"stop --group {name} ends those that started" if interrupted else f"compare {name}"
    print(clean_line(f"group {name}: agentctl {command}"), file=sys.stderr)


def _detail(result: Result[Session]) -> str:
    if result.value is not None:
        return f"{result.value.observation.session_id}  {result.seconds:.1f} s"
    return str(result.error) if result.error is not None else ""


def _print_failure(result: Result[Session]) -> None:
    print(clean_line(f"agentctl: {result.slot.name}: {result.reason}"), file=sys.stderr)
    if isinstance(result.error, AgentctlError):
        for line in result.error.output:
            print(f"  | {cut(clean_line(line), OUTPUT_COLUMNS)}", file=sys.stderr)
        if result.error.hint:
            print(f"  {clean_line(result.error.hint)}", file=sys.stderr)


def _exit_code(failures: list[Result[Session]], *, all_failed: bool) -> int:
    """Return 1 if some slots failed. If all failed for one reason, return the code of that reason."""
    errors = [result.error for result in failures]
    codes = {error.exit_code if isinstance(error, AgentctlError) else 1 for error in errors}
    if all_failed and len(codes) == 1:
        return codes.pop()
    return 1 if failures else 0
