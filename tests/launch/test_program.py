"""Finding an agent's program: where the agent itself would look, and an error that says where."""

from pathlib import Path

import pytest

from agentctl.errors import StartFailed
from agentctl.launch.program import BELOW_HOME, find_program


def _make_program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def test_the_first_on_the_path_wins(tmp_path: Path) -> None:
    one, _ = _make_program(tmp_path / "one" / "agent"), _make_program(tmp_path / "two" / "agent")
    environ = {"PATH": f"{tmp_path}/none:{tmp_path}/one:{tmp_path}/two"}
    assert find_program("agent", environ, "/") == one


def test_files_that_cannot_be_run_are_skipped(tmp_path: Path) -> None:
    _make_program(tmp_path / "one" / "agent", 0o644)
    (tmp_path / "two" / "agent").mkdir(parents=True)
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "agent").symlink_to("nowhere")
    program = _make_program(tmp_path / "four" / "agent")
    path = ":".join(f"{tmp_path}/{name}" for name in ("one", "two", "three", "four"))
    assert find_program("agent", {"PATH": path}, "/") == program


def test_a_link_is_not_resolved(tmp_path: Path) -> None:
    """A program with several names decides by its name what to do."""
    _make_program(tmp_path / "real")
    (tmp_path / "agent").symlink_to("real")
    assert find_program("agent", {"PATH": str(tmp_path)}, "/") == f"{tmp_path}/agent"


@pytest.mark.parametrize("place", BELOW_HOME)
def test_directories_of_installers_come_after_the_path(tmp_path: Path, place: str) -> None:
    program = _make_program(tmp_path / "home" / place / "agent")
    environ = {"PATH": f"{tmp_path}/bin", "HOME": f"{tmp_path}/home"}
    assert find_program("agent", environ, "/") == program
    earlier = _make_program(tmp_path / "bin" / "agent")
    assert find_program("agent", environ, "/") == earlier


def test_the_path_is_the_agents_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_program(tmp_path / "ours" / "agent")
    monkeypatch.setenv("PATH", f"{tmp_path}/ours")
    with pytest.raises(StartFailed):
        find_program("agent", {"PATH": f"{tmp_path}/theirs"}, "/")


def test_an_empty_entry_is_not_the_current_directory(tmp_path: Path) -> None:
    """For a shell it is; there a repository's own file could pass for the agent."""
    _make_program(tmp_path / "agent")
    with pytest.raises(StartFailed):
        find_program("agent", {"PATH": ":/usr/bin:"}, str(tmp_path))


def test_relative_paths_are_from_the_agents_directory(tmp_path: Path) -> None:
    program = _make_program(tmp_path / "tools" / "agent")
    assert find_program("agent", {"PATH": "tools"}, str(tmp_path)) == program
    assert find_program("tools/agent", {"PATH": ""}, str(tmp_path)) == program
    assert find_program(program, {}, "/") == program


def test_home_in_a_path_is_the_agents(tmp_path: Path) -> None:
    program = _make_program(tmp_path / "bin" / "agent")
    assert find_program("~/bin/agent", {"HOME": str(tmp_path)}, "/") == program


def test_each_searched_directory_is_listed_once() -> None:
    with pytest.raises(StartFailed, match="agent is not installed") as caught:
        find_program("agent", {"PATH": "/one:/two:/one", "HOME": "/h"}, "/")
    places = caught.value.hint.removeprefix("looked in ").split(", ")
    assert places == ["/one", "/two", *(f"/h/{place}" for place in BELOW_HOME)]


def test_no_directory_to_search() -> None:
    with pytest.raises(StartFailed) as caught:
        find_program("agent", {"PATH": ""}, "/")
    assert caught.value.hint == "looked in no directory: PATH and HOME are empty"


@pytest.mark.parametrize(
    ("name", "why"),
    [("none", "no such file"), ("folder", "it is a directory"), ("plain", "it is not executable")],
)
def test_why_a_path_cannot_be_run(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    _make_program(tmp_path / "plain", 0o600)
    with pytest.raises(StartFailed, match=f"cannot run {tmp_path}/{name}") as caught:
        find_program(f"{tmp_path}/{name}", {}, "/")
    assert why in caught.value.hint


@pytest.mark.parametrize("name", ["", "a\0b", "/a\0b"])
def test_names_that_no_program_can_have(name: str) -> None:
    with pytest.raises(StartFailed):
        find_program(name, {"PATH": "/usr/bin"}, "/")
