"""What `launch` and `resume` have in common with a person: their words in, their answer out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentctl import paths
from agentctl.config import settings as config
from agentctl.durations import seconds
from agentctl.errors import Unreachable, UsageError
from agentctl.launch.order import Wish
from agentctl.launch.prompt import Sources, composed
from agentctl.text import one_line
from agentctl.truth.model import Session
from agentctl.view import rows
from agentctl.wire import session as shapes

Description = Mapping[str, Any]


class Slots(argparse.Action):
    """`--adapter A --model M --model N --adapter B`, in the order in which they were said."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's own shape
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        said = getattr(namespace, "pairs", None) or []
        namespace.pairs = [*said, (self.dest, str(values))]


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "\0" in text:
        raise UsageError(f"not a pair: {text!r}", "example: KEY=value")
    return name, value


def label(text: str) -> str:
    """A word to find it by."""
    if not text.strip() or any(ord(c) < 32 or "\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"not a label: {text!r}", "some words on one line, in UTF-8")
    return text


def directory(arguments: argparse.Namespace, settings: config.Config) -> str:
    given = arguments.cwd if arguments.cwd is not None else settings.defaults.cwd.value
    if given == "":  # --cwd "$UNSET" is not the current directory
        raise UsageError("not a directory: ''")
    try:
        return os.path.abspath(os.path.expanduser(given)) if given is not None else os.getcwd()
    except FileNotFoundError as error:
        raise UsageError("the current directory was deleted", "say where: --cwd DIR") from error


def add_agent(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("the agent")
    group.add_argument("--permission-mode", metavar="MODE", help="what it may do unasked, in its words")
    group.add_argument(
        "--env", action="append", default=[], metavar="K=V", type=pair, help="set for the agent"
    )


def add_launch(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("the launch")
    group.add_argument("--name", metavar="N", type=label, help="shown in list")
    group.add_argument(
        "--meta", action="append", default=[], metavar="K=V", type=pair, help="kept with it"
    )
    group.add_argument(
        "--timeout", type=seconds, metavar="TIME", help="stop it after this long (3h); 0: never"
    )
    group.add_argument("--on-create", metavar="CMD", help="run when its session has begun")
    group.add_argument("--on-complete", metavar="CMD", help="run when it has ended, however that was")
    group.add_argument("--force", action="store_true", help="also where another launch is at work")
    group.add_argument("--wait", action="store_true", help="until it ends; the exit code says how")
    group.add_argument("--dry-run", action="store_true", help="show what would be done, start nothing")
    group.add_argument("--json", action="store_true", help="print the stable JSON shape, as list does")


def wish(adapter: str, arguments: argparse.Namespace, settings: config.Config, prompt: str) -> Wish:
    """One start, by the words of the call and, where they are silent, by the settings."""
    agent, defaults = settings.of(adapter), settings.defaults
    return Wish(
        adapter=adapter,
        prompt=prompt,
        cwd=directory(arguments, settings),
        model=agent.model.value,
        name=defaults.name.over(arguments.name).value,
        group=defaults.group.over(arguments.group).value,
        spec=os.path.abspath(arguments.spec) if arguments.spec else None,
        meta=tuple(arguments.meta),
        environ=tuple(arguments.env),
        system_prompt=arguments.append_system_prompt,
        permission_mode=agent.permission_mode.over(arguments.permission_mode).value,
        native=(*agent.args.value, *arguments.native),
        binary=agent.binary.value,
        on_create=defaults.on_create.over(arguments.on_create).value,
        on_complete=defaults.on_complete.over(arguments.on_complete).value,
        timeout=defaults.timeout.over(arguments.timeout).value,
        force=arguments.force,
        cancels_fuses=settings.fuses_on_launch.value == "cancel",
        settle=settings.settle.value,
    )


def default_adapter(settings: config.Config) -> str:
    name = settings.defaults.adapter.value
    if name is None:
        known = ", ".join(settings.agents)
        raise UsageError(
            "which agent?", f"name one ({known}), or set defaults.adapter: agentctl config init"
        )
    return name


def issue(arguments: argparse.Namespace, settings: config.Config) -> str | None:
    """Asked for once, whatever the number of slots."""
    if arguments.issue is None:
        if arguments.repo is not None:
            raise UsageError("--repo is for an issue", "example: --issue 42 --repo owner/name")
        return None
    from agentctl.launch.issue import text

    return text(arguments.issue, arguments.repo, directory(arguments, settings), os.environ)


def prompt(
    arguments: argparse.Namespace,
    begins: str | None = None,
    own: str | None = None,
    *,
    stdin: bool = False,
) -> str:
    """With what all slots get: what it `begins` with, spec and files. `own`: a slot's, instead of the
    one that the call gives."""
    shared = (begins, arguments.spec, arguments.file, arguments.max_file_size)
    if own is not None:
        return composed(Sources(own, None, False, *shared))
    if stdin:
        invite()
    return composed(Sources(arguments.prompt, arguments.prompt_file, stdin, *shared))


def invite() -> None:
    """To type, at a terminal: else it looks as if nothing happened."""
    if sys.stdin is not None and sys.stdin.isatty():
        print("agentctl: type the prompt; Ctrl-D on a line of its own ends it", file=sys.stderr)


def teller(arguments: argparse.Namespace) -> Callable[[Session], None] | None:
    """Prints an id as soon as it is known. A JSON document is printed once, when all is known."""
    return None if arguments.json else _tell


def _tell(session: Session) -> None:
    try:
        print(rows.name(session), flush=True)
    except OSError:  # nobody reads it, or the disk is full: that ends us, later, and not the agent
        pass


def finished(
    sessions: list[Session], arguments: argparse.Namespace, more: Description | None = None
) -> int:
    """What comes after the ids: hooks that failed, the wait, the JSON. `more`: beside the sessions."""
    for session in sessions:
        _show_hooks(session)
    _warn_of_daemon()
    warn(sessions)
    if arguments.wait:
        return _wait(sessions, more or {}, as_json=arguments.json)
    if arguments.json:
        print(json.dumps({**shapes.envelope(sessions, []), **(more or {})}, indent=1), flush=True)
    return 0


def _warn_of_daemon() -> None:
    """A launch needs no daemon; but one that runs and does not do its work would tell nobody of it."""
    state = paths.state_directory(os.environ)
    if state is None or not os.path.exists(f"{state}/daemon.sock"):
        return
    if os.environ.get("AGENTCTL_NO_DAEMON", "") in ("", "0"):
        from agentctl.cli import daemon_parts

        daemon_parts.warn_of_running(state)


def warn(sessions: list[Session]) -> None:
    """Where somebody else's agent works in the same directory. One line, and no reason to refuse."""
    from agentctl.launch import neighbours
    from agentctl.sessions import query
    from agentctl.text import one_line

    live = query.everything().sessions if sessions else []
    for session in sessions:
        if others := neighbours.beside(session, live):
            print(f"agentctl: {one_line(neighbours.sentence(others))}", file=sys.stderr)


def _show_hooks(session: Session) -> None:
    for run in session.launch.hooks if session.launch is not None else ():
        if run.code != 0:
            how = f"exit code {run.code}" if run.code is not None else "took too long"
            told = one_line(f"agentctl: {run.hook} failed: {how}; see {run.output}")
            print(told, file=sys.stderr)


def _wait(sessions: list[Session], more: Description, *, as_json: bool) -> int:
    from agentctl.cli.verbs.wait import code_of, told
    from agentctl.watch.wait import Vigil

    done: list[Session] = []
    with Vigil(sessions, "stopped") as vigil, _go_on_without_us(sessions, done):
        for session in vigil.keep(None):
            over = _finished(session)
            done.append(over)
            if not as_json:
                print(f"agentctl: {rows.name(session)} {told(over)}", file=sys.stderr)
                _show_hooks(over)
        if as_json:
            print(json.dumps({**shapes.envelope(done, vigil.problems), **more}, indent=1), flush=True)
    return max((code_of(session) for session in done), default=0)


def _finished(session: Session) -> Session:
    """With what its on-complete hook came to: that is waited for, too."""
    from agentctl.launch import exit_record

    note = session.launch
    if note is None or note.on_complete is None:
        return session
    return session._replace(launch=exit_record.finished(note))


@contextmanager
def _go_on_without_us(sessions: list[Session], done: list[Session]) -> Iterator[None]:
    """Ctrl-C ends the wait and no agent; who presses it may believe otherwise."""
    try:
        yield
    except KeyboardInterrupt:
        over = {session.seen.session_id for session in done}
        left = [str(id_) for s in sessions if (id_ := s.seen.session_id) not in over]
        told = one_line(f"still at work; to end it: agentctl stop {' '.join(left)}")
        raise KeyboardInterrupt(told) from None


def herald(state: str, settings: config.Config) -> None:
    """Before it begins: who is to be told of it, is told by the daemon."""
    if settings.webhooks or settings.notify:
        from agentctl.cli.warning import warn
        from agentctl.deliver import ensure

        for warning in ensure.ready(state, settings):
            warn(warning)


def tidy(state: str, settings: config.Config) -> None:
    """When the ids are printed: nobody waits for it."""
    from agentctl.launch.prune import quietly

    quietly(state, settings.ttl.value)


def state_directory() -> str:
    """Where a launch is noted. Raises Unreachable."""
    state = paths.state_directory(os.environ)
    if state is None:
        raise Unreachable("no home is known to keep the launch in", "set AGENTCTL_HOME")
    return state
