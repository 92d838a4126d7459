"""Settings: a flag before the environment, that before the file, that before what is built in."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.config import settings
from agentctl.config.keys import ADAPTER_KEYS, KEYS
from agentctl.config.settings import Setting
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


def test_without_a_file_all_is_built_in(environ: dict[str, str]) -> None:
    for place in (environ["AGENTCTL_HOME"], environ["AGENTCTL_HOME"] + "/deleted"):
        found = settings.load({**environ, "AGENTCTL_HOME": place})
        assert found.file == f"{place}/config.toml"
        assert set(found.defaults) == {Setting(None)}
        assert found.ttl == Setting(7 * 86400.0)
        assert found.of("pi") == (Setting(None), Setting(None), Setting(None), Setting(()))


def test_the_daemon_s_settings(environ: dict[str, str]) -> None:
    found = settings.load(environ)
    assert found.metrics == (Setting("127.0.0.1"), Setting(9200), Setting(()), Setting(False))
    assert (found.journal_keep, found.daemon_auto) == (Setting(7 * 86400.0), Setting(True))
    assert found.journal_max_size == Setting(256 << 20)
    assert (found.webhooks, found.notify) == ({}, {})
    file = _write(
        environ, '[metrics]\nport = 9999\noff = true\n[journal]\nkeep = "1d"\n[daemon]\nauto = false\n'
    )
    found = settings.load({**environ, "AGENTCTL_METRICS_PORT": "0"})
    assert found.metrics.port == Setting(0, "environment", "AGENTCTL_METRICS_PORT")
    assert found.metrics.off == Setting(True, "file", f"{file}:3")
    assert (found.journal_keep.value, found.daemon_auto.value) == (86400.0, False)


def test_targets_are_loaded_where_there_are_some(environ: dict[str, str]) -> None:
    _write(environ, '[webhooks.ci]\nurl = "https://ci/"\n[notify.me]\ndesktop = true\n')
    found = settings.load({**environ, "AGENTCTL_WEBHOOK_URL": "http://127.0.0.1:1/"})
    assert (list(found.webhooks), list(found.notify)) == (["ci", "environment"], ["me"])
    assert list(settings.load(environ).webhooks) == ["ci"]


def _imports_tomllib(environ: dict[str, str]) -> bool:
    load = "import os, sys, agentctl.config.settings as settings; settings.load(os.environ)"
    program = f"{load}; print('tomllib' in sys.modules)"
    command = [sys.executable, "-S", "-c", program]
    given = {**environ, "PYTHONPATH": SOURCES}
    ran = subprocess.run(command, env=given, capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout == "True\n"


def test_tomllib_is_not_imported_without_a_file(environ: dict[str, str]) -> None:
    assert not _imports_tomllib(environ)
    _write(environ, "")
    assert _imports_tomllib(environ)


def test_the_file_is_told_with_its_line(environ: dict[str, str]) -> None:
    file = _write(environ, '# ours\n[defaults]\nadapter = "pi"\n\n[launches]\nttl = 90\n')
    found = settings.load(environ)
    assert found.defaults.adapter == Setting("pi", "file", f"{file}:3")
    assert found.ttl == Setting(90.0, "file", f"{file}:6")


def test_every_way_to_write_a_key_is_the_same_key(environ: dict[str, str]) -> None:
    for text in (
        '[adapters.claude-code]\nmodel = "m"\n',
        '[adapters."claude-code"]\nmodel = "m"\n',
        '[adapters]\nclaude-code.model = "m"\n',
        'adapters.claude-code.model = "m"\n',
        '[adapters]\nclaude-code = { model = "m" }\n',
    ):
        _write(environ, text)
        assert settings.load(environ).of("claude-code").model.value == "m", text


@given(st.sets(st.sampled_from(["flag", "environment", "file"])))
def test_the_strongest_that_speaks_is_heard(
    tmp_path_factory: pytest.TempPathFactory, who: set[str]
) -> None:
    environ = {"AGENTCTL_HOME": str(tmp_path_factory.mktemp("state"))}
    if "environment" in who:
        environ["AGENTCTL_DEFAULT_MODEL"] = "environment"
    if "file" in who:
        _write(environ, '[defaults]\nmodel = "file"\n')
    found = settings.load(environ).defaults.model.over("flag" if "flag" in who else None)
    strongest = next((s for s in ("flag", "environment", "file") if s in who), None)
    assert (found.value, found.source) == (strongest, strongest or "default")


def test_an_empty_variable_says_nothing(environ: dict[str, str]) -> None:
    assert settings.load({**environ, "AGENTCTL_DEFAULT_MODEL": ""}).defaults.model == Setting(None)


def test_what_a_hook_is_told_is_no_setting(environ: dict[str, str]) -> None:
    told = (
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
    facts = {f"AGENTCTL_{name}": "x" for name in told}
    assert settings.load({**environ, **facts}) == settings.load(environ)
    variables = {key.variable for key in (*KEYS.values(), *ADAPTER_KEYS.values())}
    assert not variables & (facts.keys() | {"AGENTCTL_HOME", "AGENTCTL_DEADLINE", "AGENTCTL_CONFINE"})


def test_a_default_model_is_the_default_adapter_s(environ: dict[str, str]) -> None:
    _write(environ, '[defaults]\nadapter = "codex"\nmodel = "m"\npermission_mode = "p"\n')
    found = settings.load(environ)
    assert (found.of("codex").model.value, found.of("codex").permission_mode.value) == ("m", "p")
    assert (found.of("pi").model.value, found.of("pi").permission_mode.value) == (None, None)
    _write(environ, '[defaults]\nmodel = "m"\n')
    assert settings.load(environ).of("pi").model.value == "m"


def test_what_is_said_of_one_adapter_is_stronger_but_not_than_the_environment(
    environ: dict[str, str],
) -> None:
    _write(environ, '[defaults]\nmodel = "all"\n[adapters.pi]\nmodel = "pi"\n')
    assert settings.load(environ).of("pi").model.value == "pi"
    assert settings.load(environ).of("codex").model.value == "all"
    environ["AGENTCTL_DEFAULT_MODEL"] = "now"
    assert settings.load(environ).of("pi").model.value == "now"
    environ["AGENTCTL_ADAPTER_PI_MODEL"] = "pi now"
    assert settings.load(environ).of("pi").model == Setting(
        "pi now", "environment", "AGENTCTL_ADAPTER_PI_MODEL"
    )


def test_an_adapter_nobody_has(environ: dict[str, str]) -> None:
    file = _write(environ, '[defaults]\nadapter = "clod"\n')
    with pytest.raises(UsageError, match=r"config\.toml:2: no adapter named 'clod'") as caught:
        settings.load(environ)
    assert "claude-code" in caught.value.hint
    assert file in str(caught.value)
    with pytest.raises(UsageError, match="AGENTCTL_DEFAULT_ADAPTER: no adapter named 'x'"):
        settings.load({**environ, "AGENTCTL_DEFAULT_ADAPTER": "x"})


def test_a_value_of_the_wrong_kind_is_told_with_its_place(environ: dict[str, str]) -> None:
    file = _write(environ, "[defaults]\n\ntimeout = true\n")
    with pytest.raises(UsageError) as caught:
        settings.load(environ)
    assert str(caught.value) == f"{file}:3: defaults.timeout: a text is wanted, in quotes, not True"
    assert caught.value.hint == 'example: "3h"'
    with pytest.raises(UsageError, match=r"^AGENTCTL_LAUNCH_TTL: not a length of time: 'soon'"):
        settings.load({**environ, "AGENTCTL_HOME": "/nonexistent", "AGENTCTL_LAUNCH_TTL": "soon"})


def test_a_file_that_is_none_is_an_answer(environ: dict[str, str]) -> None:
    (Path(environ["AGENTCTL_HOME"]) / "config.toml").mkdir()
    with pytest.raises(SourceError, match="not a regular file"):
        settings.load(environ)


def test_the_tables_and_the_types_name_the_same() -> None:
    fields = {f"defaults.{name}" for name in settings.Defaults._fields}
    fields |= {f"metrics.{name}" for name in settings.Metrics._fields}
    rest = {"launches.ttl", "launches.settle", "worktrees.directory", "journal.keep", "daemon.auto"}
    assert set(KEYS) == fields | rest | {"fuses.on_launch", "journal.max_size"}
    assert set(ADAPTER_KEYS) == set(settings.Agent._fields)


def test_what_a_launch_does_to_fuses(environ: dict[str, str]) -> None:
    assert settings.load(environ).fuses_on_launch.value == "cancel"
    _write(environ, '[fuses]\non_launch = "keep"\n')
    assert settings.load(environ).fuses_on_launch.value == "keep"
    with pytest.raises(UsageError, match="'drop' is not known here: cancel, keep"):
        settings.load({**environ, "AGENTCTL_FUSES_ON_LAUNCH": "drop"})
