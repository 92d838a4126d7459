"""The three ways to notify a user, with real programs and a real server."""

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
from agentctl.daemon.parts.deliverer import Deliverer
from agentctl.deliver import notice, notify, suppress
from agentctl.deliver.notify import NotifySender
from agentctl.deliver.policy import Result
from agentctl.errors import SourceError
from agentctl.process import ours
from agentctl.state import db, journal, outbox
from agentctl.state.outbox import Delivery, Lane
from agentctl.system import proc
from agentctl.truth.event import Event
from tests.sitting import sitting
from tests.waiting import until

NOW = time.time()


class Desk:
    """A home with settings, and a PATH with programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        self.notes = str(root / "state.db")
        self.environ = {"AGENTCTL_HOME": str(root), "HOME": str(root), "PATH": str(self.bin)}

    def write_settings(self, text: str) -> Config:
        (self.root / "config.toml").write_text(text)
        return config.load(self.environ)

    def install(self, name: str, script: str) -> None:
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def send(self, settings: Config, event: Event) -> Result:
        """Record, find, claim and deliver it, as the deliverer does."""
        outbox.sync_targets(self.notes, settings.webhooks, settings.notify)
        seq = journal.append_events(self.notes, [event])[0]
        [target] = settings.notify
        due = outbox.find_next_due(self.notes, Lane("notify", target), NOW)
        assert due is not None
        claimed = outbox.claim_delivery(self.notes, due, NOW, NOW + 5)
        assert claimed is not None
        return self.deliver(settings, claimed, event._replace(seq=seq))

    def deliver(self, settings: Config, delivery: Delivery, event: Event) -> Result:
        return NotifySender(self.notes, self.environ).deliver(delivery, event, settings)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def make_event(kind: str = "session.waiting", **session: Any) -> Event:
    fields = {"id": "4f2a", "cwd": "/home/me/shop", "waiting_for": "question", **session}
    return Event(kind, NOW, NOW, "pi", "4f2a", "team", {"session": fields})


WRITES = 'for word; do printf "%s\\0" "$word"; done > "$HOME/output"'


def read_output(desk: Desk) -> list[str]:
    return (desk.root / "output").read_text().split("\0")[:-1]


def test_a_notice_on_the_desktop(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    hostile = 'it\'s "$(touch pwned)" <b>&\x1b[31m\u202e --urgency=low'
    assert desk.send(settings, make_event(title=hostile)).outcome == "delivered"
    assert read_output(desk) == [
        "--app-name=agentctl",
        "--urgency=normal",
        "--",
        "pi waits for you in shop",
        'pi in shop (it\'s "$(touch pwned)" &lt;b&gt;&amp;[31m --urgency=low) has a question for you.',
    ]
    assert not (desk.root / "pwned").exists()


def test_a_failure_is_urgent(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    assert desk.send(settings, make_event("session.stopped", outcome="failed")).outcome == "delivered"
    assert read_output(desk)[1] == "--urgency=critical"
    assert read_output(desk)[3] == "pi has failed in shop"


def test_without_a_desktop_the_error_names_the_missing_program(desk: Desk) -> None:
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    result = desk.send(settings, make_event())
    assert (result.outcome, result.message) == (
        "dead",
        "notify-send is not on the PATH",
    )


def test_the_error_of_a_program_is_in_the_result(desk: Desk) -> None:
    desk.install("notify-send", "echo 'cannot open display' >&2; exit 1")
    result = desk.send(desk.write_settings("[notify.desk]\ndesktop = true\n"), make_event())
    assert (result.outcome, result.message) == ("dead", "exit code 1: cannot open display")


def test_a_command_gets_the_facts_in_its_environment(desk: Desk) -> None:
    desk.environ |= {"PATH": "/usr/bin:/bin", ours.LAUNCH: "of the process that started the daemon"}
    settings = desk.write_settings("[notify.mine]\ncommand = 'env -0 > output; pwd > where'\n")
    assert desk.send(settings, make_event(title="$(touch pwned)")).outcome == "delivered"
    variables = dict(pair.split("=", 1) for pair in read_output(desk))
    assert variables["AGENTCTL_ON"] == "waiting"
    assert variables["AGENTCTL_NOTIFY"] == "mine"
    assert variables["AGENTCTL_TEXT"] == "pi in shop ($(touch pwned)) has a question for you."
    assert set(notice.VARIABLES) <= set(variables)
    assert ours.LAUNCH not in variables
    assert (desk.root / "where").read_text() == f"{desk.root}\n"
    assert not (desk.root / "pwned").exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [("exit 3", "exit code 3"), ("kill -9 $$", "signal 9"), ("no-such-thing", "exit code 127: ")],
)
def test_a_command_that_fails_is_not_tried_again(desk: Desk, command: str, why: str) -> None:
    result = desk.send(desk.write_settings(f"[notify.mine]\ncommand = '{command}'\n"), make_event())
    assert result.outcome == "dead"
    assert result.message.startswith(why)


def test_a_command_that_hangs_is_killed_with_its_children(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "LIMIT", 0.3)
    desk.environ["PATH"] = "/usr/bin:/bin"
    mark = f"1{os.getpid()}.5"
    settings = desk.write_settings(f"[notify.mine]\ncommand = 'setsid sleep {mark} & sleep {mark}'\n")
    result = desk.send(settings, make_event())
    assert (result.outcome, result.message) == ("dead", "it took longer than 0.3 s")
    until(lambda: not find_sleeping(mark), "both are gone")


def find_sleeping(mark: str) -> list[int]:
    pids = []
    for process in proc.read_table().values():
        try:
            if process.is_alive and process.argv[-1:] == (mark,):
                pids.append(process.pid)
        except SourceError:
            continue
    return pids


class Ntfy(HTTPServer):
    """Keeps the requests that it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, dict[str, str], str]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/agents"


