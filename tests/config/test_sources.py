"""What environment and file say, asked key by key."""

from pathlib import Path

import pytest

from agentctl.config.sources import Said, Setting
from agentctl.config.values import Key
from agentctl.errors import UsageError

PORT = Key("number", "THE_PORT", "", "1", 80)


def test_nobody_says_anything() -> None:
    said = Said(None, {}, ())
    assert said.setting(("metrics", "port"), PORT) == Setting(80)
    assert said.of_environment(PORT) is None
    assert said.names("webhooks") == {}


def test_the_environment_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[metrics]\nport = 81\n")
    path = ("metrics", "port")
    assert Said(str(file), {}, ()).setting(path, PORT) == Setting(81, "file", f"{file}:2")
    said = Said(str(file), {"THE_PORT": "82"}, ())
    assert said.setting(path, PORT) == Setting(82, "environment", "THE_PORT")
    assert said.of_file(path, PORT).value == 81
    assert Said(str(file), {"THE_PORT": ""}, ()).setting(path, PORT).value == 81


def test_a_key_without_a_variable_hears_no_empty_one(tmp_path: Path) -> None:
    assert Said(None, {"": "7"}, ()).setting(("x",), PORT._replace(variable="")) == Setting(80)


def test_names_have_their_first_line(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[webhooks.b]\n\nurl = "https://b"\n[webhooks.a]\nurl = "https://a"\n')
    assert Said(str(file), {}, ()).names("webhooks") == {"b": f"{file}:3", "a": f"{file}:5"}


def test_a_mistake_is_told_with_who_made_it() -> None:
    with pytest.raises(UsageError, match=r"^THE_PORT: a whole number is wanted, not 'x'"):
        Said(None, {"THE_PORT": "x"}, ()).setting(("x",), PORT)


def test_a_flag_is_stronger() -> None:
    assert Setting(1, "file", "f:1").over(2) == Setting(2, "flag")
    assert Setting(1, "file", "f:1").over(None) == Setting(1, "file", "f:1")
