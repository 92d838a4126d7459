"""Which adapters there are, by name: the built-in ones and those that others install."""

from pathlib import Path

import pytest

from agentctl.adapters import registry
from agentctl.adapters.demo import Demo
from agentctl.errors import UsageError
from agentctl.truth.look import Look
from agentctl.truth.survey import survey

NAMES = ["claude-code", "codex", "opencode", "pi", "demo"]


def _install(directory: Path, text: str, name: str = "other-1.0.dist-info") -> list[str]:
    (directory / name).mkdir(parents=True)
    (directory / name / "entry_points.txt").write_text(text)
    return [str(directory)]


@pytest.mark.parametrize("name", NAMES)
def test_every_built_in_loads_and_is_what_it_is_called(name: str) -> None:
    adapter = registry.load(name)
    assert adapter.name == name
    assert adapter.comms == registry.COMMS[name]
    assert adapter.binary


def test_all_of_them_or_those_named() -> None:
    assert [known.name for known in registry.registered(path=[])] == NAMES
    assert [known.name for known in registry.registered(["pi", "demo"], path=[])] == ["pi", "demo"]


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(UsageError, match="no adapter named 'nosuch'") as caught:
        registry.registered(["demo", "nosuch"], path=[])
    assert caught.value.hint == "known adapters: claude-code, codex, demo, opencode, pi"


def test_one_that_is_installed_is_found(tmp_path: Path) -> None:
    path = _install(
        tmp_path,
        "[console_scripts]\nother = other:main\n\n"
        "[agentctl.adapters]\nother = agentctl.adapters.demo:Demo [extra]\n\n[more]\nx = y:z\n",
    )
    (found,) = registry.registered(["other"], path)
    assert isinstance(found.load(), Demo)
    assert [known.name for known in registry.registered(path=path)] == ["other", *NAMES]


def test_nobody_takes_the_place_of_a_built_in(tmp_path: Path) -> None:
    path = _install(tmp_path, "[agentctl.adapters]\ndemo = nosuch.module:Other\n")
    (found,) = registry.registered(["demo"], path)
    assert found.comms == registry.COMMS["demo"]


def test_one_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    path = _install(tmp_path, "[agentctl.adapters]\nother = nosuch.module:Other\n")
    found = survey(Look({}, {"HOME": str(tmp_path)}, 0.0), registry.registered(["other"], path))
    assert [(p.adapter, p.kind) for p in found.problems] == [("other", "broken")]


@pytest.mark.parametrize(
    "text", ["", "[agentctl.adapters]\n", "[agentctl.adapters]\nnonsense\n", "[other]\na=b\n"]
)
def test_packages_without_an_adapter(tmp_path: Path, text: str) -> None:
    path = _install(tmp_path, text)
    assert [known.name for known in registry.registered(path=[*path, "/nonexistent"])] == NAMES


def test_entry_points_that_are_no_text(tmp_path: Path) -> None:
    path = _install(tmp_path, "")
    (tmp_path / "other-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[agentctl.adapters]\n")
    assert [known.name for known in registry.registered(path=path)] == NAMES
