"""From a LaunchSpec and the settings to a plan: the slots to start, each with its prompt and branch."""

from __future__ import annotations

import os

from agentctl.config import settings as config
from agentctl.errors import AgentctlError, NotFound, UsageError
from agentctl.launch import slots as naming
from agentctl.launch.order import StartRequest
from agentctl.launch.prompt import PromptSources, compose_prompt
from agentctl.launch.slots import Slot
from agentctl.launch.spec import LaunchSpec
from agentctl.light_typing import NamedTuple
from agentctl.truth.model import Worktree

# Fields that a matrix file may set. A value in the spec wins.
FROM_FILE = (
    "cwd", "spec", "name", "group", "on_create", "on_complete", "timeout", "permission_mode",
    "base_branch", "branch",
)  # fmt: skip


class LaunchPlan(NamedTuple):
    """All starts of one LaunchSpec, decided before anything is done."""

    slots: tuple[Slot, ...]  # each with its adapter, name and branch
    spec: LaunchSpec  # with the values of the matrix file
    settings: config.Config
    prompt: str  # of slots that have none of their own
    group: str | None
    repository: str | None  # None: no worktrees


def plan_launch(spec: LaunchSpec, settings: config.Config) -> LaunchPlan:
    """Return the plan. Raises UsageError for values that exclude each other."""
    spec = _with_matrix(spec)
    slots = tuple(_with_adapter(slot, settings) for slot in spec.slots or (Slot(),))
    several = len(slots) > 1
    group = settings.defaults.group.override(spec.group).value or (
        f"{naming.make_plain(spec.name or 'group')}-{os.urandom(2).hex()}" if several else None
    )
    repository = spec.worktree or (find_directory(spec, settings) if several else None)
    if repository is None and (spec.branch or spec.base_branch):
        raise UsageError("a branch is for a worktree", "name its repository: --worktree REPO")
    if repository is not None:
        _check_repository(repository, several=several)
    issue = _read_issue(spec, settings)
    slots = tuple(_with_whole_prompt(slot, spec, issue) for slot in slots)
    needs_prompt = any(slot.prompt is None for slot in slots)
    return LaunchPlan(
        slots=naming.name_slots(slots, group or os.urandom(3).hex(), spec.branch),
        spec=spec,
        settings=settings,
        prompt=compose_prompt(_prompt_sources(spec), issue) if needs_prompt else "",
        group=group,
        repository=repository,
    )


def build_request(plan: LaunchPlan, slot: Slot, worktree: Worktree | None) -> StartRequest:
    """Return the start of one slot, in this worktree. What the slot says wins over the spec, and that
    over the settings; of the environment, the spec wins."""
    spec, defaults = plan.spec, plan.settings.defaults
    adapter = slot.adapter or default_adapter(plan.settings)
    agent = plan.settings.for_adapter(adapter)
    name = defaults.name.override(spec.name).value
    if len(plan.slots) > 1:
        name = f"{name}/{slot.name}" if name and slot.name else slot.name or name
    cwd = find_directory(spec, plan.settings)
    return StartRequest(
        adapter=adapter,
        prompt=plan.prompt if slot.prompt is None else slot.prompt,
        cwd=_same_directory(cwd, worktree) if worktree is not None else cwd,
        model=slot.model or agent.model.value,
        name=name,
        group=plan.group,
        spec=os.path.abspath(spec.spec) if spec.spec else None,
        meta=spec.meta,
        environ=(*slot.env, *spec.env),  # the last one wins
        system_prompt=spec.system_prompt,
        permission_mode=slot.permission_mode
        or agent.permission_mode.override(spec.permission_mode).value,
        native=(*agent.args.value, *spec.native, *slot.args),
        binary=agent.binary.value,
        worktree=worktree,
        on_create=defaults.on_create.override(spec.on_create).value,
        on_complete=defaults.on_complete.override(spec.on_complete).value,
        timeout=defaults.timeout.override(spec.timeout).value,
        force=spec.force,
        cancels_fuses=plan.settings.fuses.on_launch.value == "cancel",
        settle=plan.settings.launches.settle.value,
    )


