"""Ends a session: its owner by the adapter's plan, then all that belongs to it, with a proof."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from signal import SIGKILL, SIGTERM, Signals
from typing import Any, NamedTuple

from agentctl.adapters.plans import StopPlan
from agentctl.errors import Gone, Refused
from agentctl.process.handles import DEATH, Targets
from agentctl.process.kinship import Left
from agentctl.process.tree import Family
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process
from agentctl.truth.model import Session

BY_THEMSELVES = 0.2  # seconds in which what is left may follow its owner without being told
GRACE = 1.0  # seconds it gets between TERM and KILL
ROUNDS = 20  # looks for new ones: one that forks faster than that is named, not chased for ever


class Stopped(NamedTuple):
    """What was done, and the proof: how many have ended, and who has not."""

    session_id: str | None
    adapter: str
    already: bool  # its owner was gone before we did anything
    ended: int  # processes, the owner included
    survivors: tuple[Left, ...] = ()
    spared: tuple[Left, ...] = ()  # not of it, though they look like it; above all ourselves
    signals: tuple[str, ...] = ()  # sent to the owner, in order
    seconds: float = 0.0


def shape(given: Stopped) -> dict[str, Any]:
    """As `wire.session.STOPPED_FIELDS` describes it."""
    return {
        "id": given.session_id,
        "adapter": given.adapter,
        "already": given.already,
        "ended": given.ended,
        "survivors": [left._asdict() for left in given.survivors],
        "spared": [left._asdict() for left in given.spared],
        "signals": list(given.signals),
        "seconds": round(given.seconds, 3),
    }


def stop(
    session: Session,
    plan: StopPlan,
    among: Iterable[Session] = (),
    *,
    force: bool = False,
    timeout: float | None = None,
) -> Stopped:
    """`timeout` bounds what the owner gets before KILL; `force` gives it nothing, and ends also the
    terminals inside it that a person uses. Whether it may be stopped at all is decided in
    `stop/plan.py`. `among`: every live session, for those inside this one that are to live. Raises
    Refused if its pid names another process by now."""
    began = time.monotonic()
    family, first = family_of(session, plan, among, force=force), session.seen.owner
    with Targets() as owner, Targets() as others:
        if first is not None and not owner.open([first]):
            _refuse_a_newcomer(first)
        spared: dict[int, Left] = {}
        _meet(others, family, spared)  # now: when their parent is gone, only a handle finds some of them
        sent = _end_owner(owner, plan, force=force, timeout=timeout)
        _sweep(others, family, spared)
        return Stopped(
            session.seen.session_id,
            session.seen.adapter,
            already=not owner.identities,
            ended=owner.ended() + others.ended(),
            survivors=(*owner.survivors(), *others.survivors()),
            spared=tuple(spared.values()),
            signals=sent,
            seconds=time.monotonic() - began,
        )


def family_of(
    session: Session, plan: StopPlan, among: Iterable[Session] = (), *, force: bool = False
) -> Family:
    """Of a session without an owner only what we launched: no other marker names it for sure."""
    launch = session.launch.id if session.launch is not None else None
    confine = os.environ.get("AGENTCTL_CONFINE", "")
    return Family(
        session.seen.owner,
        launch,
        plan.markers,
        pid_markers=plan.pid_markers,
        among=among,
        confine=confine,
        force=force,
    )


def steps(plan: StopPlan, *, force: bool, timeout: float | None) -> list[tuple[Signals, float]]:
    """Each signal and how long it is waited for. A timeout cuts the plan short or gives the rest of the
    time to its last signal."""
    if force:
        return [(SIGKILL, DEATH)]
    planned = list(plan.signals)
    if timeout is not None:
        left, cut = timeout, []
        for index, (number, seconds) in enumerate(planned):
            given = left if index == len(planned) - 1 else min(seconds, left)
            cut.append((number, given))
            left -= given
        planned = cut
    return [*planned, (SIGKILL, DEATH)]


def _end_owner(owner: Targets, plan: StopPlan, *, force: bool, timeout: float | None) -> tuple[str, ...]:
    sent: list[str] = []
    for number, seconds in steps(plan, force=force, timeout=timeout):
        if not owner.signal(number):
            break
        sent.append(number.name)
        if owner.wait(seconds):
            break
    return tuple(sent)


def _meet(others: Targets, family: Family, spared: dict[int, Left]) -> int:
    """Look who is there. How many of them are new, and to go."""
    tree = family.look(proc.read_table(), others.identities)
    others.name(tree.not_ours)
    spared.update({left.pid: left for left in tree.spared if left.pid not in spared})
    return others.open(tree.members)


def _sweep(others: Targets, family: Family, spared: dict[int, Left]) -> None:
    """Until a look finds none: one that is told to go may still beget another."""
    for number in range(ROUNDS):
        others.wait(BY_THEMSELVES)
        if number == 0 and others.living():
            others.signal(SIGTERM)
            others.wait(GRACE)
        if others.living():
            others.signal(SIGKILL)
            others.wait(DEATH)
        if not _meet(others, family, spared):
            break


def _refuse_a_newcomer(owner: Process) -> None:
    """Its pid is another's by now: that one is not meant. Merely gone is what was wanted."""
    try:
        Handle(proc.read_process(owner.pid, owner.identity.boot).identity).close()
    except Gone:
        return
    if proc.current(owner.identity) is not None:
        return
    raise Refused(
        f"pid {owner.pid} is another process than the one that ran this session a moment ago",
        "ask again: agentctl status tells who runs it now, if anyone",
    )
