"""Print what `launch` and `resume` have started, and wait for it."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import contextmanager

from agentctl.cli.parser import warn
from agentctl.config import settings as config
from agentctl.light_typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Sequence
from agentctl.text import clean_line
from agentctl.truth.model import Problem, Session
from agentctl.view import rows
from agentctl.wire import session as wire

if TYPE_CHECKING:
    from agentctl.launch.dry_run import Description


def ensure_delivery(state: str, settings: config.Config) -> None:
    """Start the daemon before the launch if there are targets to send events to."""
    if settings.webhooks or settings.notify:
        from agentctl.deliver import ensure

        for warning in ensure.ensure_delivery(state, settings):
            warn(warning)


def print_dry_run(descriptions: Sequence[Description], *, as_json: bool) -> None:
    from agentctl.view.launch import dry_run_text

    if as_json:
        print(json.dumps({"version": wire.VERSION, "launches": list(descriptions)}, indent=1))
    else:
        print("\n\n".join(dry_run_text(description) for description in descriptions))


def id_printer(arguments: argparse.Namespace) -> Callable[[Session], None] | None:
    """Return what prints an id as soon as it is known; None for JSON, which is printed at the end."""
    return None if arguments.json else _print_id


def _print_id(session: Session) -> None:
    try:
        print(rows.session_name(session), flush=True)
    except OSError:  # a closed pipe or a full disk fails this command later, but not the agent
        pass


def finish_answer(
    sessions: list[Session], arguments: argparse.Namespace, extra: Mapping[str, Any] | None = None
) -> int:
    """Print warnings, wait if asked to, print the JSON with `extra` beside the sessions. Return the exit
    code."""
    from agentctl.launch.warnings import list_warnings

    for warning in list_warnings(sessions):
        warn(warning)
    if arguments.wait:
        return _wait(sessions, extra or {}, as_json=arguments.json)
    if arguments.json:
        _print_json(sessions, [], extra or {})
    return 0


def _print_json(sessions: list[Session], problems: Sequence[Problem], extra: Mapping[str, Any]) -> None:
    envelope = wire.dump_sessions(wire.wire_sessions(sessions), problems)
    print(json.dumps({**envelope, **extra}, indent=1), flush=True)


def _wait(sessions: list[Session], extra: Mapping[str, Any], *, as_json: bool) -> int:
    from agentctl.launch.warnings import hook_warnings
    from agentctl.sessions.select import outcome_code
    from agentctl.view.session import format_state
    from agentctl.watch.wait import SessionWait

    stopped: list[Session] = []
    with SessionWait(sessions, "stopped") as wait, _name_the_running(sessions, stopped):
        for session in wait.iterate(None):
            last = _await_hook(session)
            stopped.append(last)
            if not as_json:
                print(
                    f"agentctl: {rows.session_name(session)} {format_state(wire.wire_session(last))}",
                    file=sys.stderr,
                )
                for warning in hook_warnings(last):
                    warn(warning)
        if as_json:
            _print_json(stopped, wait.problems, extra)
    return max((outcome_code(session) for session in stopped), default=0)


def _await_hook(session: Session) -> Session:
    """Return the session with the result of its on-complete hook."""
    from agentctl.launch import exit_record

    note = session.launch
    if note is None or note.on_complete is None:
        return session
    return session._replace(launch=exit_record.await_finish(note))


@contextmanager
def _name_the_running(sessions: list[Session], stopped: list[Session]) -> Iterator[None]:
    """On Ctrl-C, name the sessions that run on: it ends the wait and no agent."""
    try:
        yield
    except KeyboardInterrupt:
        over = {session.observation.session_id for session in stopped}
        ids = [str(id_) for s in sessions if (id_ := s.observation.session_id) not in over]
        message = clean_line(f"still at work; to end it: agentctl stop {' '.join(ids)}")
        raise KeyboardInterrupt(message) from None
