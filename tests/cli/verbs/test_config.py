"""`agentctl config`: every value with its source; `init` writes a file that sets nothing yet."""

import json
import os
from pathlib import Path

import pytest

from agentctl.config.keys import ADAPTER_KEYS, KEYS, NOTIFY_EXAMPLES, WEBHOOK_KEYS
from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import Ran, agentctl_on_a_terminal
from tests.running import agentctl_of as agentctl_as_staged


def agentctl_of(stage: DemoStage, *words: str, **more: str) -> Ran:
    """Run agentctl without the variables that the stage sets."""
    return agentctl_as_staged(
        stage, *words, **{"AGENTCTL_SETTLE": "", "AGENTCTL_METRICS_PORT": "", **more}
    )


def _file(stage: DemoStage) -> Path:
    return stage.root / "state" / "config.toml"


def _write_settings(stage: DemoStage, text: str) -> None:
    _file(stage).parent.mkdir(exist_ok=True)
    _file(stage).write_text(text)


def test_without_a_file_every_setting_has_its_default(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "config")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.lines[1:]] == list(KEYS)
    assert {line.split()[-1] for line in ran.lines[1:]} == {"default"}
    assert ["launches.ttl", "7d", "default"] in [line.split() for line in ran.lines]
    assert not (stage.root / "state").exists()


def test_each_value_is_shown_with_its_source(stage: DemoStage) -> None:
    _write_settings(
        stage, '[defaults]\nmodel = "m"\ntimeout = 5400\n\n[adapters.pi]\nargs = ["-x", "a b"]\n'
    )
    ran = agentctl_of(stage, "config", AGENTCTL_DEFAULT_ADAPTER="pi", COLUMNS="300")
    rows = [line.split(maxsplit=1) for line in ran.lines]
    settings = {row[0]: row[1].rsplit(maxsplit=1) for row in rows}
    assert settings["defaults.model"] == ["m", f"{_file(stage)}:2"]
    assert settings["defaults.timeout"] == ["90m", f"{_file(stage)}:3"]
    assert settings["adapters.pi.args"] == ["-x 'a b'", f"{_file(stage)}:6"]
    assert settings["defaults.adapter"] == ["pi", "AGENTCTL_DEFAULT_ADAPTER"]
    assert "adapters.pi.model" not in settings  # not set, and there are many


def test_json_has_every_setting(stage: DemoStage) -> None:
    _write_settings(stage, "[launches]\nttl = 60\n")
    shape = agentctl_of(stage, "config", "--json").json()
    assert shape["file"] == str(_file(stage))
    keys = [setting["key"] for setting in shape["settings"]]
    assert keys[: len(KEYS)] == list(KEYS)
    assert {f"adapters.codex.{name}" for name in ADAPTER_KEYS} <= set(keys)
    [ttl] = [s for s in shape["settings"] if s["key"] == "launches.ttl"]
    where = f"{_file(stage)}:2"
    assert ttl == {"key": "launches.ttl", "value": 60.0, "source": "file", "where": where}


def test_a_mistake_is_one_clear_line(stage: DemoStage) -> None:
    _write_settings(stage, '[defaults]\nmodle = "m"\n')
    ran = agentctl_of(stage, "config")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"agentctl: {_file(stage)}:2: no setting 'defaults.modle'",
        "  did you mean defaults.model?",
    ]
    assert agentctl_of(stage, "config", "path").code == 0
    assert agentctl_of(stage, "list").code == 0  # only a launch needs settings


def test_path_prints_where_the_file_is(stage: DemoStage) -> None:
    assert agentctl_of(stage, "config", "path").out == f"{_file(stage)}\n"
    assert not (stage.root / "state").exists()


def test_init_writes_a_private_file_that_sets_nothing(stage: DemoStage) -> None:
    before = agentctl_of(stage, "config", "--json").json()
    ran = agentctl_of(stage, "config", "init")
    assert (ran.code, ran.out, ran.err) == (0, f"{_file(stage)}\n", "")
    assert _file(stage).stat().st_mode & 0o777 == 0o600
    assert _file(stage).parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in _file(stage).parent.iterdir()] == ["config.toml"]
    assert agentctl_of(stage, "config", "--json").json() == before


