"""What one launch or resume asks for: values only, for the command line and every other front end."""

from __future__ import annotations

from agentctl.launch.prompt import MAX_FILE
from agentctl.launch.slots import Slot
from agentctl.light_typing import NamedTuple


class LaunchSpec(NamedTuple):
    """One call of `launch` or `resume`. None, and an empty tuple, mean: not given, so the matrix file,
    the settings or the agent decide."""

    slots: tuple[Slot, ...] = ()  # which agents and models; none: those of the matrix file or settings
    matrix: str | None = None  # a matrix file
    # the prompt
    prompt: str | None = None
    prompt_file: str | None = None
    stdin: bool = False  # read the prompt from standard input
    issue: str | None = None  # the number of a GitHub issue to begin the prompt with
    issue_repository: str | None = None  # OWNER/NAME; None: that of the directory
    spec: str | None = None  # a file to attach, and to note
    files: tuple[str, ...] = ()  # to attach
    max_file: int = MAX_FILE  # bytes of an attached file
    system_prompt: str | None = None  # text to append to the agent's own
    # where
    cwd: str | None = None
    worktree: str | None = None  # a repository: each slot gets a worktree of it
    branch: str | None = None  # may name fields in braces, see `slots`
    base_branch: str | None = None
    # the agent
    permission_mode: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    native: tuple[str, ...] = ()  # words to pass through to the agent
    # the launch
    name: str | None = None
    group: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    on_create: str | None = None
    on_complete: str | None = None
    timeout: float | None = None  # seconds; 0: none, even if the settings set one
    force: bool = False  # also in a directory that another launch has locked
