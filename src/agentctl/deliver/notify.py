"""Notify the user: on the desktop, by a POST as ntfy takes it, or by a command of the user's. One try
each, bounded in time. No text of an agent reaches a shell as code."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from base64 import b64encode
from html import escape
from typing import IO

from agentctl import __version__
from agentctl.config.keys import Notify
from agentctl.config.settings import Config
from agentctl.deliver import notice, suppress
from agentctl.deliver.notice import PRIORITIES, TAGS, Notice
from agentctl.deliver.policy import Policy, Result
from agentctl.errors import SourceError
from agentctl.light_typing import Mapping, Sequence
from agentctl.paths import home_directory
from agentctl.process import limited
from agentctl.process.ours import LAUNCH
from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event

LIMIT = 30.0  # seconds for a program
OUTPUT = 300  # characters of a failed program's output


class NotifySender:
    """Delivers to the `[notify.NAME]` of the settings."""

    kind = "notify"
    # a network may come back within minutes; after that the notification is too late
    policy = Policy(first=2.0, most=60.0, lasts=240.0, tries=4)

    def __init__(self, database: str, environ: Mapping[str, str]) -> None:
        self._database = database
        self._environ = environ

    def has_target(self, target: str, url: str | None, settings: Config) -> bool:
        return url is None and target in settings.notify

    def deliver(self, delivery: Delivery, event: Event, settings: Config) -> Result:
        now = time.time()
        try:
            why = suppress.drop_reason(self._database, delivery.target, event, now)
        except SourceError:  # a second notification is better than none
            why = None
        if why is not None:
            return Result("dropped", why)
        if event.type == "session.waiting" and suppress.is_user_present(event, now):
            # the user may leave, and is notified then
            if delivery.attempt < self.policy.tries:
                return Result("failed", suppress.THERE, after=suppress.ABSENT)
            return Result("dropped", suppress.THERE)
        return send_notice(notice.make_notice(event), settings.notify[delivery.target], self._environ)


def send_notice(message: Notice, target: Notify, environ: Mapping[str, str]) -> Result:
    """Return the result. Only a failure of the network is worth another try."""
    began = time.monotonic()
    if target.url.value is not None:
        return _post(message, target, target.url.value)
    if target.command.value is not None:
        facts = {**message.facts, "AGENTCTL_NOTIFY": target.name}
        result = _run(["/bin/sh", "-c", target.command.value], {**environ, **facts})
    else:
        command = desktop_command(message, environ)
        if command is None:
            result = Result("dead", "notify-send is not on the PATH")
        else:
            result = _run(command, environ)
    return result._replace(seconds=time.monotonic() - began)


def desktop_command(message: Notice, environ: Mapping[str, str]) -> list[str] | None:
    """Return the command that shows the notice on a desktop; None: its program is not installed."""
    program = shutil.which("notify-send", path=environ.get("PATH", os.defpath))
    if program is None:
        return None
    urgency = "critical" if message.word == "failed" else "normal"
    text = escape(message.text, quote=False)  # a desktop reads <b> and & in the text as markup
    return [program, "--app-name=agentctl", f"--urgency={urgency}", "--", message.title, text]


def notice_headers(message: Notice, target: Notify) -> dict[str, str]:
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "User-Agent": f"agentctl/{__version__}",
        "Title": _encode_header(target.title.value or message.title),
        "Priority": target.priority.value or PRIORITIES[message.word],
        "Tags": TAGS[message.word],
    }
    if target.token.value is not None:
        headers["Authorization"] = f"Bearer {_encode_header(target.token.value)}"
    return headers


def _post(message: Notice, target: Notify, url: str) -> Result:
    from agentctl.deliver import http  # costs memory, and many users have no such target

    result = http.post(url, message.text.encode(), notice_headers(message, target))
    is_refused = (
        result.status is not None and 300 <= result.status < 500 and result.status not in (408, 429)
    )
    return result._replace(outcome="dead") if result.outcome == "failed" and is_refused else result


def _encode_header(text: str) -> str:
    """Return one line of ASCII; other characters by RFC 2047, which ntfy reads."""
    plain = notice.plain_line(text, 1000)
    if plain.isascii():
        return plain
    return f"=?UTF-8?B?{b64encode(plain.encode()).decode()}?="


def _run(command: Sequence[str], environ: Mapping[str, str]) -> Result:
    marker = f"notify/{os.getpid()}/{time.monotonic_ns()}"
    # without the launch id of the agent that started the daemon, if one did: a stop of that launch
    # would end the command, too
    variables = {name: environ[name] for name in environ if name != LAUNCH}
    home = home_directory(environ)
    cwd = home if home is not None and os.path.isdir(home) else "/"
    with tempfile.TemporaryFile() as output:
        try:
            child = limited.start_command(command, cwd, variables, marker, output)
        except (OSError, ValueError) as error:
            return Result("dead", f"it could not be started: {error}")
        code = limited.wait_for_command(child, marker, LIMIT)
        if code is None:
            return Result("dead", f"it took longer than {LIMIT:g} s")
        return Result("delivered") if code == 0 else Result("dead", _describe_failure(code, output))


def _describe_failure(code: int, output: IO[bytes]) -> str:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - OUTPUT))
    text = notice.plain_line(output.read(OUTPUT).decode("utf-8", "replace"), OUTPUT)
    return f"{how}: {text}" if text else how
