"""Fire a due fuse: claim it, run its actions, record their results. The daemon calls this, and the shim
of a launch whose timeout is due.

The process may die at any moment. Each action is confirmed before the next one starts, and the next
process runs those that are not confirmed. So an action can run twice only if the process died between
the action and its confirmation; a command not even then, unless it died too (`fuses/run.py`).
"""

from __future__ import annotations

import re
import shutil
import threading
import time
from contextlib import contextmanager

from agentctl import paths
from agentctl.errors import Gone, Temporary
from agentctl.fuses import run, stop
from agentctl.light_typing import Any, Callable, Iterator, Mapping
from agentctl.state import fuse_firing, fuses
from agentctl.state.fuses import Fuse
from agentctl.system import files
from agentctl.system.clock import format_rfc3339

_ID = re.compile("[0-9a-f]{8}")
_firing: set[str] = set()  # fuses that this process fires: a claim names a process, not a thread
_guard = threading.Lock()
# Return the result of an action, from the state directory, the fuse and the index of the action.
_ACTIONS: Mapping[str, Callable[[str, Fuse, int], dict[str, Any]]] = {
    "run": run.run_command,
    "stop": stop.stop_sessions,
}


def fire_fuse(state: str, fuse_id: str) -> Fuse | None:
    """Return the settled fuse. None: it is not due, or another process fires it. Raises SourceError if
    the database cannot be written."""
    notes = paths.database_file(state)
    with _reserve(fuse_id) as is_free:
        if not is_free or _cancel_if_moot(state, notes, fuse_id):
            return None
        fuse = fuse_firing.claim_fuse(notes, fuse_id, fuse_firing.make_claim())
        return _run_actions(state, notes, fuse) if fuse is not None else None


def remove_old_fuses(state: str) -> None:
    """Delete fuses that were settled long ago, with the output of their commands. Raises SourceError."""
    notes = paths.database_file(state)
    fuses.forget_settled(notes)
    ids = {each.id for each in fuses.list_fuses(notes)}
    try:
        names = files.list_names(run.output_folder(state))
    except Gone:
        return
    for name in names:
        if _ID.fullmatch(name) and name not in ids:
            shutil.rmtree(f"{run.output_folder(state)}/{name}", ignore_errors=True)


def _cancel_if_moot(state: str, notes: str, fuse_id: str) -> bool:
    """Cancel a timeout whose agent has ended by itself, and return True. If only a wrapper has ended,
    the agent still has a session: it inherited the launch id."""
    timeout = fuses.find_moot(notes, fuse_id)
    if timeout is None or stop.has_session(state, timeout):
        return False
    fuses.cancel_moot(notes, fuse_id)
    return True


def _run_actions(state: str, notes: str, fuse: Fuse) -> Fuse | None:
    current: Fuse | None = fuse
    for index, result in enumerate(fuse.results):
        if current is not None and result is None:
            current = _run_action(state, notes, current, index)
    return fuse_firing.settle_fuse(notes, current) if current is not None else None


def _run_action(state: str, notes: str, fuse: Fuse, index: int) -> Fuse | None:
    """Run one action and confirm it. None: another process has claimed the fuse."""
    do = fuse.actions[index].do
    if do == "webhook":  # it reports the results of all others: `settle_fuse` sends it
        return fuse
    if do == "emit":
        return fuse_firing.emit_event(notes, fuse, index)
    try:
        result = _ACTIONS[do](state, fuse, index)
    except Temporary:  # a full disk: the action is not confirmed, and runs again
        raise
    except Exception as error:  # noqa: BLE001 - the other actions must still run
        result = {"ok": False, "error": str(error) or type(error).__name__}
    return fuse_firing.confirm_action(
        notes, fuse, index, {"do": do, **result, "at": format_rfc3339(time.time())}
    )


@contextmanager
def _reserve(fuse_id: str) -> Iterator[bool]:
    """Yield False if another thread of this process fires the fuse."""
    with _guard:
        is_free = fuse_id not in _firing
        if is_free:
            _firing.add(fuse_id)
    try:
        yield is_free
    finally:
        if is_free:
            with _guard:
                _firing.discard(fuse_id)
