"""What a person means by a word, and what a fuse is told to do."""

from pathlib import Path

import pytest

from agentctl.cli import fusing
from agentctl.errors import Ambiguous, NotFound, Refused, UsageError
from agentctl.state import fuses
from agentctl.state.fuse import Action
from tests.fakes.demo import DemoStage

EMIT = (Action("emit", "x"),)


@pytest.fixture(autouse=True)
def here(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    stage.work.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(stage.work)
    return stage.work.resolve()


def test_what_is_done_in_which_order() -> None:
    url = "https://example.org/"
    assert fusing.actions(stop=True, run="ls", emit="a.b-c_1", webhook=url) == (
        Action("stop"),
        Action("run", "ls"),
        Action("emit", "a.b-c_1"),
        Action("webhook", url),
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "a fuse that does nothing"),
        ({"run": " "}, "an empty command"),
        ({"run": "echo caf\udce9"}, "--run: not UTF-8 text"),
        ({"emit": "No Name"}, "no name for an event"),
        ({"emit": ""}, "no name for an event"),
        ({"emit": "x" * 65}, "no name for an event"),
        ({"webhook": "ftp://x"}, "--webhook: an address that begins with https://"),
        ({"webhook": "https://me:12345@example.org/x"}, "may hold a secret"),
        ({"webhook": "https://me@example.org/x"}, "may hold a secret"),
        ({"webhook": "https://example.org/x?token=12345"}, "may hold a secret"),
        ({"webhook": "ci"}, "--webhook: no webhook named 'ci'"),
        ({"webhook": ""}, "--webhook: no webhook named ''"),
    ],
)
def test_what_it_cannot_do(here: Path, given: dict[str, str], told: str) -> None:
    nothing = {"run": None, "emit": None, "webhook": None}
    with pytest.raises(UsageError, match=told) as caught:
        fusing.actions(stop=False, **{**nothing, **given})
    assert "12345" not in f"{caught.value} {caught.value.hint}"


def test_a_webhook_of_the_settings_is_named(here: Path, stage: DemoStage) -> None:
    home = Path(stage.environ["AGENTCTL_HOME"])
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(
        '[webhooks.ci]\nurl = "https://me:12345@example.org/x?token=12345"\n'
    )
    (action,) = fusing.actions(stop=False, run=None, emit=None, webhook="ci")
    assert action == Action("webhook", "ci")
    made = fusing.light(".", 60, (action,), None)
    assert fusing.told(made) == "webhook ci"
    assert not [path for path in home.glob("state.db*") if b"12345" in path.read_bytes()]
    with pytest.raises(UsageError) as caught:
        fusing.actions(stop=False, run=None, emit=None, webhook="ic")
    assert caught.value.hint == "known: ci"


def test_a_path_is_a_directory_and_anything_else_an_id(here: Path) -> None:
    (here / "4f2a").mkdir()
    for path in (".", "..", "./x", "/x", "~", "a/b", "4f2a"):
        assert fusing.is_directory(path), path
    for word in ("4f2b", "pid:4711", "ses_1", ""):
        assert not fusing.is_directory(word), word


def test_on_a_directory_however_it_is_reached(here: Path) -> None:
    (here / "link").symlink_to(here)
    made = fusing.light("link", 60, EMIT, None)
    assert (made.directory, made.cwd) == (str(here), str(here))
    for way in (".", "./link", str(here), made.id, made.id[:4]):
        assert [each.id for each in fusing.matching(way)] == [made.id]


def test_on_a_session_by_its_id(stage: DemoStage) -> None:
    puppet = stage.start()
    assert puppet.session_id is not None
    made = fusing.light(puppet.session_id[:8], 60, EMIT, "l")
    assert (made.adapter, made.session_id, made.directory) == ("demo", puppet.session_id, None)
    assert made.cwd is not None
    assert fusing.matching(puppet.session_id[:6])[0].id == made.id
    puppet.kill()
    with pytest.raises(Refused, match="has ended"):
        fusing.light(puppet.session_id, 60, EMIT, None)


def test_where_none_can_be_set(here: Path) -> None:
    with pytest.raises(UsageError, match="not a directory"):
        fusing.light("./nosuch", 60, EMIT, None)
    with pytest.raises(NotFound, match="no session"):
        fusing.light("nosuch", 60, EMIT, None)
    with pytest.raises(UsageError, match="over at once"):
        fusing.light(".", 0, EMIT, None)
    with pytest.raises(UsageError, match="not UTF-8"):
        fusing.light(".", 60, EMIT, "\udcff")


def test_which_of_several_is_for_a_person_to_say(here: Path) -> None:
    first, second = fusing.light(".", 60, EMIT, None), fusing.light(".", 90, EMIT, None)
    with pytest.raises(Ambiguous, match="could be 2 fuses") as told:
        fusing.matching(".")
    assert first.id in told.value.hint
    assert {each.id for each in fusing.matching(".", several=True)} == {first.id, second.id}
    with pytest.raises(NotFound):
        fusing.matching("./nosuch")
    with pytest.raises(NotFound):
        fusing.matching("nosuch")
    with pytest.raises(NotFound):
        fusing.matching("", several=True)


def test_those_that_burn_no_more_are_not_meant(here: Path) -> None:
    made = fusing.light(".", 60, EMIT, None)
    fuses.cancel(fusing.notes(), made.id, "")
    with pytest.raises(NotFound):
        fusing.matching(made.id)


def test_what_failed_is_shown_in_one_line(here: Path) -> None:
    made = fusing.light(".", 60, EMIT, None)
    ended: dict[str, object] = {"id": "1a", "error": None, "survivors": []}
    refused = {"id": "2b", "error": "not yours", "survivors": []}
    left = {"id": None, "error": None, "survivors": [{"pid": 1, "why": "stuck"}]}
    results = (
        {"do": "stop", "ok": False, "stopped": [ended, refused, left]},
        {"do": "run", "ok": False, "code": 3, "output": "/out"},
        {"do": "run", "ok": False, "code": None, "error": "took longer than 300 s"},
        {"do": "emit", "ok": True},
        None,
    )
    assert fusing.told(made._replace(state="failed", results=results)) == (
        "stop failed: 2b: not yours, ?: not all of it ended; "
        "run failed: exit code 3, see /out; run failed: took longer than 300 s"
    )
    assert fusing.told(made) == "emit x"
    assert fusing.told(made._replace(state="cancelled", reason="said so")) == "said so"