def find_directory(spec: LaunchSpec, settings: config.Config) -> str:
    """Return the absolute directory to launch in. Raises UsageError."""
    path = spec.cwd if spec.cwd is not None else settings.defaults.cwd.value
    if path == "":  # --cwd "$UNSET" must not mean the current directory
        raise UsageError("not a directory: ''")
    try:
        return os.path.abspath(os.path.expanduser(path)) if path is not None else os.getcwd()
    except FileNotFoundError as error:
        raise UsageError("the current directory was deleted", "name another one: --cwd DIR") from error


def default_adapter(settings: config.Config) -> str:
    """Return the adapter of a slot that names none. Raises UsageError."""
    name = settings.defaults.adapter.value
    if name is None:
        names = ", ".join(settings.agents)
        raise UsageError(
            "missing ADAPTER", f"one of {names}; or set defaults.adapter: agentctl config init"
        )
    return name


def _with_matrix(spec: LaunchSpec) -> LaunchSpec:
    """Add the slots and values of the matrix file. A value of the spec wins over the file."""
    if spec.matrix is None:
        return spec
    if spec.slots:
        raise UsageError(
            "--matrix names the agents and models", "leave out ADAPTER, --adapter and --model"
        )
    from agentctl.launch import matrix

    file = matrix.read_matrix(spec.matrix)
    values = {name: getattr(file, name) for name in FROM_FILE if getattr(spec, name) is None}
    if spec.prompt is None and spec.prompt_file is None and not spec.stdin:
        values |= {"prompt": file.prompt, "prompt_file": file.prompt_file}
    return spec._replace(
        slots=tuple(slot._replace(env=(*file.env, *slot.env)) for slot in file.slots),
        meta=(*file.meta, *spec.meta),
        files=(*file.files, *spec.files),
        **values,
    )


def _with_adapter(slot: Slot, settings: config.Config) -> Slot:
    name = slot.adapter or default_adapter(settings)
    if name not in settings.agents:
        is_prompt = len(name.split()) > 1
        names = f"known adapters: {', '.join(settings.agents)}"
        raise UsageError(f"no adapter named {name!r}", "a prompt follows -p" if is_prompt else names)
    return slot._replace(adapter=name)


def _with_whole_prompt(slot: Slot, spec: LaunchSpec, issue: str | None) -> Slot:
    """Add the issue, the specification and the files to a slot's own prompt."""
    if slot.prompt is None:
        return slot
    sources = _prompt_sources(spec)._replace(text=slot.prompt, file=None, stdin=False)
    return slot._replace(prompt=compose_prompt(sources, issue))


def _prompt_sources(spec: LaunchSpec) -> PromptSources:
    return PromptSources(
        text=spec.prompt,
        file=spec.prompt_file,
        stdin=spec.stdin,
        spec=spec.spec,
        files=spec.files,
        max_file=spec.max_file,
    )


def _read_issue(spec: LaunchSpec, settings: config.Config) -> str | None:
    """Return the issue's text, read once for all slots."""
    if spec.issue is None:
        if spec.issue_repository is not None:
            raise UsageError("--repo is for an issue", "example: --issue 42 --repo owner/name")
        return None
    from agentctl.launch.prompt import read_issue

    return read_issue(spec.issue, spec.issue_repository, find_directory(spec, settings), os.environ)


def _check_repository(repository: str, *, several: bool) -> None:
    """Raise UsageError before any worktree is created."""
    from agentctl.worktrees import worktree

    try:
        worktree.find_main_checkout(repository)
    except NotFound as error:
        reason = "several agents need a worktree each; " if several else ""
        raise UsageError(str(error), f"{reason}--worktree REPO names the repository") from error


def _same_directory(cwd: str, tree: Worktree) -> str:
    """Return the directory of the worktree that stands for `cwd`; its top if the branch has none."""
    from agentctl.worktrees import git

    try:
        path = os.path.join(tree.path, git.read_line(cwd, "rev-parse", "--show-prefix")).rstrip("/")
    except AgentctlError:  # cwd is not in that repository
        return tree.path
    return path if os.path.isdir(path) or not os.path.isdir(tree.path) else tree.path
