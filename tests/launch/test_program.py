"""Where an agent's program is: looked for as the agent itself would be, and told where."""

from pathlib import Path

import pytest

from agentctl.errors import StartFailed
from agentctl.launch.program import BELOW_HOME, resolved


def _program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def test_the_first_on_the_path_wins(tmp_path: Path) -> None:
    one, _ = _program(tmp_path / "one" / "agent"), _program(tmp_path / "two" / "agent")
    environ = {"PATH": f"{tmp_path}/none:{tmp_path}/one:{tmp_path}/two"}
    assert resolved("agent", environ, "/") == one


def test_what_cannot_be_run_is_passed_by(tmp_path: Path) -> None:
    _program(tmp_path / "one" / "agent", 0o644)
    (tmp_path / "two" / "agent").mkdir(parents=True)
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "agent").symlink_to("nowhere")
    wanted = _program(tmp_path / "four" / "agent")
    path = ":".join(f"{tmp_path}/{name}" for name in ("one", "two", "three", "four"))
    assert resolved("agent", {"PATH": path}, "/") == wanted


def test_a_link_is_kept_as_it_is(tmp_path: Path) -> None:
    """Programs of many names tell by theirs what they are to do."""
    _program(tmp_path / "real")
    (tmp_path / "agent").symlink_to("real")
    assert resolved("agent", {"PATH": str(tmp_path)}, "/") == f"{tmp_path}/agent"


@pytest.mark.parametrize("place", BELOW_HOME)
def test_installers_own_places_come_after_the_path(tmp_path: Path, place: str) -> None:
    found = _program(tmp_path / "home" / place / "agent")
    environ = {"PATH": f"{tmp_path}/bin", "HOME": f"{tmp_path}/home"}
    assert resolved("agent", environ, "/") == found
    sooner = _program(tmp_path / "bin" / "agent")
    assert resolved("agent", environ, "/") == sooner


def test_the_path_is_the_agents_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "ours" / "agent")
    monkeypatch.setenv("PATH", f"{tmp_path}/ours")
    with pytest.raises(StartFailed):
        resolved("agent", {"PATH": f"{tmp_path}/theirs"}, "/")


def test_an_empty_entry_is_not_the_current_directory(tmp_path: Path) -> None:
    """For a shell it is; there a repository's own file could pass for the agent."""
    _program(tmp_path / "agent")
    with pytest.raises(StartFailed):
        resolved("agent", {"PATH": ":/usr/bin:"}, str(tmp_path))


def test_relative_entries_and_paths_are_the_agents_directorys(tmp_path: Path) -> None:
    wanted = _program(tmp_path / "tools" / "agent")
    assert resolved("agent", {"PATH": "tools"}, str(tmp_path)) == wanted
    assert resolved("tools/agent", {"PATH": ""}, str(tmp_path)) == wanted
    assert resolved(wanted, {}, "/") == wanted


def test_home_in_a_path_is_the_agents(tmp_path: Path) -> None:
    wanted = _program(tmp_path / "bin" / "agent")
    assert resolved("~/bin/agent", {"HOME": str(tmp_path)}, "/") == wanted


def test_where_it_looked_is_told_once_per_place() -> None:
    with pytest.raises(StartFailed, match="agent is not installed") as told:
        resolved("agent", {"PATH": "/one:/two:/one", "HOME": "/h"}, "/")
    places = told.value.hint.removeprefix("looked in ").split(", ")
    assert places == ["/one", "/two", *(f"/h/{place}" for place in BELOW_HOME)]


def test_nowhere_to_look() -> None:
    with pytest.raises(StartFailed) as told:
        resolved("agent", {"PATH": ""}, "/")
    assert told.value.hint == "looked in no directory: PATH and HOME are empty"


@pytest.mark.parametrize(
    ("name", "why"),
    [("none", "no such file"), ("folder", "it is a directory"), ("plain", "it is not executable")],
)
def test_why_a_path_cannot_be_run(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    _program(tmp_path / "plain", 0o600)
    with pytest.raises(StartFailed, match=f"cannot run {tmp_path}/{name}") as told:
        resolved(f"{tmp_path}/{name}", {}, "/")
    assert why in told.value.hint


@pytest.mark.parametrize("name", ["", "a\0b", "/a\0b"])
def test_what_no_program_is_called(name: str) -> None:
    with pytest.raises(StartFailed):
        resolved(name, {"PATH": "/usr/bin"}, "/")
