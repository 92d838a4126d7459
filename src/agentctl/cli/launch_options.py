"""Options of `launch` and `resume`, and what they ask for as a LaunchSpec."""

from __future__ import annotations

import argparse
import sys

from agentctl.durations import parse_duration
from agentctl.errors import UsageError
from agentctl.launch.prompt import MAX_FILE, parse_size
from agentctl.launch.slots import Slot, make_slots
from agentctl.launch.spec import LaunchSpec
from agentctl.light_typing import Any


class SlotOption(argparse.Action):
    """Collect `--adapter A --model M --model N --adapter B` as pairs, in order."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - the signature of argparse
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        pairs = getattr(namespace, "pairs", None) or []
        namespace.pairs = [*pairs, (self.dest, str(values))]


def parse_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "\0" in text:
        raise UsageError(f"not a pair: {text!r}", "example: KEY=value")
    return name, value


def parse_label(text: str) -> str:
    if not text.strip() or any(ord(c) < 32 or "\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"not a label: {text!r}", "a label is one line of UTF-8 text")
    return text


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the prompt")
    group.add_argument("-p", "--prompt", metavar="TEXT", help="what to do")
    group.add_argument("--prompt-file", metavar="FILE", help="read the prompt from a file")
    group.add_argument("--issue", metavar="N", help="begin it with this GitHub issue (needs gh)")
    group.add_argument("--repo", metavar="OWNER/NAME", help="repository of the issue, if not this one")
    group.add_argument("--spec", metavar="FILE", help="attach a specification; shown in status")
    group.add_argument(
        "--file", action="append", default=[], metavar="FILE", help="attach a file; may be repeated"
    )
    group.add_argument(
        "--max-file-size",
        type=parse_size,
        default=MAX_FILE,
        metavar="B",
        help="limit of an attached file (1M; 64K, 2M, …)",
    )
    group.add_argument("--append-system-prompt", metavar="TEXT", help="add to the agent's system prompt")


def add_slot_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which agents, and where")
    group.add_argument(
        "--adapter", action=SlotOption, metavar="A", help="which agent; repeated: one slot each"
    )
    group.add_argument(
        "--model", action=SlotOption, metavar="M", help="its model; repeated: one slot each"
    )
    group.add_argument("--cwd", metavar="DIR", help="its directory (this one)")
    group.add_argument("--matrix", metavar="FILE", help="slots, prompts and hooks from a YAML file")
    group.add_argument(
        "--group", metavar="G", type=parse_label, help="label to find and compare them by"
    )
    group.add_argument("--worktree", metavar="REPO", help="create a git worktree for each slot")
    group.add_argument("--branch", metavar="B", help="branch of the worktree (agentctl/GROUP/SLOT)")
    group.add_argument("--base-branch", metavar="B", help="start of a new branch (HEAD)")


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the agent")
    group.add_argument(
        "--permission-mode", metavar="MODE", help="what it may do unasked: a mode of the agent"
    )
    group.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="K=V",
        type=parse_pair,
        help="set a variable for the agent",
    )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the launch")
    group.add_argument("--name", metavar="N", type=parse_label, help="shown in list")
    group.add_argument(
        "--meta", action="append", default=[], metavar="K=V", type=parse_pair, help="stored with it"
    )
    group.add_argument(
        "--timeout", type=parse_duration, metavar="TIME", help="stop it after this time (3h); 0: never"
    )
    group.add_argument("--on-create", metavar="CMD", help="run when its session has begun")
    group.add_argument("--on-complete", metavar="CMD", help="run when it has ended, in any way")
    group.add_argument(
        "--force", action="store_true", help="start even if another launch works in the directory"
    )
    group.add_argument(
        "--wait", action="store_true", help="wait until it ends; the exit code shows how it ended"
    )
    group.add_argument("--dry-run", action="store_true", help="show what would be done, start nothing")
    group.add_argument("--json", action="store_true", help="print the stable JSON shape, as list does")


def read_launch_spec(arguments: argparse.Namespace) -> LaunchSpec:
    """Return what the options of `launch` ask for. Raises UsageError."""
    names = [word for word in arguments.words if word != "-"]
    pairs = [*(("adapter", name) for name in names), *(getattr(arguments, "pairs", None) or ())]
    stdin = "-" in arguments.words
    if stdin:
        _invite()
    return _common_spec(arguments)._replace(
        slots=make_slots(pairs) if pairs else (),
        matrix=arguments.matrix,
        prompt=arguments.prompt,
        stdin=stdin,
        issue=arguments.issue,
        issue_repository=arguments.repo,
        spec=arguments.spec,
        files=tuple(arguments.file),
        max_file=arguments.max_file_size,
        system_prompt=arguments.append_system_prompt,
        cwd=arguments.cwd,
        worktree=arguments.worktree,
        branch=arguments.branch,
        base_branch=arguments.base_branch,
        group=arguments.group,
    )


def read_resume_spec(arguments: argparse.Namespace) -> LaunchSpec:
    """Return what the options of `resume` ask for. Raises UsageError."""
    stdin = arguments.message == "-"
    message = None if stdin else arguments.message
    if message is not None and arguments.prompt is not None:
        raise UsageError("more than one message", "give one of MESSAGE and -p TEXT")
    if stdin:
        _invite()
    return _common_spec(arguments)._replace(
        slots=(Slot(model=arguments.model),),
        prompt=arguments.prompt if message is None else message,
        stdin=stdin,
    )


def _common_spec(arguments: argparse.Namespace) -> LaunchSpec:
    return LaunchSpec(
        prompt_file=arguments.prompt_file,
        permission_mode=arguments.permission_mode,
        env=tuple(arguments.env),
        native=tuple(arguments.native),
        name=arguments.name,
        meta=tuple(arguments.meta),
        on_create=arguments.on_create,
        on_complete=arguments.on_complete,
        timeout=arguments.timeout,
        force=arguments.force,
    )


def _invite() -> None:
    """At a terminal, say that the prompt is expected: reading it shows nothing."""
    if sys.stdin is not None and sys.stdin.isatty():
        print("agentctl: type the prompt; Ctrl-D on a line of its own ends it", file=sys.stderr)
