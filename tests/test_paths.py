"""Where our own files are."""

import os
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.errors import Unreachable


def test_below_the_home() -> None:
    assert paths.state_directory({"HOME": "/home/me"}) == "/home/me/.agentctl"


def test_agentctl_home_moves_everything() -> None:
    assert paths.state_directory({"HOME": "/home/me", "AGENTCTL_HOME": "/x"}) == "/x"
    assert paths.state_directory({"AGENTCTL_HOME": "x"}) == os.path.join(os.getcwd(), "x")
    assert paths.state_directory({"HOME": "/home/me", "AGENTCTL_HOME": ""}) == "/home/me/.agentctl"


def test_without_any_home_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "home_of_user", lambda _: None)
    assert paths.state_directory({}) is None
    assert paths.state_directory({"HOME": ""}) is None
    with pytest.raises(Unreachable, match="no home directory is known"):
        paths.require_state_directory({})
    assert paths.require_state_directory({"HOME": "/home/me"}) == "/home/me/.agentctl"


def test_files() -> None:
    assert paths.cache_file("/s") == "/s/cache"
    assert paths.database_file("/s") == "/s/state.db"
    assert paths.config_file("/s") == "/s/config.toml"


@pytest.mark.parametrize(
    ("path", "directory", "inside"),
    [
        ("/a", "/a", True),
        ("/a/b", "/a", True),
        ("/a/b/c", "/a", True),
        ("/a", "/a/b", False),
        ("/ab", "/a", False),  # a sibling with the same first letters
        ("/a b", "/a", False),
        ("/a/../b", "/a", True),  # text: the caller resolves it
        ("/a/", "/a", True),
        ("/a", "/a/", True),
        ("/a/b/", "/a/", True),
        ("/ab", "/a/", False),
        ("/", "/", True),
        ("/a", "/", True),
        ("/", "/a", False),
        ("a/b", "/", False),  # relative
    ],
)
def test_whether_a_path_is_inside_a_directory(path: str, directory: str, inside: bool) -> None:
    assert paths.is_inside(path, directory) == inside


def test_links_are_left_to_the_caller(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert not paths.is_inside(str(tmp_path / "link"), str(tmp_path / "real"))
    assert paths.is_inside(os.path.realpath(tmp_path / "link"), os.path.realpath(tmp_path / "real"))


def test_links_are_resolved_and_only_an_absolute_path_is_inside(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert paths.resolves_inside(str(tmp_path), str(tmp_path))
    assert paths.resolves_inside(f"{tmp_path}/link/x", str(tmp_path))
    assert not paths.resolves_inside(str(tmp_path / "ab"), str(tmp_path / "a"))
    assert not paths.resolves_inside("no path", "/")
    assert not paths.resolves_inside("/a\0b", "/")
