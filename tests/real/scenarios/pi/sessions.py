"""Pi's sessions: resumed, forked, begun in place, several at once."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from tests.real.book import State
from tests.real.native import session_with
from tests.real.scenarios.pi.terminal import DIALOG
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.actor import Actor
    from tests.real.lab import Lab

OPENED = "Pi writes nothing when it opens a session, and its arguments are gone"
MOVED = "Pi writes nothing at /new"
SAME_MOMENT = "nothing ties a Pi to one of several sessions that were made in the same moment"
FROM_ELSEWHERE = "nothing ties a Pi to a session of another directory but a command that it runs"


def resume_headless(lab: Lab) -> None:
    """By its id, and as the last one of this directory."""
    session_id = make_session(lab)
    for words in (("--session", session_id), ("--continue",)):
        actor = lab.headless("[[gate=%]] go on", *words)
        actor.session_id = session_id
        actor.unsettled()
        actor.heard("held")
        assert session_with(lab.adapter, lab.home, actor.mark) == session_id
        actor.is_held()
        actor.opens()
        actor.is_gone(outcome="completed")
        actor.unsettled()


def resume_in_the_tui(lab: Lab) -> None:
    """By its id, as the last one of this directory, and from the list that it shows."""
    session_id = resume_by_words(lab)
    actor = lab.tui("--resume", ready="Resume Session")
    actor.is_now("waiting", waiting_for="startup", blind=DIALOG)
    actor.answers("Resume Session", "Enter")
    actor.session_id = session_id
    actor.is_now("idle", since=actor.sees("ok: "), blind=OPENED)
    _goes_on(actor, session_id)


def resume_by_words(lab: Lab) -> str:
    session_id = make_session(lab)
    for words in (("--session", session_id), ("--continue",)):
        actor = lab.tui(*words)
        actor.session_id = session_id
        actor.is_now("idle", since=actor.sees("ok: "), blind=OPENED)
        _goes_on(actor, session_id)
        actor.presses("C-d")
        actor.is_gone(outcome="completed")
        actor.unsettled()
    return session_id


def fork(lab: Lab) -> None:
    """A copy with an id of its own, there at once."""
    parent = lab.headless("hello")
    parent.is_gone(outcome="completed")
    session_id = parent.session_id or ""
    parent.unsettled()
    child = lab.tui("--fork", session_id)
    (child.session_id,) = _files_of(lab) - {session_id}
    child.is_now("idle", since=child.sees("ok: "))
    parent.is_now("stopped", outcome="completed")
    _goes_on(child, child.session_id)
    parent.is_now("stopped", outcome="completed")


def new_in_place(lab: Lab) -> None:
    """The former session looks as if the process had it open, until the new one has a prompt."""
    actor = lab.tui()
    actor.says("hello")
    actor.has_answer()
    former = actor.who()._replace(name=f"what {actor.name} left", process=None)
    actor.unsettled()
    actor.terminal.type("/new")
    actor.terminal.press("Enter")
    actor.terminal.shows("New session started")
    actor.is_elsewhere(outcome="completed", blind=MOVED)
    actor.is_now("idle")
    actor.says("[[gate=%]] hello")
    actor.is_held()
    assert actor.session_id not in (None, former.session_id)
    lab.watcher.declare(former, State("stopped", outcome="completed"), time.time())
    actor.opens()
    actor.has_answer()


def parallel_starts(lab: Lab) -> None:
    """While they run commands each has its own id in `list`; while they do not, none has."""
    errands = [lab.errand() for _ in range(4)]
    actors = [lab.headless(f"[[gate=%]] [[tool={errand.command}]] work") for errand in errands]
    for actor in actors:
        actor.is_held(blind=SAME_MOMENT)
    for actor in actors:
        actor.opens()
    begun = [errand.has_begun() for errand in errands]
    for actor, since in zip(actors, begun, strict=True):
        actor.is_now("running", since=since)
    pids = {row["id"]: row["pid"] for row in lab.rows()}
    assert pids == {actor.session_id: actor.process.pid for actor in actors}
    for number, errand in enumerate(errands):
        for actor in actors[
            : number + 1
        ]:  # also those before: the session that ends may be any of theirs
            actor.unsettled()
        errand.finish()
        for actor in actors[: number + 1]:
            actor.is_gone(outcome="completed")


def resumed_elsewhere(lab: Lab) -> None:
    """By its file: asked for an id of another directory, Pi would make a copy. It works in the session's
    own directory, where its process is not."""
    elsewhere = lab.repository(lab.root / "other")
    session_id = make_session(lab)
    (path,) = lab.home.glob(f".pi/agent/sessions/*/*{session_id}.jsonl")
    errand = lab.errand()
    script = f"[[gate=%]] [[tool={errand.command}]] go on"
    actor = lab.headless(script, "--session", str(path), cwd=elsewhere)
    actor.session_id = session_id
    actor.is_held(blind=FROM_ELSEWHERE)
    actor.opens()
    actor.is_now("running", since=errand.has_begun())
    actor.unsettled()
    errand.finish()
    actor.is_gone(outcome="completed")


def make_session(lab: Lab) -> str:
    """A session to resume."""
    actor = lab.headless("hello")
    actor.is_gone(outcome="completed")
    actor.unsettled()
    assert actor.session_id is not None
    (path,) = lab.home.glob(f".pi/agent/sessions/*/*{actor.session_id}.jsonl")
    os.utime(path, (0, path.stat().st_mtime - 3600))  # an hour ago, long before it is resumed
    return actor.session_id


def _goes_on(actor: Actor, session_id: str | None) -> None:
    actor.says("[[gate=%]] go on")
    actor.session_id = None
    until(lambda: actor.who().session_id == session_id, "it goes on with that session")
    actor.plays_out()


def _files_of(lab: Lab) -> set[str]:
    paths: list[Path] = list(lab.home.glob(".pi/agent/sessions/*/*.jsonl"))
    return {path.stem.partition("_")[2] for path in paths}
