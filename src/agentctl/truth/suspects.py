"""Which processes may run a session that no live process is bound to.

"No process runs this session" is proven only if every process that could run it is visible, and is
known to do something else. Everything else is doubt, and the evidence says which.
"""

from __future__ import annotations

import os
import time

from agentctl.errors import Gone, SourceError
from agentctl.light_functools import cache
from agentctl.light_typing import TYPE_CHECKING, Callable, Sequence
from agentctl.paths import home_of_user
from agentctl.system import proc
from agentctl.system.program import is_runtime, plain_name
from agentctl.truth.model import Evidence
from agentctl.truth.processes import may_have_name

if TYPE_CHECKING:
    from agentctl.system.proc import Process
    from agentctl.truth.look import Look

END_TIMEOUT = 1.0  # seconds to wait for a process that the kernel is taking down


class SuspectSearch:
    """The search of one adapter in one look. Each method takes the look, so that the look and its search
    do not keep each other in memory."""

    def __init__(self) -> None:
        self._is_all_visible: bool | None = None  # None: not checked yet
        # With the directories that each may use; None: not looked for yet.
        self._outsiders: list[tuple[Process, tuple[str, ...]]] | None = None
        self._writers: list[tuple[Process, str]] | None = None  # with a path; None: not looked for yet

    def find_evidence(
        self,
        look: Look,
        written_at: float | None,
        may: Callable[[Process], bool] | None,
        *,
        path: str,
        uid: int | None,
        began: float | None,
        turn_open: bool,
    ) -> Evidence:
        """See `Look.find_evidence_without_owner`."""
        if written_at is not None and written_at > look.now and _is_written_since(look, written_at):
            note = "written after we looked at the processes: its writer may have started since"
            return Evidence("hidden", proc.PROC, "kernel", at=look.now, note=note)
        if self._is_all_visible is None:
            self._is_all_visible = look.visibility.is_clear and not self._find_outsiders(look)
        # The usual case: there is no process to suspect.
        if self._is_all_visible and not look.unbound_processes and not turn_open:
            return make_gone_evidence(len(look.own_processes))
        return (
            find_suspects(
                look.unbound_processes, boot_time=look.boot_time, written_at=written_at, may=may, uid=uid
            )
            or self._find_hidden(look, path, began, written_at)
            or (self._find_writer(look, uid) if turn_open else None)
            or make_gone_evidence(len(look.own_processes))
        )

    def _find_hidden(
        self, look: Look, path: str, began: float | None, written_at: float | None
    ) -> Evidence | None:
        """Return why a process that this look does not show may run the session; None: none may."""
        obstacle = look.visibility.find_obstacle(path, began, written_at)
        if obstacle:
            return Evidence("hidden", path, "derived", note=obstacle)
        for process, directories in self._find_outsiders(look):
            if f"{path}/".startswith(directories):
                note = f"pid {process.pid} is outside of AGENTCTL_CONFINE, and may run it"
                return Evidence("hidden", process.identity.address, "derived", note=note)
        return None

    def _find_outsiders(self, look: Look) -> list[tuple[Process, tuple[str, ...]]]:
        """Return the adapter's own processes that AGENTCTL_CONFINE leaves out, each with the directories
        that it may use. They are looked for once, and compared with thousands of files."""
        if self._outsiders is None:
            others = look.find_outside(look.comms) if look.owns is not None else ()
            ours = [process for process in others if _may_be_ours(look, process)]
            self._outsiders = [(p, _usable_directories(p, look)) for p in ours]
        return self._outsiders

    def _find_writer(self, look: Look, uid: int | None) -> Evidence | None:
        """Before an open turn counts as abandoned: a process under another name that has files of this
        agent open to write may be working on it. The search is expensive, so it is made once."""
        if self._writers is None:
            from agentctl.system.file_holders import find_writers

            own = {process.pid for process in look.own_processes}
            others = (p for p in look.table.values() if p.pid not in own)
            writers = find_writers(others, look.searched_roots)
            self._writers = [(p, path) for p, path in writers if not _is_helper(look, p)]
        for process, path in self._writers:
            if uid is None or process.uid in (uid, 0):
                note = f"pid {process.pid} ({process.comm}) has {path} open to write, and may run it"
                return Evidence("hidden", process.identity.address, "derived", note=note)
        return None


