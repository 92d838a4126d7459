"""Tells a person: on the desktop, by a POST as ntfy takes it, or by a command of theirs. One try each,
bounded in time; nobody's text comes near a shell."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from typing import IO

from agentctl import __version__
from agentctl.config.settings import Config
from agentctl.config.targets import Notify
from agentctl.deliver import http, notice, suppress
from agentctl.deliver.notice import PRIORITIES, TAGS, Notice
from agentctl.deliver.policy import Policy, Result
from agentctl.errors import SourceError
from agentctl.paths import home
from agentctl.process import limited
from agentctl.process.ours import LAUNCH
from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event

LIMIT = 30.0  # seconds for a program
WORDS = 300  # characters of what a program said that failed
# The text is in its arguments: AppleScript that was put together from it would be run.
_SCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


class Notices:
    """Delivers to the `[notify.NAME]` of the settings."""

    kind = "notify"
    # a network that has just come back is worth a few minutes; then it is too late
    policy = Policy(first=2.0, most=60.0, lasts=240.0, tries=4)

    def __init__(self, notes: str, environ: Mapping[str, str]) -> None:
        self._notes = notes
        self._environ = environ

    def knows(self, target: str, url: str | None, settings: Config) -> bool:
        return url is None and target in settings.notify

    def deliver(self, delivery: Delivery, event: Event, settings: Config) -> Result:
        now = time.time()
        try:
            why = suppress.reason(self._notes, delivery.target, event, now)
        except SourceError:  # rather told twice than not at all
            why = None
        if why is not None:
            return Result("dropped", why)
        if event.type == "session.waiting" and suppress.there(event, now):
            # who is there may go: then it is still to be told
            later = delivery.attempt < self.policy.tries
            return (
                Result("failed", suppress.THERE, after=suppress.ABSENT)
                if later
                else Result("dropped", suppress.THERE)
            )
        return tell(notice.of(event), settings.notify[delivery.target], self._environ)


def tell(told: Notice, target: Notify, environ: Mapping[str, str]) -> Result:
    """Only what a network has failed at is worth another try."""
    began = time.monotonic()
    if target.url.value is not None:
        return _posted(told, target, target.url.value)
    if target.command.value is not None:
        facts = {**told.facts, "AGENTCTL_NOTIFY": target.name}
        result = _ran(["/bin/sh", "-c", target.command.value], {**environ, **facts})
    else:
        words = on_desktop(told, environ)
        if words is None:
            result = Result("dead", "neither notify-send nor osascript is on the PATH")
        else:
            result = _ran(words, environ)
    return result._replace(seconds=time.monotonic() - began)


def on_desktop(told: Notice, environ: Mapping[str, str]) -> list[str] | None:
    """The words of the program that shows it; None: there is none."""
    path = environ.get("PATH", os.defpath)
    program = shutil.which("notify-send", path=path)
    if program is not None:
        urgency = "critical" if told.word == "failed" else "normal"
        # a desktop takes <b> and & in the text for markup
        text = escape(told.text, quote=False)
        return [program, "--app-name=agentctl", f"--urgency={urgency}", "--", told.title, text]
    program = shutil.which("osascript", path=path)
    if program is not None:
        lines = [word for line in _SCRIPT for word in ("-e", line)]
        return [program, *lines, told.title, told.text]
    return None


def headers(told: Notice, target: Notify) -> dict[str, str]:
    priority = target.priority.value or PRIORITIES[told.word]
    made = {
        "Content-Type": "text/plain; charset=utf-8",
        "User-Agent": f"agentctl/{__version__}",
        "Title": _header(target.title.value or told.title),
        "Priority": priority,
        "Tags": TAGS[told.word],
    }
    if target.token.value is not None:
        made["Authorization"] = f"Bearer {_header(target.token.value)}"
    return made


def _posted(told: Notice, target: Notify, url: str) -> Result:
    result = http.sent(url, told.text.encode(), headers(told, target))
    refused = (
        result.status is not None and 300 <= result.status < 500 and result.status not in (408, 429)
    )
    return result._replace(outcome="dead") if result.outcome == "failed" and refused else result


def _header(text: str) -> str:
    """On one line; what is not ASCII as RFC 2047 has it, which ntfy reads."""
    plain = notice.line(text, 1000)
    if plain.isascii():
        return plain
    return f"=?UTF-8?B?{b64encode(plain.encode()).decode()}?="


def _ran(words: Sequence[str], environ: Mapping[str, str]) -> Result:
    marker = f"notify/{os.getpid()}/{time.monotonic_ns()}"
    # not of the launch that has started us, if one has: it would be ended with that
    given = {name: environ[name] for name in environ if name != LAUNCH}
    place = home(environ)
    cwd = place if place is not None and os.path.isdir(place) else "/"
    with tempfile.TemporaryFile() as said:
        try:
            child = limited.started(words, cwd, given, marker, said)
        except (OSError, ValueError) as error:
            return Result("dead", f"it could not be started: {error}")
        code = limited.awaited(child, marker, LIMIT)
        if code is None:
            return Result("dead", f"it took longer than {LIMIT:g} s")
        return Result("delivered") if code == 0 else Result("dead", _failure(code, said))


def _failure(code: int, said: IO[bytes]) -> str:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - WORDS))
    words = notice.line(said.read(WORDS).decode("utf-8", "replace"), WORDS)
    return f"{how}: {words}" if words else how