def test_init_writes_a_valid_example_of_every_setting(stage: DemoStage) -> None:
    agentctl_of(stage, "config", "init")
    lines = [line.removeprefix("# ") for line in _file(stage).read_text().splitlines()]
    _file(stage).write_text("\n".join(line for line in lines if line.startswith("[") or " = " in line))
    shape = agentctl_of(stage, "config", "--json").json()
    keys = {s["key"] for s in shape["settings"] if s["source"] == "file"}
    targets = {f"webhooks.ci.{name}" for name in WEBHOOK_KEYS}
    targets |= {f"notify.{name}.{word}" for name, of in NOTIFY_EXAMPLES.items() for word in of}
    assert keys == {*KEYS, *(f"adapters.claude-code.{name}" for name in ADAPTER_KEYS), *targets}


def test_secrets_are_not_shown(stage: DemoStage) -> None:
    _write_settings(
        stage,
        '[webhooks.ci]\nurl = "https://me:hush@h/x?k=hush"\nsecret = "hush"\n'
        '[notify.me]\nurl = "https://h/me"\ntoken = "hush"\n',
    )
    more = {
        "AGENTCTL_WEBHOOK_URL": "https://h/e?hush",
        "AGENTCTL_WEBHOOK_SECRET": "hush",
        "COLUMNS": "300",
    }
    ran = agentctl_of(stage, "config", **more)
    values = {line.split()[0]: line.split()[1] for line in ran.lines}
    assert values["webhooks.ci.url"] == "https://h/x?…"
    assert values["webhooks.ci.secret"] == values["notify.me.token"] == "set"
    assert values["webhooks.environment.secret"] == "set"
    shape = agentctl_of(stage, "config", "--json", **more)
    assert "hush" not in ran.out + shape.out
    [token] = [s for s in shape.json()["settings"] if s["key"] == "notify.me.token"]
    assert (token["value"], token["where"]) == ("set", f"{_file(stage)}:6")


def test_init_overwrites_only_with_force(stage: DemoStage) -> None:
    _write_settings(stage, "# mine\n")
    ran = agentctl_of(stage, "config", "init")
    assert (ran.code, ran.out) == (4, "")
    assert "--force" in ran.err
    assert _file(stage).read_text() == "# mine\n"
    assert agentctl_of(stage, "config", "init", "--force").code == 0
    assert "[defaults]" in _file(stage).read_text()


def test_init_keeps_a_link(stage: DemoStage) -> None:
    """As people keep their dotfiles."""
    dotfile = stage.home / "dotfiles.toml"
    dotfile.write_text("")
    _file(stage).parent.mkdir()
    _file(stage).symlink_to(dotfile)
    assert agentctl_of(stage, "config", "init", "--force").code == 0
    assert _file(stage).is_symlink()
    assert "[defaults]" in dotfile.read_text()


def test_init_where_nothing_can_be_written(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "config", "init", AGENTCTL_HOME="/nonexistent/x/state")
    assert ran.code == 1
    assert ran.err.count("\n") == 1


def test_init_that_fails_leaves_nothing(stage: DemoStage) -> None:
    (_file(stage)).mkdir(parents=True)
    (_file(stage) / "in the way").touch()
    ran = agentctl_of(stage, "config", "init", "--force")
    assert (ran.code, ran.out) == (1, "")
    assert [path.name for path in _file(stage).parent.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("words", [("frob",), ("--force",), ("path", "--force"), ("init", "--json")])
def test_usage(stage: DemoStage, words: tuple[str, ...]) -> None:
    ran = agentctl_of(stage, "config", *words)
    assert (ran.code, ran.out) == (2, "")
    assert not (stage.root / "state").exists()


def test_hostile_values_are_harmless_and_fit(stage: DemoStage) -> None:
    wide, tall = json.dumps(hostile.WIDE, ensure_ascii=False), json.dumps("a\nb" * 50)
    _write_settings(stage, f"[defaults]\nname = {wide}\nmodel = {tall}\n")
    assert hostile.harmful(agentctl_of(stage, "config").out) == []
    table = agentctl_on_a_terminal(stage, "config", columns=50, NO_COLOR="1")
    assert max(map(len, table.lines)) <= 50
    odd = agentctl_of(stage, "config", AGENTCTL_DEFAULT_MODEL=os.fsdecode(b"\xff\x1b[31m"))
    assert odd.code == 2
    assert hostile.harmful(odd.err) == []
    path = agentctl_of(stage, "config", AGENTCTL_DEFAULT_CWD=os.fsdecode(b"/\xff\x1b[31m"))
    assert path.code == 0
    assert hostile.harmful(path.out) == []
