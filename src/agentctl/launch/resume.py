"""Prepare the start that continues an ended session: same id, same directory, a new message."""

from __future__ import annotations

import os

from agentctl.config import settings as config
from agentctl.errors import Refused, Unreachable
from agentctl.launch.order import Order, StartRequest, prepare_order
from agentctl.launch.prompt import PromptSources, compose_prompt
from agentctl.launch.spec import LaunchSpec
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import Launch, Session

SAME_DIRECTORY = "a session resumes only in its own directory"


def prepare_resume(session: Session, spec: LaunchSpec, settings: config.Config) -> Order:
    """Return the start, for `start.launch`. It keeps the labels, the worktree and the on-complete hook
    of the previous launch unless the spec gives others. The model is that of the spec's first slot; the
    spec's directory, group and branch do not count. Raises Refused for a session that is alive,
    Unreachable where that is unknown, UsageError."""
    check_ended(session)
    return prepare_order(_build_request(session, spec, settings), os.environ, session.observation)


def check_ended(session: Session) -> None:
    """Raise Refused or Unreachable unless the session has ended: two processes on one session overwrite
    each other's work."""
    observation, verdict = session.observation, session.verdict
    if verdict.status == "stopped":
        return
    if observation.owner is None:
        raise Unreachable(
            f"cannot tell whether {observation.session_id} has ended: {verdict.reason}",
            f"agentctl why {observation.session_id} shows the evidence",
        )
    raise Refused(
        f"{observation.session_id} is {verdict.status}: pid {observation.owner.pid} runs it",
        f"stop it first: agentctl stop {observation.session_id}",
    )


def _build_request(session: Session, spec: LaunchSpec, settings: config.Config) -> StartRequest:
    observation = session.observation
    agent = settings.for_adapter(observation.adapter)
    previous = session.launch or Launch("", ProcessIdentity("", 0, 0))
    message = compose_prompt(PromptSources(spec.prompt, spec.prompt_file, spec.stdin))
    cwd = observation.facts.cwd or previous.cwd
    if cwd is None:
        raise Unreachable(f"the directory of {observation.session_id} is not known", SAME_DIRECTORY)
    if not os.path.isdir(cwd):
        raise Refused(f"its directory is gone: {cwd}", SAME_DIRECTORY)
    return StartRequest(
        adapter=observation.adapter,
        prompt=message,
        cwd=cwd,
        model=spec.slots[0].model if spec.slots else None,
        name=spec.name or previous.name,
        group=previous.group,
        spec=previous.spec,
        meta=(*previous.meta, *spec.meta),
        environ=spec.env,
        permission_mode=agent.permission_mode.override(spec.permission_mode).value,
        native=(*agent.args.value, *spec.native),
        binary=agent.binary.value,
        worktree=previous.worktree,
        on_create=spec.on_create,
        on_complete=spec.on_complete or previous.on_complete,
        timeout=spec.timeout,
        force=spec.force,
        cancels_fuses=settings.fuses.on_launch.value == "cancel",
        settle=settings.launches.settle.value,
    )
