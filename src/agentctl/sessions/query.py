"""How anyone asks: one look, one survey, our notes and our cache. Every verb comes through here, so
they cannot disagree."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentctl import paths
from agentctl.adapters.registry import registered
from agentctl.errors import Ambiguous, NotFound, SourceError, UsageError
from agentctl.system import files
from agentctl.truth.look import Environ, Look
from agentctl.truth.model import Launch, Session
from agentctl.truth.survey import DEADLINE, Survey, Wanted, survey

if TYPE_CHECKING:
    from agentctl.truth.warm import Memory, Warm


def everything(
    wanted: Wanted | None = None,
    adapters: Sequence[str] = (),
    deadline: float | None = None,
    *,
    environ: Environ | None = None,
    cwd: str = "",
    warm: Warm | None = None,
    modules: Sequence[str] | None = None,
) -> Survey:
    """Live sessions, and with `wanted` the ended ones. Whose environment and directory it is asked in:
    ours, unless we ask for another; `warm` is what a process that goes on remembers between looks, and
    `modules` where adapters may be installed."""
    whose = os.environ if environ is None else environ
    asked = _Asked(paths.state_directory(whose, cwd), whose, cwd, warm, modules)
    if wanted is None or asked.state is None or wanted.id_prefix:  # few files: not worth a cache
        return _survey(asked, wanted, adapters, deadline, None)
    from agentctl.state.cache import Cache

    with Cache(paths.cache_file(asked.state)) as cache:
        return _survey(asked, wanted, adapters, deadline, cache)


def chosen(text: str) -> Wanted | None:
    """Which ended sessions to look for when this id, prefix or `pid:N` is meant."""
    if not text.strip():
        raise UsageError("an empty id", "agentctl list shows the ids")
    return None if text.startswith("pid:") else Wanted(id_prefix=text)


def only(found: Survey, text: str) -> Session:
    """The session of that id, prefix, or `pid:N`. Raises NotFound or Ambiguous."""
    if text.startswith("pid:"):
        return _by_pid(found, text)
    matching = [s for s in found.sessions if (s.seen.session_id or "").startswith(text)]
    exact = [s for s in matching if s.seen.session_id == text]
    return _only(exact or matching, text)


def group_named(text: str, known: Sequence[str]) -> str:
    """The group of that name, or the only one that begins so. Raises NotFound, Ambiguous."""
    matching = [name for name in known if name.startswith(text)] if text else []
    if text in known:
        return text
    if not matching:
        listed = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
        raise NotFound(
            f"no group {text!r}", f"known: {listed}" if known else "no launch has a group yet"
        )
    if len(matching) > 1:
        raise Ambiguous(f"{text!r} could be {len(matching)} groups", ", ".join(matching[:8]))
    return matching[0]


class _Asked(NamedTuple):
    """Whose question it is."""

    state: str | None
    environ: Environ
    cwd: str
    warm: Warm | None
    modules: Sequence[str] | None  # None: wherever ours are from


def _survey(
    asked: _Asked,
    wanted: Wanted | None,
    adapters: Sequence[str],
    deadline: float | None,
    memory: Memory | None,
) -> Survey:
    look = Look.take(asked.environ, memory, cwd=asked.cwd, warm=asked.warm)
    chosen = registered(adapters, asked.modules)
    notes = _notes(asked.state, look)
    limit = deadline if deadline is not None else _deadline(asked.environ)
    return survey(look, chosen, wanted, deadline=limit, notes=notes)


def _notes(state: str | None, look: Look) -> Sequence[Launch]:
    if state is None:
        return ()
    path = paths.notes_file(state)
    try:
        if not files.exists(path):  # the usual case: spares the import of sqlite3
            return ()
        from agentctl.state import launches

        return launches.recorded(path)
    except SourceError as error:  # labels are lost, no session is
        look.problem(error.kind, error.advice, error.source)
        return ()


def _deadline(environ: Environ) -> float:
    given = environ.get("AGENTCTL_DEADLINE", "")
    if not given:
        return DEADLINE
    from agentctl.durations import seconds

    try:
        return seconds(given)
    except UsageError as error:
        raise UsageError(f"AGENTCTL_DEADLINE: {error}", error.hint) from error


def _by_pid(found: Survey, text: str) -> Session:
    for session in found.sessions:
        if session.seen.owner is not None and text == f"pid:{session.seen.owner.pid}":
            return session
    raise NotFound(f"no agent process {text}", "agentctl list shows what is live")


def _only(matching: list[Session], text: str) -> Session:
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise NotFound(f"no session {text!r}", "agentctl list -a shows every session")
    names = ", ".join(f"{s.seen.session_id} ({s.seen.adapter})" for s in matching[:5])
    more = f" and {len(matching) - 5} more" if len(matching) > 5 else ""
    raise Ambiguous(f"{text!r} could be {len(matching)} sessions", f"{names}{more}")
