"""Where our own files are."""

import os

import pytest

from agentctl import paths


def test_below_the_home() -> None:
    assert paths.state_directory({"HOME": "/home/me"}) == "/home/me/.agentctl"


def test_agentctl_home_moves_everything() -> None:
    assert paths.state_directory({"HOME": "/home/me", "AGENTCTL_HOME": "/x"}) == "/x"
    assert paths.state_directory({"AGENTCTL_HOME": "x"}) == os.path.join(os.getcwd(), "x")
    assert paths.state_directory({"HOME": "/home/me", "AGENTCTL_HOME": ""}) == "/home/me/.agentctl"


def test_without_any_home_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "home_of", lambda _: None)
    assert paths.state_directory({}) is None
    assert paths.state_directory({"HOME": ""}) is None


def test_files() -> None:
    assert paths.cache_file("/s") == "/s/cache"
    assert paths.notes_file("/s") == "/s/state.db"
    assert paths.config_file("/s") == "/s/config.toml"