def find_suspects(
    unbound: Sequence[Process],
    *,
    boot_time: float,
    written_at: float | None,
    may: Callable[[Process], bool] | None = None,
    uid: int | None = None,
) -> Evidence | None:
    """Return evidence that one of these processes may run a session that none is bound to, or None.

    The writer of the session's last record was alive when it was written. A process that is bound to
    another session, or that started later, is not the writer. An unbound process that was there already
    may be, unless the adapter says no, or it belongs to a user who is neither root nor `uid`, the owner
    of the file.
    """
    suspects = [
        process
        for process in unbound
        if written_at is None or process.find_earliest_start_time(boot_time) <= written_at + 1
        if _may_run(process, may, uid)
    ]
    if not suspects:
        return None
    pids = ", ".join(f"pid {p.pid}" for p in suspects)
    note = f"{pids}: alive, bound to no session, and may run this one"
    return Evidence("ambiguous", suspects[0].identity.address, "derived", note=note)


@cache  # the same for each of thousands of ended sessions
def make_gone_evidence(count: int) -> Evidence:
    """Return evidence that none of the agent's live processes, `count` in number, can run the session.
    Only for a look in which every process that could run it is visible and recognisable."""
    others = f"{count} live process{'es' if count != 1 else ''} of this agent, none can own it"
    note = others if count else "all processes are visible, and none is this agent's"
    return Evidence("gone", proc.PROC, "kernel", note=note)


def _may_run(process: Process, may: Callable[[Process], bool] | None, uid: int | None) -> bool:
    try:
        is_allowed = uid is None or process.uid in (uid, 0)
        return is_allowed and (process.is_ending or may is None or may(process))
    except Gone:  # the directory is empty before the kernel has finished with the process
        now = proc.find_process(process.identity)
        return now is not None and now.is_alive
    except SourceError:  # the kernel withholds it, so it may
        return True


def _is_helper(look: Look, process: Process) -> bool:
    """Return whether this is the agent's own program, doing work that is no session."""
    if is_runtime(plain_name(process.comm)) or not may_have_name(process, look.comms):
        return False
    return not _is_ours(look, process)


def _may_be_ours(look: Look, process: Process) -> bool:
    """Return whether the process is, or may be, the adapter's.

    A process that is being taken down shows neither program nor environment, so wait for its end. If
    that takes too long, it may be ours, unless it has the name of a runtime, which says nothing."""
    try:
        if not proc.is_ending_now(process):
            return _is_ours(look, process)
    except Gone:  # the directory is empty before the kernel has finished with the process
        pass
    if is_runtime(process.comm):
        return False
    from agentctl.system.pidfd import has_ended

    return not has_ended(process.identity, END_TIMEOUT)


def _is_ours(look: Look, process: Process) -> bool:
    try:
        return look.owns is not None and look.owns(process)
    except SourceError:  # the kernel withholds it, so it may be ours
        return True
    except BaseException as error:  # noqa: BLE001 - an adapter's fault hides no session
        look.report_broken(error)
        return True


def _is_written_since(look: Look, stamp: float) -> bool:
    """Return whether the file was written after the look. A stamp in the future does not prove that: our
    clock was set back, or a file server made the stamp. Then only a process that started after the look
    can be the writer."""
    if stamp <= time.time() + 1:
        return True
    new = proc.find_new_processes(look.table)
    candidates = (p for p in new if not look.comms or may_have_name(p, look.comms))
    return any(look.may_show(process) for process in candidates)


def _usable_directories(process: Process, look: Look) -> tuple[str, ...]:
    """Return the directories that some variable of the process names, each with a final slash; "" stands
    for all.

    Where the kernel withholds the variables, a process of the same user or of root may use any file;
    another user has another home. A process that is being taken down has none left, so it may, too."""
    try:
        environ = process.environ()
    except Gone:
        return ("",)
    except SourceError:
        may_use = not look.visibility.is_alone and process.uid in (os.geteuid(), 0)
        return ("",) if may_use else ()
    if not environ:
        return ("",)
    values = [*environ.values(), *(() if "HOME" in environ else (home_of_user(process.uid) or "/",))]
    return tuple({value.rstrip("/") + "/" for value in values if value.startswith("/")})
