"""The table of those to be told follows the settings."""

import json
from pathlib import Path

import pytest

from agentctl.config import settings as config
from agentctl.config.settings import Config
from agentctl.state import db, journal, targets
from agentctl.state.journal import Event


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def settings(tmp_path: Path, text: str, **environ: str) -> Config:
    (tmp_path / "config.toml").write_text(text)
    return config.load({"AGENTCTL_HOME": str(tmp_path), **environ})


def sync(path: str, given: Config, *, daemon: bool = False) -> bool:
    return targets.sync(path, given.webhooks, given.notify, daemon=daemon)


def rows(path: str) -> list[tuple[object, ...]]:
    with db.transaction(path) as connection:
        return connection.execute("select * from target order by kind, name").fetchall()


ALL = """
[webhooks.ci]
url = "https://me:hush@example.org/?hush"
secret = "hush"
groups = ["g"]
[notify.me]
desktop = true
on = ["waiting", "failed"]
[notify.done]
command = "echo hush"
on = ["finished"]
"""


def test_the_settings_are_there_without_what_is_secret(path: str, tmp_path: Path) -> None:
    given = settings(tmp_path, ALL)
    assert sync(path, given)
    default = json.dumps(["session.waiting", "session.stopped", "fuse.fired"])
    assert rows(path) == [
        ("notify", "done", '["session.stopped"]', None, None, '["completed", "interrupted", "unknown"]'),
        ("notify", "me", '["session.waiting", "session.stopped"]', None, None, '["failed", "killed"]'),
        ("webhook", "ci", default, None, '["g"]', None),
    ]
    assert targets.known(path) == {("webhook", "ci"), ("notify", "me"), ("notify", "done")}
    assert b"hush" not in Path(path).read_bytes()


def test_what_is_the_same_is_not_written_again(path: str, tmp_path: Path) -> None:
    sync(path, settings(tmp_path, ALL))
    assert not sync(path, settings(tmp_path, ALL))
    assert sync(path, settings(tmp_path, ALL.replace('"g"', '"h"')))
    assert rows(path)[2][4] == '["h"]'
    assert sync(path, settings(tmp_path, ""))
    assert rows(path) == []


def test_the_one_of_the_environment_is_the_daemon_s_to_take_away(path: str, tmp_path: Path) -> None:
    ours = settings(tmp_path, "", AGENTCTL_WEBHOOK_URL="https://example.org")
    assert sync(path, ours)
    assert not sync(path, settings(tmp_path, ""))  # a shell without the variable
    assert targets.known(path) == {("webhook", "environment")}
    assert sync(path, settings(tmp_path, ""), daemon=True)
    assert targets.known(path) == set()


def test_what_they_want_is_put_in_the_outbox(path: str, tmp_path: Path) -> None:
    sync(path, settings(tmp_path, ALL))
    ended = {"session": {"outcome": "completed"}}
    journal.record(path, [Event("session.stopped", 1.0, group="g", body=ended)])
    journal.record(path, [Event("session.waiting", 2.0), Event("user.x", 3.0)])
    with db.transaction(path) as connection:
        told = connection.execute("select seq, kind, target from outbox order by seq, kind").fetchall()
    assert told == [(1, "notify", "done"), (1, "webhook", "ci"), (2, "notify", "me")]
