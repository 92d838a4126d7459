"""Start an agent, or a group of them, and print the sessions' own ids."""

from __future__ import annotations

import argparse
import os

from agentctl.cli import foreseen, launching, slotting
from agentctl.cli.parser import Parser
from agentctl.config import settings as config
from agentctl.launch.prompt import MAX_FILE, size

EXAMPLES = """\
  agentctl launch claude-code -p "fix the flaky test"
  agentctl launch codex --prompt-file task.md --cwd ~/shop --wait
  git diff | agentctl launch pi -                  prompt from standard input
  agentctl launch codex -p "…" --dry-run           what would be run, and how
  agentctl launch opencode -p "…" -- --agent plan  words for the agent itself
  agentctl launch --adapter claude-code --adapter codex --worktree . -p "…"
                                                   one task, side by side
  agentctl launch --matrix tasks.yaml              as a file says"""


def parser() -> Parser:
    made = Parser(
        "launch", "Start an agent, detached, and print its session's id.", EXAMPLES, takes_native=True
    )
    made.add_argument(
        "words", nargs="*", metavar="ADAPTER", help="which agent; - reads the prompt from standard input"
    )
    _add_prompt(made)
    _add_slots(made)
    launching.add_agent(made)
    launching.add_launch(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    settings = config.load(os.environ)
    state = launching.state_directory()
    task = slotting.task(arguments, settings)
    if arguments.dry_run:
        told = [foreseen.described(task.foreseen(slot)) for slot in task.slots]
        foreseen.show(told, as_json=arguments.json)
        return 0
    launching.herald(state, settings)
    if len(task.slots) > 1:
        from agentctl.cli import together

        code = together.run(state, task)
    else:
        session = task.start(state, task.slots[0], launching.teller(arguments))
        code = launching.finished([session], arguments)
    launching.tidy(state, settings)
    return code


def _add_prompt(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("the prompt")
    group.add_argument("-p", "--prompt", metavar="TEXT", help="what to do")
    group.add_argument("--prompt-file", metavar="FILE", help="read it from a file")
    group.add_argument("--issue", metavar="N", help="begin it with this GitHub issue (through gh)")
    group.add_argument("--repo", metavar="OWNER/NAME", help="the issue's repository, if not this one")
    group.add_argument("--spec", metavar="FILE", help="attach a specification, and note it")
    group.add_argument(
        "--file", action="append", default=[], metavar="FILE", help="attach a file; may be repeated"
    )
    group.add_argument(
        "--max-file-size",
        type=size,
        default=MAX_FILE,
        metavar="B",
        help="of an attached file (1M; 64K, 2M, …)",
    )
    group.add_argument("--append-system-prompt", metavar="TEXT", help="add to the agent's own")


def _add_slots(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("which agents, and where")
    group.add_argument(
        "--adapter", action=launching.Slots, metavar="A", help="which agent; repeated: one slot each"
    )
    group.add_argument(
        "--model", action=launching.Slots, metavar="M", help="its model; repeated: one slot each"
    )
    group.add_argument("--cwd", metavar="DIR", help="its directory (this one)")
    group.add_argument("--matrix", metavar="FILE", help="slots, prompts and hooks from a YAML file")
    group.add_argument(
        "--group", metavar="G", type=launching.label, help="label to find and compare them by"
    )
    group.add_argument("--worktree", metavar="REPO", help="a git worktree of its own for each")
    group.add_argument("--branch", metavar="B", help="the worktree's branch (agentctl/GROUP/SLOT)")
    group.add_argument("--base-branch", metavar="B", help="what a new branch begins at (HEAD)")
