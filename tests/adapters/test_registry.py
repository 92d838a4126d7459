"""Which adapters there are, by name: built-in ones and those that other packages install."""

import itertools
import os
import sys
from pathlib import Path

import pytest

from agentctl.adapters import registry
from agentctl.adapters.demo.adapter import Demo
from agentctl.adapters.registry import Agent
from agentctl.errors import UsageError
from agentctl.system import proc
from agentctl.truth.look import Look
from agentctl.truth.survey import HistoryQuery, Survey, survey
from tests.third_party import install

NAMES = ["claude-code", "codex", "opencode", "pi", "demo"]
ADAPTER = """
from agentctl.adapters.demo.adapter import Demo

class Other(Demo):
    name = "other"
    {more}
    def owns(self, process):
        return True
"""
_numbers = itertools.count()


class Site:
    """A directory with a third party's adapter, on this process's module path."""

    def __init__(self, directory: Path, agent: str, more: str = "pass") -> None:
        self.package = f"other_agentctl_{next(_numbers)}"  # an imported module stays
        self.path = install(
            directory,
            f"[agentctl.adapters]\nother = {self.package}.agent\n",
            {
                f"{self.package}/__init__.py": "",
                f"{self.package}/agent.py": f'ADAPTER = "{self.package}.adapter:Other"\n{agent}\n',
                f"{self.package}/adapter.py": ADAPTER.format(more=more),
            },
        )

    def survey(self, query: HistoryQuery | None = None, *, notice: int | None = None) -> Survey:
        """Survey this test's own process, or none."""
        table = {} if notice is None else {notice: proc.read_process(notice, proc.read_boot_id())}
        look = Look(table, {"HOME": self.path[0]}, 0.0)
        return survey(look, registry.find_adapters(["other"], self.path), query)

    @property
    def is_imported(self) -> bool:
        return f"{self.package}.adapter" in sys.modules


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_imported", {})
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_every_built_in_loads_and_agrees_with_its_agent_module(name: str) -> None:
    adapter = registry.load(name)
    agent = registry.read_agent(registry.BUILT_IN[name])
    assert (adapter.name, adapter.api) == (name, registry.API)
    assert (adapter.comms, adapter.binary) == (agent.processes, agent.binary)


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_module_has_no_other_constants(name: str) -> None:
    module = __import__(registry.BUILT_IN[name], fromlist=["ADAPTER"])
    constants = {each.lower() for each in vars(module) if each.isupper()}
    assert constants - {"binary_runtimes", "script_runtimes"} <= set(Agent._fields)


def test_all_adapters_or_some_by_name() -> None:
    assert [agent.name for agent in registry.find_adapters(path=[])] == NAMES
    assert [agent.name for agent in registry.find_adapters(["pi", "demo"], path=[])] == ["pi", "demo"]


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match="no adapter named 'nosuch'") as caught:
        registry.find_adapters(["demo", "nosuch"], path=[])
    assert caught.value.hint == "known adapters: claude-code, codex, demo, opencode, pi"


def test_a_third_party_may_name_its_class_only(tmp_path: Path) -> None:
    path = install(
        tmp_path,
        "[console_scripts]\nother = other:main\n\n"
        "[agentctl.adapters]\nother = agentctl.adapters.demo.adapter:Demo [extra]\n\n[more]\nx = y:z\n",
    )
    (agent,) = registry.find_adapters(["other"], path)
    assert (agent.comms, agent.read_names) == (None, None)
    assert isinstance(agent.load(), Demo)
    assert [agent.name for agent in registry.find_adapters(path=path)] == ["other", *NAMES]


def test_a_third_party_adapter_is_imported_only_when_its_agent_runs(importable: Path) -> None:
    comm = proc.read_process(os.getpid(), proc.read_boot_id()).comm
    site = Site(importable, f"PROCESSES = frozenset({{{comm!r}}})")
    assert site.survey().sessions == []
    assert not site.is_imported
    (session,) = site.survey(notice=os.getpid()).sessions
    assert session.observation.owner is not None
    assert session.observation.owner.pid == os.getpid()
    assert site.is_imported


def test_a_third_party_adapter_is_imported_for_history(importable: Path) -> None:
    site = Site(importable, "PROCESSES = frozenset({'nosuch-process'})")
    assert site.survey(notice=os.getpid()).problems == []
    assert not site.is_imported
    site.survey(HistoryQuery())
    assert site.is_imported


