"""Who is to be told: names that a person chose, and what is refused."""

from pathlib import Path

import pytest

from agentctl.config.sources import Said, Setting
from agentctl.config.targets import Notify, Webhook, notify, webhooks
from agentctl.errors import UsageError

ADAPTERS = ("codex", "pi")


def _said(tmp_path: Path, text: str, **environ: str) -> Said:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return Said(str(file), environ, ADAPTERS)


def _webhooks(tmp_path: Path, text: str, **environ: str) -> dict[str, Webhook]:
    return webhooks(_said(tmp_path, text, **environ))


def _notify(tmp_path: Path, text: str) -> dict[str, Notify]:
    return notify(_said(tmp_path, text))


def test_a_webhook_with_all_there_is(tmp_path: Path) -> None:
    [hook] = _webhooks(
        tmp_path,
        """[webhooks.ci]
url = "https://example.org/a"
secret = "s"
events = ["session.*"]
adapters = ["pi"]
groups = ["g"]
""",
    ).values()
    assert hook.name == "ci"
    assert hook.url == Setting("https://example.org/a", "file", f"{tmp_path}/config.toml:2")
    assert [each.value for each in hook[2:]] == ["s", ("session.*",), ("pi",), ("g",)]


def test_what_a_webhook_is_told_of_unless_said(tmp_path: Path) -> None:
    hook = _webhooks(tmp_path, '[webhooks]\nci.url = "http://localhost:1/"\n')["ci"]
    assert hook.events == Setting(("session.waiting", "session.stopped", "fuse.fired"))
    assert [each.value for each in (hook.secret, hook.adapters, hook.groups)] == [None, (), ()]


def test_the_variables_make_one_more(tmp_path: Path) -> None:
    both = {"AGENTCTL_WEBHOOK_URL": "https://e/", "AGENTCTL_WEBHOOK_SECRET": "s"}
    found = _webhooks(tmp_path, '[webhooks.ci]\nurl = "https://ci/"\n', **both)
    assert list(found) == ["ci", "environment"]
    assert found["environment"].url == Setting("https://e/", "environment", "AGENTCTL_WEBHOOK_URL")
    assert found["environment"].secret.value == "s"
    assert found["ci"].secret.value is None  # one secret is not another's
    assert _webhooks(tmp_path, "", AGENTCTL_WEBHOOK_SECRET="s") == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[webhooks.ci]\n", ":1: [webhooks.ci] says nothing"),
        ('[webhooks.ci]\nsecret = "s"\n', ":2: webhooks.ci has no url"),
        ('[webhooks.ci]\nurl = "example.org"\n', ":2: webhooks.ci.url: an address that begins with"),
        ('[webhooks.ci]\nurl = "http://a"\nevent = []\n', ":3: no setting 'webhooks.ci.event'"),
        ('[webhooks.ci]\nurl = "http://a"\nevents = ["x"]\n', ":3: webhooks.ci.events: 'x' is no event"),
        (
            '[webhooks.ci]\nurl = "http://a"\nadapters = ["x"]\n',
            ":3: webhooks.ci.adapters: 'x' is not known here: codex, pi",
        ),
        ('[webhooks.environment]\nurl = "http://a"\n', ":2: 'environment' is the name of the webhook"),
        ('[webhooks."a b"]\nurl = "http://a"\n', ":2: 'a b' cannot be the name of a target"),
        ('[webhooks]\nurl = "http://a"\n', ":2: no setting 'webhooks.url'"),
        ("webhooks = 1\n", ":1: no setting 'webhooks'"),
    ],
)
def test_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        _webhooks(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/config.toml{told}")
    assert caught.value.hint


def test_a_misspelt_word_is_told_with_the_name_that_was_chosen(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        _webhooks(tmp_path, '[webhooks.ci]\nurl = "http://a"\nevent = []\n')
    assert caught.value.hint == "did you mean webhooks.ci.events?"
    with pytest.raises(UsageError) as caught:
        _webhooks(tmp_path, '[webhooks]\nurl = "http://a"\n')
    assert caught.value.hint == "did you mean webhooks.NAME.url?"


def test_notifications_of_each_way(tmp_path: Path) -> None:
    found = _notify(
        tmp_path,
        """[notify.desk]
desktop = true
[notify.phone]
url = "https://ntfy.example.org/me"
on = ["waiting"]
priority = "high"
token = "t"
[notify.script]
command = "cat"
desktop = false
""",
    )
    assert found["desk"].desktop.value
    assert found["desk"].on.value == ("waiting", "finished", "failed")
    phone = found["phone"]
    assert (phone.on.value, phone.priority.value, phone.token.value) == (("waiting",), "high", "t")
    assert found["script"].command.value == "cat"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[notify.a]\ndesktop = false\n", ":2: notify.a says not how"),
        ('[notify.a]\ndesktop = true\ncommand = "x"\n', ":2: notify.a has desktop and command"),
        ('[notify.a]\ndesktop = true\non = ["x"]\n', ":3: notify.a.on: 'x' is not known here: waiting"),
        ('[notify.a]\nurl = "http://a"\npriority = "5"\n', ":3: notify.a.priority: '5' is not known"),
    ],
)
def test_refused_notifications(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        _notify(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/config.toml{told}")