class _Handler(BaseHTTPRequestHandler):
    server: Ntfy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.requests.append((self.path, dict(self.headers), body))
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


def test_a_notice_by_http_in_the_format_of_ntfy(desk: Desk, ntfy: Ntfy) -> None:
    settings = desk.write_settings(f'[notify.phone]\nurl = "{ntfy.url}"\ntoken = "tk_1"\n')
    result = desk.send(settings, make_event(cwd="/home/me/größe 🛠", title="日本"))
    assert (result.outcome, result.status) == ("delivered", 200)
    [(path, headers, body)] = ntfy.requests
    assert path == "/agents"
    title = str(email.header.make_header(email.header.decode_header(headers["Title"])))
    assert title == "pi waits for you in größe 🛠"
    assert body == "pi in größe 🛠 (日本) has a question for you."
    assert (headers["Priority"], headers["Tags"]) == ("high", "raised_hand")
    assert headers["Authorization"] == "Bearer tk_1"


def test_the_settings_may_set_title_and_priority(desk: Desk, ntfy: Ntfy) -> None:
    settings = desk.write_settings(
        f'[notify.phone]\nurl = "{ntfy.url}"\ntitle = "agents"\npriority = "min"\n'
    )
    assert desk.send(settings, make_event("session.stopped", outcome="completed")).outcome == "delivered"
    [(_, headers, _)] = ntfy.requests
    assert (headers["Title"], headers["Priority"]) == ("agents", "min")
    assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(500, "failed"), (503, "failed"), (429, "failed"), (403, "dead"), (302, "dead")],
)
def test_which_statuses_are_tried_again(desk: Desk, ntfy: Ntfy, status: int, outcome: str) -> None:
    ntfy.status = status
    assert (
        desk.send(desk.write_settings(f'[notify.phone]\nurl = "{ntfy.url}"\n'), make_event()).outcome
        == outcome
    )


def test_a_server_that_is_not_there_is_tried_again(desk: Desk, ntfy: Ntfy) -> None:
    ntfy.server_close()
    settings = desk.write_settings(f'[notify.phone]\nurl = "{ntfy.url}"\n')
    assert desk.send(settings, make_event()).outcome == "failed"


