"""Fuse management: actions, targets, and the errors of each."""

import os
from pathlib import Path

import pytest

from agentctl.cli import answer
from agentctl.errors import Ambiguous, NotFound, Refused, UsageError
from agentctl.fuses import manage
from agentctl.state.fuses import Action
from tests.fakes.demo import DemoStage

EMIT = (Action("emit", "x"),)


@pytest.fixture(autouse=True)
def here(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    stage.work.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(stage.work)
    return stage.work.resolve()


def test_actions_are_in_the_order_in_which_they_run() -> None:
    url = "https://example.org/"
    assert manage.make_actions(os.environ, stop=True, run="ls", emit="a.b-c_1", webhook=url) == (
        Action("stop"),
        Action("run", "ls"),
        Action("emit", "a.b-c_1"),
        Action("webhook", url),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "missing action"),
        ({"run": " "}, "--run: the command is empty"),
        ({"run": "echo caf\udce9"}, "--run: not UTF-8 text"),
        ({"emit": "No Name"}, "--emit: not an event name"),
        ({"emit": ""}, "--emit: not an event name"),
        ({"emit": "x" * 65}, "--emit: not an event name"),
        ({"webhook": "ftp://x"}, "--webhook: a web address begins with https://"),
        ({"webhook": "https://me:12345@example.org/x"}, "may hold a secret"),
        ({"webhook": "https://me@example.org/x"}, "may hold a secret"),
        ({"webhook": "https://example.org/x?token=12345"}, "may hold a secret"),
        ({"webhook": "ci"}, "--webhook: no webhook named 'ci'"),
        ({"webhook": ""}, "--webhook: no webhook named ''"),
    ],
)
def test_an_action_that_cannot_be_made_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        manage.make_actions(
            os.environ, run=options.get("run"), emit=options.get("emit"), webhook=options.get("webhook")
        )
    assert "12345" not in f"{caught.value} {caught.value.hint}"


def test_a_webhook_of_the_settings_is_stored_by_its_name(stage: DemoStage) -> None:
    home = Path(stage.environ["AGENTCTL_HOME"])
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(
        '[webhooks.ci]\nurl = "https://me:12345@example.org/x?token=12345"\n'
    )
    (action,) = manage.make_actions(os.environ, webhook="ci")
    assert action == Action("webhook", "ci")
    fuse = manage.set_on_directory(os.environ, ".", 60, (action,))
    assert manage.describe_actions(fuse) == "webhook ci"
    assert not [path for path in home.glob("state.db*") if b"12345" in path.read_bytes()]
    with pytest.raises(UsageError) as caught:
        manage.make_actions(os.environ, webhook="ic")
    assert caught.value.hint == "known: ci"


def test_a_path_is_a_directory_and_any_other_word_an_id(here: Path) -> None:
    (here / "4f2a").mkdir()
    for path in (".", "..", "./x", "/x", "~", "a/b", "4f2a"):
        assert manage.is_directory(path), path
    for word in ("4f2b", "pid:4711", "ses_1", ""):
        assert not manage.is_directory(word), word


def test_a_directory_is_found_by_every_path_to_it(here: Path) -> None:
    (here / "link").symlink_to(here)
    fuse = manage.set_on_directory(os.environ, "link", 60, EMIT)
    assert (fuse.directory, fuse.cwd) == (str(here), str(here))
    for target in (".", "./link", str(here), fuse.id, fuse.id[:4]):
        assert [match.id for match in manage.find_fuses(os.environ, target)] == [fuse.id]


def test_a_session_is_found_by_a_prefix_of_its_id(stage: DemoStage) -> None:
    puppet = stage.start()
    assert puppet.session_id is not None
    (session,) = stage.survey().sessions
    fuse = manage.set_on_session(os.environ, session, 60, EMIT, "l")
    assert (fuse.adapter, fuse.session_id, fuse.directory) == ("demo", puppet.session_id, None)
    assert (fuse.cwd, fuse.label) == (session.observation.facts.cwd, "l")
    assert manage.find_fuses(os.environ, puppet.session_id[:6])[0].id == fuse.id


def test_an_ended_session_takes_no_fuse(stage: DemoStage) -> None:
    puppet = stage.start()
    assert puppet.session_id is not None
    puppet.kill()
    session, _ = answer.find_session(puppet.session_id)
    with pytest.raises(Refused, match="has ended"):
        manage.set_on_session(os.environ, session, 60, EMIT)


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="not a directory"):
        manage.set_on_directory(os.environ, "./nosuch", 60, EMIT)
    with pytest.raises(UsageError, match="--in must be more than 0"):
        manage.set_on_directory(os.environ, ".", 0, EMIT)
    with pytest.raises(UsageError, match="--label: not UTF-8"):
        manage.set_on_directory(os.environ, ".", 60, EMIT, "\udcff")


def test_several_matches_need_several() -> None:
    fuses = [manage.set_on_directory(os.environ, ".", seconds, EMIT) for seconds in (60, 90)]
    with pytest.raises(Ambiguous, match="matches 2 fuses") as caught:
        manage.find_fuses(os.environ, ".")
    assert fuses[0].id in caught.value.hint
    matches = manage.find_fuses(os.environ, ".", several=True)
    assert [match.id for match in matches] == [fuse.id for fuse in fuses]


@pytest.mark.parametrize("target", ["./nosuch", "nosuch", ""])
def test_a_target_without_a_fuse_is_not_found(target: str) -> None:
    manage.set_on_directory(os.environ, ".", 60, EMIT)
    with pytest.raises(NotFound):
        manage.find_fuses(os.environ, target, several=True)


def test_a_cancelled_fuse_is_not_found() -> None:
    fuse = manage.set_on_directory(os.environ, ".", 60, EMIT)
    (cancelled,) = manage.cancel_fuses(os.environ, fuse.id)
    assert (cancelled.state, cancelled.reason) == ("cancelled", "cancelled by a person")
    with pytest.raises(NotFound):
        manage.find_fuses(os.environ, fuse.id)


def test_an_extension_takes_one_of_by_and_in() -> None:
    manage.set_on_directory(os.environ, ".", 60, EMIT)
    with pytest.raises(UsageError, match="missing --by or --in"):
        manage.extend_fuse(os.environ, ".")
    with pytest.raises(UsageError, match="exclude each other"):
        manage.extend_fuse(os.environ, ".", by=1, within=1)
    assert manage.extend_fuse(os.environ, ".", by=60).needs_daemon
