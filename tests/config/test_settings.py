"""Settings: a flag wins over the environment, that over the file, that over what is built in."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.config import settings
from agentctl.config.keys import ADAPTER_KEYS, KEYS, Key, Notify, Webhook
from agentctl.config.settings import Setting, Sources, read_notify, read_webhooks
from agentctl.errors import SourceError, UsageError
from tests.running import SOURCES


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "state").mkdir()
    return {"HOME": "/home/me", "AGENTCTL_HOME": str(tmp_path / "state")}


def _write(environ: dict[str, str], text: str) -> str:
    file = Path(environ["AGENTCTL_HOME"]) / "config.toml"
    file.write_text(text)
    return str(file)


def test_without_a_file_all_settings_are_built_in(environ: dict[str, str]) -> None:
    for place in (environ["AGENTCTL_HOME"], environ["AGENTCTL_HOME"] + "/deleted"):
        config = settings.load({**environ, "AGENTCTL_HOME": place})
        assert config.file == f"{place}/config.toml"
        assert set(vars(config.defaults).values()) == {Setting(None)}
        assert config.launches.ttl == Setting(7 * 86400.0)
        agent = config.for_adapter("pi")
        assert {agent.binary, agent.model, agent.permission_mode} == {Setting(None)}
        assert agent.args == Setting(())


def test_the_daemon_s_settings(environ: dict[str, str]) -> None:
    config = settings.load(environ)
    metrics = config.metrics
    assert (metrics.address, metrics.port) == (Setting("127.0.0.1"), Setting(9200))
    assert (metrics.users, metrics.off) == (Setting(()), Setting(False))
    assert (config.journal.keep, config.daemon.auto) == (Setting(7 * 86400.0), Setting(True))
    assert config.journal.max_size == Setting(256 << 20)
    assert (config.webhooks, config.notify) == ({}, {})
    file = _write(
        environ, '[metrics]\nport = 9999\noff = true\n[journal]\nkeep = "1d"\n[daemon]\nauto = false\n'
    )
    config = settings.load({**environ, "AGENTCTL_METRICS_PORT": "0"})
    assert config.metrics.port == Setting(0, "environment", "AGENTCTL_METRICS_PORT")
    assert config.metrics.off == Setting(True, "file", f"{file}:3")
    assert (config.journal.keep.value, config.daemon.auto.value) == (86400.0, False)


def test_webhooks_and_notifications_are_loaded(environ: dict[str, str]) -> None:
    _write(environ, '[webhooks.ci]\nurl = "https://ci/"\n[notify.me]\ndesktop = true\n')
    config = settings.load({**environ, "AGENTCTL_WEBHOOK_URL": "http://127.0.0.1:1/"})
    assert (list(config.webhooks), list(config.notify)) == (["ci", "environment"], ["me"])
    assert list(settings.load(environ).webhooks) == ["ci"]


def _imports_tomllib(environ: dict[str, str]) -> bool:
    load = "import os, sys, agentctl.config.settings as settings; settings.load(os.environ)"
    program = f"{load}; print('tomllib' in sys.modules)"
    command = [sys.executable, "-S", "-c", program]
    variables = {**environ, "PYTHONPATH": SOURCES}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout == "True\n"


def test_tomllib_is_not_imported_without_a_file(environ: dict[str, str]) -> None:
    assert not _imports_tomllib(environ)
    _write(environ, "")
    assert _imports_tomllib(environ)


def test_a_setting_of_the_file_has_its_line(environ: dict[str, str]) -> None:
    file = _write(environ, '# ours\n[defaults]\nadapter = "pi"\n\n[launches]\nttl = 90\n')
    config = settings.load(environ)
    assert config.defaults.adapter == Setting("pi", "file", f"{file}:3")
    assert config.launches.ttl == Setting(90.0, "file", f"{file}:6")


def test_every_way_to_write_a_key_is_the_same_key(environ: dict[str, str]) -> None:
    for text in (
        '[adapters.claude-code]\nmodel = "m"\n',
        '[adapters."claude-code"]\nmodel = "m"\n',
        '[adapters]\nclaude-code.model = "m"\n',
        'adapters.claude-code.model = "m"\n',
        '[adapters]\nclaude-code = { model = "m" }\n',
    ):
        _write(environ, text)
        assert settings.load(environ).for_adapter("claude-code").model.value == "m", text


@given(st.sets(st.sampled_from(["flag", "environment", "file"])))
def test_the_strongest_source_wins(tmp_path_factory: pytest.TempPathFactory, sources: set[str]) -> None:
    environ = {"AGENTCTL_HOME": str(tmp_path_factory.mktemp("state"))}
    if "environment" in sources:
        environ["AGENTCTL_DEFAULT_MODEL"] = "environment"
    if "file" in sources:
        _write(environ, '[defaults]\nmodel = "file"\n')
    model = settings.load(environ).defaults.model.override("flag" if "flag" in sources else None)
    strongest = next((s for s in ("flag", "environment", "file") if s in sources), None)
    assert (model.value, model.source) == (strongest, strongest or "default")


def test_an_empty_variable_sets_nothing(environ: dict[str, str]) -> None:
    assert settings.load({**environ, "AGENTCTL_DEFAULT_MODEL": ""}).defaults.model == Setting(None)


def test_the_variables_of_a_hook_are_no_settings(environ: dict[str, str]) -> None:
    names = (
        "SESSION_ID",
        "CWD",
        "ADAPTER",
        "BRANCH",
        "EXIT_CODE",
        "GROUP",
        "MODEL",
        "OUTCOME",
        "LAUNCH_ID",
    )
    facts = {f"AGENTCTL_{name}": "x" for name in names}
    assert settings.load({**environ, **facts}) == settings.load(environ)
    variables = {key.variable for key in (*KEYS.values(), *ADAPTER_KEYS.values())}
    assert not variables & (facts.keys() | {"AGENTCTL_HOME", "AGENTCTL_DEADLINE", "AGENTCTL_CONFINE"})


def test_a_default_model_is_the_default_adapter_s(environ: dict[str, str]) -> None:
    _write(environ, '[defaults]\nadapter = "codex"\nmodel = "m"\npermission_mode = "p"\n')
    config = settings.load(environ)
    assert (
        config.for_adapter("codex").model.value,
        config.for_adapter("codex").permission_mode.value,
    ) == ("m", "p")
    assert (config.for_adapter("pi").model.value, config.for_adapter("pi").permission_mode.value) == (
        None,
        None,
    )
    _write(environ, '[defaults]\nmodel = "m"\n')
    assert settings.load(environ).for_adapter("pi").model.value == "m"


def test_a_setting_of_an_adapter_wins_over_defaults_but_not_over_the_environment(
    environ: dict[str, str],
) -> None:
    _write(environ, '[defaults]\nmodel = "all"\n[adapters.pi]\nmodel = "pi"\n')
    assert settings.load(environ).for_adapter("pi").model.value == "pi"
    assert settings.load(environ).for_adapter("codex").model.value == "all"
    environ["AGENTCTL_DEFAULT_MODEL"] = "now"
    assert settings.load(environ).for_adapter("pi").model.value == "now"
    environ["AGENTCTL_ADAPTER_PI_MODEL"] = "pi now"
    assert settings.load(environ).for_adapter("pi").model == Setting(
        "pi now", "environment", "AGENTCTL_ADAPTER_PI_MODEL"
    )


def test_an_unknown_adapter_is_refused(environ: dict[str, str]) -> None:
    file = _write(environ, '[defaults]\nadapter = "clod"\n')
    with pytest.raises(UsageError, match=r"config\.toml:2: no adapter named 'clod'") as caught:
        settings.load(environ)
    assert "claude-code" in caught.value.hint
    assert file in str(caught.value)
    with pytest.raises(UsageError, match="AGENTCTL_DEFAULT_ADAPTER: no adapter named 'x'"):
        settings.load({**environ, "AGENTCTL_DEFAULT_ADAPTER": "x"})


def test_a_value_of_the_wrong_kind_is_refused_with_its_place(environ: dict[str, str]) -> None:
    file = _write(environ, "[defaults]\n\ntimeout = true\n")
    with pytest.raises(UsageError) as caught:
        settings.load(environ)
    assert str(caught.value) == f"{file}:3: defaults.timeout: must be a text in quotes, not True"
    assert caught.value.hint == 'example: "3h"'
    with pytest.raises(UsageError, match=r"^AGENTCTL_LAUNCH_TTL: not a duration: 'soon'"):
        settings.load({**environ, "AGENTCTL_HOME": "/nonexistent", "AGENTCTL_LAUNCH_TTL": "soon"})


def test_a_directory_instead_of_the_file_is_an_error(environ: dict[str, str]) -> None:
    (Path(environ["AGENTCTL_HOME"]) / "config.toml").mkdir()
    with pytest.raises(SourceError, match="not a regular file"):
        settings.load(environ)


def test_the_setting_of_what_a_launch_does_to_fuses(environ: dict[str, str]) -> None:
    assert settings.load(environ).fuses.on_launch.value == "cancel"
    _write(environ, '[fuses]\non_launch = "keep"\n')
    assert settings.load(environ).fuses.on_launch.value == "keep"
    with pytest.raises(UsageError, match="'drop' is not one of cancel, keep"):
        settings.load({**environ, "AGENTCTL_FUSES_ON_LAUNCH": "drop"})


def test_every_setting_is_listed_once_with_its_key(environ: dict[str, str]) -> None:
    _write(environ, '[webhooks.ci]\nurl = "https://ci/"\n[notify.me]\ndesktop = true\n')
    rows = list(settings.load(environ).list_settings())
    names = [name for name, _, _ in rows]
    assert names[: len(KEYS)] == list(KEYS)
    assert [key for _, _, key in rows[: len(KEYS)]] == list(KEYS.values())
    assert {f"adapters.pi.{name}" for name in ADAPTER_KEYS} < set(names)
    assert {"webhooks.ci.url", "notify.me.desktop"} < set(names)
    assert len(names) == len(set(names))


PORT = Key[int]("number", "THE_PORT", "", "1", 80)


def test_without_sources_the_default_is_read() -> None:
    sources = Sources(None, {}, ())
    assert sources.read(("metrics", "port"), PORT) == Setting(80)
    assert sources.read_environment(PORT) is None
    assert sources.list_names("webhooks") == {}


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[metrics]\nport = 81\n")
    path = ("metrics", "port")
    assert Sources(str(file), {}, ()).read(path, PORT) == Setting(81, "file", f"{file}:2")
    sources = Sources(str(file), {"THE_PORT": "82"}, ())
    assert sources.read(path, PORT) == Setting(82, "environment", "THE_PORT")
    assert sources.read_file(path, PORT).value == 81
    assert Sources(str(file), {"THE_PORT": ""}, ()).read(path, PORT).value == 81


def test_a_key_without_a_variable_reads_no_empty_one(tmp_path: Path) -> None:
    assert Sources(None, {"": "7"}, ()).read(("x",), Key[int]("number", "", "", "1", 80)) == Setting(80)


def test_names_have_their_first_line(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[webhooks.b]\n\nurl = "https://b"\n[webhooks.a]\nurl = "https://a"\n')
    assert Sources(str(file), {}, ()).list_names("webhooks") == {"b": f"{file}:3", "a": f"{file}:5"}


def test_a_mistake_is_reported_with_its_variable() -> None:
    with pytest.raises(UsageError, match=r"^THE_PORT: must be a whole number, not 'x'"):
        Sources(None, {"THE_PORT": "x"}, ()).read(("x",), PORT)


def test_a_flag_wins() -> None:
    assert Setting(1, "file", "f:1").override(2) == Setting(2, "flag")
    assert Setting(1, "file", "f:1").override(None) == Setting(1, "file", "f:1")


ADAPTERS = ("codex", "pi")


def _sources(tmp_path: Path, text: str, **environ: str) -> Sources:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return Sources(str(file), environ, ADAPTERS)


def _webhooks(tmp_path: Path, text: str, **environ: str) -> dict[str, Webhook]:
    return read_webhooks(_sources(tmp_path, text, **environ))


def _notify(tmp_path: Path, text: str) -> dict[str, Notify]:
    return read_notify(_sources(tmp_path, text))


def test_a_webhook_with_all_settings(tmp_path: Path) -> None:
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
    assert [each.value for each in (hook.secret, hook.events, hook.adapters, hook.groups)] == [
        "s",
        ("session.*",),
        ("pi",),
        ("g",),
    ]


def test_a_webhook_has_default_events(tmp_path: Path) -> None:
    hook = _webhooks(tmp_path, '[webhooks]\nci.url = "http://localhost:1/"\n')["ci"]
    assert hook.events == Setting(("session.waiting", "session.stopped", "fuse.fired"))
    assert [each.value for each in (hook.secret, hook.adapters, hook.groups)] == [None, (), ()]


def test_the_variables_add_a_webhook(tmp_path: Path) -> None:
    both = {"AGENTCTL_WEBHOOK_URL": "https://e/", "AGENTCTL_WEBHOOK_SECRET": "s"}
    hooks = _webhooks(tmp_path, '[webhooks.ci]\nurl = "https://ci/"\n', **both)
    assert list(hooks) == ["ci", "environment"]
    assert hooks["environment"].url == Setting("https://e/", "environment", "AGENTCTL_WEBHOOK_URL")
    assert hooks["environment"].secret.value == "s"
    assert hooks["ci"].secret.value is None  # one secret is not another's
    assert _webhooks(tmp_path, "", AGENTCTL_WEBHOOK_SECRET="s") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[webhooks.ci]\n", ":1: [webhooks.ci] is empty"),
        ('[webhooks.ci]\nsecret = "s"\n', ":2: webhooks.ci has no url"),
        ('[webhooks.ci]\nurl = "example.org"\n', ":2: webhooks.ci.url: a web address begins with"),
        ('[webhooks.ci]\nurl = "http://a"\nevent = []\n', ":3: no setting 'webhooks.ci.event'"),
        (
            '[webhooks.ci]\nurl = "http://a"\nevents = ["x"]\n',
            ":3: webhooks.ci.events: 'x' matches no event",
        ),
        (
            '[webhooks.ci]\nurl = "http://a"\nadapters = ["x"]\n',
            ":3: webhooks.ci.adapters: 'x' is not one of codex, pi",
        ),
        ('[webhooks.environment]\nurl = "http://a"\n', ":2: 'environment' is the name of the webhook"),
        ('[webhooks."a b"]\nurl = "http://a"\n', ":2: 'a b' cannot be the name of a target"),
        ('[webhooks]\nurl = "http://a"\n', ":2: no setting 'webhooks.url'"),
        ("webhooks = 1\n", ":1: no setting 'webhooks'"),
    ],
)
def test_wrong_webhooks_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _webhooks(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/config.toml{message}")
    assert caught.value.hint


def test_the_hint_for_a_misspelt_word_has_the_chosen_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        _webhooks(tmp_path, '[webhooks.ci]\nurl = "http://a"\nevent = []\n')
    assert caught.value.hint == "did you mean webhooks.ci.events?"
    with pytest.raises(UsageError) as caught:
        _webhooks(tmp_path, '[webhooks]\nurl = "http://a"\n')
    assert caught.value.hint == "did you mean webhooks.NAME.url?"


def test_notifications_of_each_way(tmp_path: Path) -> None:
    targets = _notify(
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
    assert targets["desk"].desktop.value
    assert targets["desk"].on.value == ("waiting", "finished", "failed")
    phone = targets["phone"]
    assert (phone.on.value, phone.priority.value, phone.token.value) == (("waiting",), "high", "t")
    assert targets["script"].command.value == "cat"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[notify.a]\ndesktop = false\n", ":2: notify.a has no way to notify"),
        ('[notify.a]\ndesktop = true\ncommand = "x"\n', ":2: notify.a has desktop and command"),
        ('[notify.a]\ndesktop = true\non = ["x"]\n', ":3: notify.a.on: 'x' is not one of waiting"),
        ('[notify.a]\nurl = "http://a"\npriority = "5"\n', ":3: notify.a.priority: '5' is not one of"),
    ],
)
def test_wrong_notifications_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _notify(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/config.toml{message}")
