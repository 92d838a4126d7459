"""Fires what is due: claims it, does what it is to do, tells what came of it. Whoever looks at the clock
calls this: the daemon, and the shim of a launch whose time is over.

Any moment of it may be the last. Each action is confirmed before the next one is begun; who comes after
does what is not confirmed. So an action can be done twice only if whoever did it died between the deed
and the word, and of a command not even then, unless the command died too (`fuses/run.py`).
"""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentctl import paths
from agentctl.errors import Gone, Passing
from agentctl.fuses import run, stop
from agentctl.state import fuse_firing, fuses
from agentctl.state.fuse import Fuse
from agentctl.system import files
from agentctl.system.clock import rfc3339

_ID = re.compile("[0-9a-f]{8}")
_at_work: set[str] = set()  # this process's own: a claim does not tell its threads apart
_guard = threading.Lock()
# What an action comes to, from the state directory, the fuse and the action's place in it.
_DEEDS: Mapping[str, Callable[[str, Fuse, int], dict[str, Any]]] = {
    "run": run.run,
    "stop": stop.stop,
}


def fire(state: str, fuse_id: str) -> Fuse | None:
    """None: it is not ours to fire, or not yet. Raises SourceError where that cannot be written down."""
    notes = paths.notes_file(state)
    with _alone(fuse_id) as ours:
        if not ours or _over_already(state, notes, fuse_id):
            return None
        known = fuse_firing.claim(notes, fuse_id, fuse_firing.ourselves())
        return _carried_out(state, notes, known) if known is not None else None


def at_work() -> frozenset[str]:
    """Those that this process fires at this moment."""
    with _guard:
        return frozenset(_at_work)


def tidy(state: str) -> None:
    """Forgets what was settled long ago, with what its commands said. Raises SourceError."""
    notes = paths.notes_file(state)
    fuses.forget(notes)
    known = {each.id for each in fuses.recorded(notes)}
    try:
        names = files.names(run.folder(state))
    except Gone:
        return
    for name in names:
        if _ID.fullmatch(name) and name not in known:
            shutil.rmtree(f"{run.folder(state)}/{name}", ignore_errors=True)


def _over_already(state: str, notes: str, fuse_id: str) -> bool:
    """A timeout whose agent has ended by itself. What has ended may have been a wrapper of it, and the
    agent is known by what it inherited."""
    timeout = fuses.moot(notes, fuse_id)
    if timeout is None or stop.anybody(state, timeout):
        return False
    fuses.end_moot(notes, fuse_id)
    return True


def _carried_out(state: str, notes: str, fuse: Fuse) -> Fuse | None:
    known: Fuse | None = fuse
    for index, result in enumerate(fuse.results):
        if known is not None and result is None:
            known = _done(state, notes, known, index)
    return fuse_firing.settle(notes, known) if known is not None else None


def _done(state: str, notes: str, fuse: Fuse, index: int) -> Fuse | None:
    """One action, confirmed. None: the fuse is another's by now."""
    do = fuse.actions[index].do
    if do == "webhook":  # tells of all the others: `settle` does it
        return fuse
    if do == "emit":
        return fuse_firing.emit(notes, fuse, index)
    try:
        result = _DEEDS[do](state, fuse, index)
    except Passing:  # a full disk: it is not done, and tried again
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was, the other actions are still to be done
        result = {"ok": False, "error": str(error) or type(error).__name__}
    return fuse_firing.confirm(notes, fuse, index, {"do": do, **result, "at": rfc3339(time.time())})


@contextmanager
def _alone(fuse_id: str) -> Iterator[bool]:
    with _guard:
        ours = fuse_id not in _at_work
        if ours:
            _at_work.add(fuse_id)
    try:
        yield ours
    finally:
        if ours:
            with _guard:
                _at_work.discard(fuse_id)