def test_an_old_event_is_dropped(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    result = desk.send(settings, make_event()._replace(seen_at=time.time() - 700))
    assert (result.outcome, result.message) == ("dropped", "too late: 11m ago")
    assert not (desk.root / "output").exists()


def test_a_user_who_is_present_is_notified_when_they_leave(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    with sitting() as one:
        alive = {"claim": "alive", "address": one.identity.address}
        asks = make_event(evidence=[alive])
        one.typed_at(time.time() - 5)
        result = desk.send(settings, asks)
        assert (result.outcome, result.message, result.after) == (
            "failed",
            "you are there",
            suppress.ABSENT,
        )
        [(delivery, _)] = outbox.list_deliveries(desk.notes, "notify")
        last = delivery._replace(attempt=NotifySender.policy.tries)
        assert desk.deliver(settings, last, asks).outcome == "dropped"
        assert not (desk.root / "output").exists()
        one.typed_at(time.time() - 90)
        assert desk.deliver(settings, delivery, asks).outcome == "delivered"
        assert read_output(desk)


def test_an_end_is_sent_to_a_user_who_is_present(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppress, "is_user_present", lambda *_: True)
    desk.install("notify-send", WRITES)
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    assert desk.send(settings, make_event("session.stopped", outcome="completed")).outcome == "delivered"


def test_a_notice_is_sent_though_the_journal_cannot_be_read(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    delivery = Delivery("1", "notify", "desk", None, 1, NOW, NOW, None, None, 1, "pending", None, None)
    assert desk.deliver(settings, delivery, make_event()._replace(seq=1)).outcome == "delivered"


def test_only_targets_in_the_settings_exist(desk: Desk) -> None:
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    sender = NotifySender(desk.notes, desk.environ)
    assert sender.has_target("desk", None, settings)
    assert not sender.has_target("phone", None, settings)
    assert not sender.has_target("desk", "https://example.org", settings)


def test_a_target_gets_only_the_events_in_its_settings(desk: Desk) -> None:
    settings = desk.write_settings('[notify.desk]\ndesktop = true\non = ["failed"]\n')
    outbox.sync_targets(desk.notes, settings.webhooks, settings.notify)
    for event in (make_event(), make_event("session.stopped", outcome="completed")):
        journal.append_events(desk.notes, [event])
    journal.append_events(desk.notes, [make_event("session.stopped", outcome="killed")])
    with db.transaction(desk.notes) as connection:
        rows = connection.execute("select body from outbox join event using (seq)").fetchall()
    assert [json.loads(body)["session"]["outcome"] for (body,) in rows] == ["killed"]


@contextmanager
def running_deliverer(desk: Desk) -> Iterator[None]:
    """Run a deliverer with notifications, as the daemon does."""
    deliverer = Deliverer(str(desk.root), desk.environ, [NotifySender(desk.notes, desk.environ)])
    deliverer.start()
    try:
        yield
    finally:
        deliverer.stop()


def read_results(desk: Desk) -> list[tuple[str, str | None]]:
    events = [e for e in journal.read_after(desk.notes, 0) if e.type.startswith("notify.")]
    return [(e.type, e.body["data"].get("why")) for e in events]


def test_a_notice_is_sent_once_though_the_daemon_restarts(desk: Desk) -> None:
    desk.install("notify-send", 'echo "$4" >> "$HOME/output"')
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    outbox.sync_targets(desk.notes, settings.webhooks, settings.notify)
    journal.append_events(desk.notes, [make_event()])
    with running_deliverer(desk):
        until(lambda: len(read_results(desk)) == 1, "it is sent")
    # the same wait once more, as after a moment in which it was unknown; then another one
    journal.append_events(
        desk.notes, [make_event("session.unknown"), make_event(), make_event()._replace(subject="other")]
    )
    with running_deliverer(desk):
        until(lambda: len(read_results(desk)) == 3, "all are settled")
    assert sorted(read_results(desk), key=str) == [
        ("notify.delivered", None),
        ("notify.delivered", None),
        ("notify.quiet", "sent already"),
    ]
    assert (desk.root / "output").read_text().splitlines() == ["pi waits for you in shop"] * 2
    about = [e for e in journal.read_about(desk.notes, "4f2a") if e.type == "notify.delivered"]
    assert [e.body["data"]["of"] for e in about] == [{"seq": 1, "type": "session.waiting"}]


def test_a_laptop_that_wakes_up_gets_no_old_notices(desk: Desk) -> None:
    desk.install("notify-send", WRITES)
    settings = desk.write_settings("[notify.desk]\ndesktop = true\n")
    outbox.sync_targets(desk.notes, settings.webhooks, settings.notify)
    evening = make_event("session.stopped", outcome="completed")._replace(
        seen_at=NOW - 40_000, at=NOW - 40_000
    )
    journal.append_events(desk.notes, [evening._replace(subject=f"s{number}") for number in range(50)])
    with running_deliverer(desk):
        until(lambda: len(read_results(desk)) == 50, "all are settled")
    assert set(read_results(desk)) == {("notify.quiet", "too late: 11h ago")}
    assert not (desk.root / "output").exists()
