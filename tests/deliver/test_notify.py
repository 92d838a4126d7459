"""The three ways to tell a person, with real programs and a real server."""

import email.header
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentctl.config import settings as config
from agentctl.config.settings import Config
from agentctl.daemon.parts.deliverer import Courier
from agentctl.deliver import notice, notify, suppress
from agentctl.deliver.notify import Notices
from agentctl.deliver.policy import Result
from agentctl.errors import SourceError
from agentctl.process import ours
from agentctl.state import db, journal, outbox, targets
from agentctl.state.outbox import Delivery, Lane
from agentctl.system import proc
from agentctl.truth.event import Event
from tests.sitting import sitting
from tests.waiting import until

NOW = time.time()


class Desk:
    """Settings in a home of their own, and programs on a PATH of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        self.notes = str(root / "state.db")
        self.environ = {"AGENTCTL_HOME": str(root), "HOME": str(root), "PATH": str(self.bin)}

    def say(self, text: str) -> Config:
        (self.root / "config.toml").write_text(text)
        return config.load(self.environ)

    def install(self, name: str, script: str) -> None:
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def tell(self, settings: Config, event: Event) -> Result:
        """As the courier does it: written, found, claimed, delivered."""
        targets.sync(self.notes, settings.webhooks, settings.notify)
        seq = journal.record(self.notes, [event])[0]
        [target] = settings.notify
        due = outbox.next_due(self.notes, Lane("notify", target), NOW)
        assert due is not None
        claimed = outbox.claim(self.notes, due, NOW, NOW + 5)
        assert claimed is not None
        return self.deliver(settings, claimed, event._replace(seq=seq))

    def deliver(self, settings: Config, delivery: Delivery, event: Event) -> Result:
        return Notices(self.notes, self.environ).deliver(delivery, event, settings)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def event(kind: str = "session.waiting", **session: Any) -> Event:
    known = {"id": "4f2a", "cwd": "/home/me/shop", "waiting_for": "question", **session}
    return Event(kind, NOW, NOW, "pi", "4f2a", "team", {"session": known})


WRITES = 'for word; do printf "%s\\0" "$word"; done > "$HOME/told"'


def told(desk: Desk) -> list[str]:
    return (desk.root / "told").read_text().split("\0")[:-1]


def test_on_the_desktop(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    hostile = 'it\'s "$(touch pwned)" <b>&\x1b[31m\u202e --urgency=low'
    assert desk.tell(settings, event(title=hostile)).outcome == "delivered"
    assert told(desk) == [
        "--app-name=agentctl",
        "--urgency=normal",
        "--",
        "pi waits for you in shop",
        'pi in shop (it\'s "$(touch pwned)" &lt;b&gt;&amp;[31m --urgency=low) has a question for you.',
    ]
    assert not (desk.root / "pwned").exists()


def test_a_failure_is_louder(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    assert desk.tell(settings, event("session.stopped", outcome="failed")).outcome == "delivered"
    assert told(desk)[1] == "--urgency=critical"
    assert told(desk)[3] == "pi has failed in shop"


def test_on_the_desktop_of_a_mac(desk: Desk) -> None:
    desk.install("osascript", WRITES)
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    assert desk.tell(settings, event(title='" & (do shell script "x") & "')).outcome == "delivered"
    words = told(desk)
    assert words[-2] == "pi waits for you in shop"
    assert "do shell script" in words[-1]
    assert not any("do shell script" in word for word in words[:-1])


def test_without_a_desktop_it_is_told_what_is_missing(desk: Desk) -> None:
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    result = desk.tell(settings, event())
    assert (result.outcome, result.told) == ("dead", "neither notify-send nor osascript is on the PATH")


def test_a_program_that_fails_says_why(desk: Desk) -> None:
    desk.install("notify-send", "echo 'cannot open display' >&2; exit 1")
    result = desk.tell(desk.say("[notify.desk]\ndesktop = true\n"), event())
    assert (result.outcome, result.told) == ("dead", "exit code 1: cannot open display")


def test_a_command_is_told_by_its_environment(desk: Desk) -> None:
    desk.environ |= {"PATH": "/usr/bin:/bin", ours.LAUNCH: "of whoever started the daemon"}
    settings = desk.say("[notify.mine]\ncommand = 'env -0 > told; pwd > where'\n")
    assert desk.tell(settings, event(title="$(touch pwned)")).outcome == "delivered"
    found = dict(pair.split("=", 1) for pair in told(desk))
    assert found["AGENTCTL_ON"] == "waiting"
    assert found["AGENTCTL_NOTIFY"] == "mine"
    assert found["AGENTCTL_TEXT"] == "pi in shop ($(touch pwned)) has a question for you."
    assert set(notice.VARIABLES) <= set(found)
    assert ours.LAUNCH not in found
    assert (desk.root / "where").read_text() == f"{desk.root}\n"
    assert not (desk.root / "pwned").exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [("exit 3", "exit code 3"), ("kill -9 $$", "signal 9"), ("no-such-thing", "exit code 127: ")],
)
def test_a_command_that_fails_is_not_tried_again(desk: Desk, command: str, why: str) -> None:
    result = desk.tell(desk.say(f"[notify.mine]\ncommand = '{command}'\n"), event())
    assert result.outcome == "dead"
    assert result.told.startswith(why)


def test_a_command_that_hangs_is_ended_with_all_it_started(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "LIMIT", 0.3)
    desk.environ["PATH"] = "/usr/bin:/bin"
    mark = f"1{os.getpid()}.5"
    settings = desk.say(f"[notify.mine]\ncommand = 'setsid sleep {mark} & sleep {mark}'\n")
    result = desk.tell(settings, event())
    assert (result.outcome, result.told) == ("dead", "it took longer than 0.3 s")
    until(lambda: not _sleeping(mark), "both are gone")


def _sleeping(mark: str) -> list[int]:
    found = []
    for process in proc.read_table().values():
        try:
            if process.alive and process.argv[-1:] == (mark,):
                found.append(process.pid)
        except SourceError:
            continue
    return found


class Ntfy(HTTPServer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[str, dict[str, str], str]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/agents"


class _Handler(BaseHTTPRequestHandler):
    server: Ntfy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def ntfy() -> Iterator[Ntfy]:
    with Ntfy() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_by_http_as_ntfy_takes_it(desk: Desk, ntfy: Ntfy) -> None:
    settings = desk.say(f'[notify.phone]\nurl = "{ntfy.url}"\ntoken = "tk_1"\n')
    result = desk.tell(settings, event(cwd="/home/me/größe 🛠", title="日本"))
    assert (result.outcome, result.status) == ("delivered", 200)
    [(path, headers, body)] = ntfy.got
    assert path == "/agents"
    title = str(email.header.make_header(email.header.decode_header(headers["Title"])))
    assert title == "pi waits for you in größe 🛠"
    assert body == "pi in größe 🛠 (日本) has a question for you."
    assert (headers["Priority"], headers["Tags"]) == ("high", "raised_hand")
    assert headers["Authorization"] == "Bearer tk_1"


def test_a_person_s_own_title_and_priority(desk: Desk, ntfy: Ntfy) -> None:
    settings = desk.say(f'[notify.phone]\nurl = "{ntfy.url}"\ntitle = "agents"\npriority = "min"\n')
    assert desk.tell(settings, event("session.stopped", outcome="completed")).outcome == "delivered"
    [(_, headers, _)] = ntfy.got
    assert (headers["Title"], headers["Priority"]) == ("agents", "min")
    assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(500, "failed"), (503, "failed"), (429, "failed"), (403, "dead"), (302, "dead")],
)
def test_what_is_worth_another_try(desk: Desk, ntfy: Ntfy, status: int, outcome: str) -> None:
    ntfy.status = status
    assert desk.tell(desk.say(f'[notify.phone]\nurl = "{ntfy.url}"\n'), event()).outcome == outcome


def test_a_server_that_is_not_there_is_tried_again(desk: Desk, ntfy: Ntfy) -> None:
    ntfy.server_close()
    settings = desk.say(f'[notify.phone]\nurl = "{ntfy.url}"\n')
    assert desk.tell(settings, event()).outcome == "failed"


def test_what_need_not_be_told_is_dropped(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    result = desk.tell(settings, event()._replace(seen_at=time.time() - 700))
    assert (result.outcome, result.told) == ("dropped", "too late: 11m ago")
    assert not (desk.root / "told").exists()


def test_who_is_there_is_told_once_they_are_not(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    with sitting() as one:
        alive = {"claim": "alive", "address": one.identity.address}
        asks = event(evidence=[alive])
        one.typed_at(time.time() - 5)
        result = desk.tell(settings, asks)
        assert (result.outcome, result.told, result.after) == (
            "failed",
            "you are there",
            suppress.ABSENT,
        )
        [(delivery, _)] = outbox.listed(desk.notes, "notify")
        last = delivery._replace(attempt=Notices.policy.tries)
        assert desk.deliver(settings, last, asks).outcome == "dropped"
        assert not (desk.root / "told").exists()
        one.typed_at(time.time() - 90)
        assert desk.deliver(settings, delivery, asks).outcome == "delivered"
        assert told(desk)


def test_an_end_is_told_to_who_is_there_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppress, "there", lambda *_: True)
    desk.install("notify-send", WRITES)
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    assert desk.tell(settings, event("session.stopped", outcome="completed")).outcome == "delivered"


def test_a_journal_that_cannot_be_read_keeps_nobody_from_being_told(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    delivery = Delivery("1", "notify", "desk", None, 1, NOW, NOW, None, None, 1, "pending", None, None)
    assert desk.deliver(settings, delivery, event()._replace(seq=1)).outcome == "delivered"


def test_only_what_is_in_the_settings_is_known(desk: Desk) -> None:
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    made = Notices(desk.notes, desk.environ)
    assert made.knows("desk", None, settings)
    assert not made.knows("phone", None, settings)
    assert not made.knows("desk", "https://example.org", settings)


def test_who_wants_only_failures_gets_only_these(desk: Desk) -> None:
    settings = desk.say('[notify.desk]\ndesktop = true\non = ["failed"]\n')
    targets.sync(desk.notes, settings.webhooks, settings.notify)
    for told_of in (event(), event("session.stopped", outcome="completed")):
        journal.record(desk.notes, [told_of])
    journal.record(desk.notes, [event("session.stopped", outcome="killed")])
    with db.transaction(desk.notes) as connection:
        rows = connection.execute("select body from outbox join event using (seq)").fetchall()
    assert [json.loads(body)["session"]["outcome"] for (body,) in rows] == ["killed"]


@contextmanager
def couriers(desk: Desk) -> Iterator[None]:
    """As the daemon has it."""
    made = Courier(str(desk.root), desk.environ, [Notices(desk.notes, desk.environ)])
    made.start()
    try:
        yield
    finally:
        made.stop()


def results(desk: Desk) -> list[tuple[str, str | None]]:
    found = [e for e in journal.after(desk.notes, 0) if e.type.startswith("notify.")]
    return [(e.type, e.body["data"].get("why")) for e in found]


def test_told_once_whatever_the_daemon_goes_through(desk: Desk) -> None:
    desk.install("notify-send", 'echo "$4" >> "$HOME/told"')
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    targets.sync(desk.notes, settings.webhooks, settings.notify)
    journal.record(desk.notes, [event()])
    with couriers(desk):
        until(lambda: len(results(desk)) == 1, "it is told")
    # the same wait once more, as after a moment in which nobody could tell; then another one
    journal.record(desk.notes, [event("session.unknown"), event(), event()._replace(subject="other")])
    with couriers(desk):
        until(lambda: len(results(desk)) == 3, "all are settled")
    assert sorted(results(desk), key=str) == [
        ("notify.delivered", None),
        ("notify.delivered", None),
        ("notify.quiet", "told already"),
    ]
    assert (desk.root / "told").read_text().splitlines() == ["pi waits for you in shop"] * 2
    about = [e for e in journal.of(desk.notes, "4f2a") if e.type == "notify.delivered"]
    assert [e.body["data"]["of"] for e in about] == [{"seq": 1, "type": "session.waiting"}]


def test_a_laptop_that_wakes_up_is_not_flooded(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.say("[notify.desk]\ndesktop = true\n")
    targets.sync(desk.notes, settings.webhooks, settings.notify)
    evening = event("session.stopped", outcome="completed")._replace(
        seen_at=NOW - 40_000, at=NOW - 40_000
    )
    journal.record(desk.notes, [evening._replace(subject=f"s{number}") for number in range(50)])
    with couriers(desk):
        until(lambda: len(results(desk)) == 50, "all are settled")
    assert set(results(desk)) == {("notify.quiet", "too late: 11h ago")}
    assert not (desk.root / "told").exists()