def test_a_third_party_adapter_is_imported_for_a_trace(importable: Path) -> None:
    root = importable / "root"
    (root / "live").mkdir(parents=True)
    site = Site(importable, "ROOT = ('NO_SUCH_VARIABLE', 'root')\nPID_FILES = 'live'")
    site.survey(notice=os.getpid())
    assert not site.is_imported
    (root / "live" / f"{os.getpid()}.json").touch()
    site.survey(notice=os.getpid())
    assert site.is_imported


def test_an_agent_module_that_fails_is_a_problem(importable: Path) -> None:
    site = Site(importable, "1 / 0")
    assert [(p.adapter, p.kind, p.message) for p in site.survey().problems] == [
        ("other", "broken", "ZeroDivisionError: division by zero")
    ]
    assert registry.find_agents(site.path).keys() == set(NAMES)


def test_an_agent_module_without_an_adapter_is_a_problem(importable: Path) -> None:
    site = Site(importable, "del ADAPTER")
    (problem,) = site.survey().problems
    assert problem.message == f"{site.package}.agent has no ADAPTER"


def test_an_adapter_for_another_api_is_refused(importable: Path) -> None:
    site = Site(importable, "", more="api = 2")
    (problem,) = site.survey(HistoryQuery()).problems
    expected = "adapter other is written for adapter API 2; this agentctl has API 1"
    assert (problem.kind, problem.message) == ("broken", expected)


def test_an_adapter_without_an_api_number_is_accepted(importable: Path) -> None:
    (agent,) = registry.find_adapters(["other"], Site(importable, "").path)
    assert agent.load()


def test_a_package_that_was_installed_again_is_stale(importable: Path) -> None:
    site = Site(importable, "")
    (entry,) = registry.entry_points(str(importable))
    assert not registry.is_stale(entry)
    site.survey(HistoryQuery())
    assert not registry.is_stale(entry)
    os.rename(entry.package, importable / "old")
    (newer,) = registry.entry_points(install(importable, (importable / "old" / "entry_points.txt")
                                             .read_text(), version="2.0")[0])  # fmt: skip
    assert registry.is_stale(newer)


def test_no_third_party_replaces_a_built_in(tmp_path: Path) -> None:
    path = install(tmp_path, "[agentctl.adapters]\ndemo = nosuch.module:Other\n")
    (agent,) = registry.find_adapters(["demo"], path)
    assert isinstance(agent.load(), Demo)
    assert [agent.name for agent in registry.find_adapters(path=path)] == NAMES


def test_the_first_on_the_path_wins(tmp_path: Path) -> None:
    first = install(tmp_path / "1", "[agentctl.adapters]\nother = agentctl.adapters.demo.adapter:Demo\n")
    second = install(tmp_path / "2", "[agentctl.adapters]\nother = nosuch.module:Other\n")
    (agent,) = registry.find_adapters(["other"], [*first, *second])
    assert isinstance(agent.load(), Demo)


def test_one_that_cannot_be_loaded_is_a_problem(tmp_path: Path) -> None:
    path = install(tmp_path, "[agentctl.adapters]\nother = nosuch.module:Other\n")
    result = survey(Look({}, {"HOME": str(tmp_path)}, 0.0), registry.find_adapters(["other"], path))
    assert [(p.adapter, p.kind) for p in result.problems] == [("other", "broken")]


@pytest.mark.parametrize(
    "text", ["", "[agentctl.adapters]\n", "[agentctl.adapters]\nnonsense\n", "[other]\na=b\n"]
)
def test_packages_without_an_adapter(tmp_path: Path, text: str) -> None:
    path = install(tmp_path, text)
    assert [agent.name for agent in registry.find_adapters(path=[*path, "/nonexistent"])] == NAMES


def test_entry_points_that_are_no_text(tmp_path: Path) -> None:
    path = install(tmp_path, "")
    (tmp_path / "other-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[agentctl.adapters]\n")
    assert [agent.name for agent in registry.find_adapters(path=path)] == NAMES


def test_where_the_first_file_will_be() -> None:
    environ = {"HOME": "/h"}
    assert registry.first_files("claude-code", environ) == ["/h/.claude/sessions/*"]
    assert registry.first_files("codex", environ) == ["/h/.codex/thread-writer-locks/*"]
    assert registry.first_files("opencode", environ) == []
    assert registry.first_files("other", environ) == []
