"""Settings of all tests.

Property tests find the same examples on every machine, and none is too slow on a loaded one. Signals
mean what they mean at a terminal: a background job of a shell ignores Ctrl-C, a job of nohup a hang-up,
and both pass that on to what they start. No other user may write to the directories of a test, whatever
the umask. Bytecode is kept, whatever the settings of the user: thousands of processes import what is
tested, and each worker would rewrite the assertions of each test.
"""

import os
import signal
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from agentctl.testing import Stage
from tests.fakes.demo import DemoStage
from tests.worktrees.repository import repo

__all__ = ["repo", "stage"]

os.umask(0o022)
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

SHORT, WHOLE = 40, 400  # examples of a property
AGENTS = 1  # that a test runs on in the short form, of those that it could run on


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="every test, on every agent, at full length")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: runs with --whole (make test-all) only")
    config.addinivalue_line("markers", "few(n): n of its cases, and with --whole all of them")
    examples = WHOLE if config.getoption("--whole") else SHORT
    settings.register_profile(
        "repeatable", max_examples=examples, derandomize=True, deadline=None, database=None
    )
    settings.load_profile("repeatable")


def pytest_xdist_auto_num_workers() -> int:
    """Twice the cores: the tests wait for other processes more than they compute."""
    return 2 * len(os.sched_getaffinity(0))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the short form: no slow test, each test of every agent on one of them, few of many cases
    that prove the same. Over all tests every agent has its turn. A test that is named on the command
    line runs in any case."""
    if config.getoption("--whole") or config.option.keyword or any("::" in arg for arg in config.args):
        return
    agents: dict[str, list[object]] = {}
    for item in items:
        of_test = agents.setdefault(_test_of(item), [])
        if (agent := _agent_of(item)) not in of_test:
            of_test.append(agent)
    short = [item for item in items if _is_in_short_form(item, agents[_test_of(item)])]
    short = _without_most_of_many(short)
    chosen = set(short)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = short


def _is_in_short_form(item: pytest.Item, agents: Sequence[object]) -> bool:
    first = zlib.crc32(_test_of(item).encode())
    turns = {(first + number) % len(agents) for number in range(AGENTS)}
    return item.get_closest_marker("slow") is None and agents.index(_agent_of(item)) in turns


def _without_most_of_many(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of a test marked `few`, so many cases: each time the one with most values that none had before."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") is not None:
            cases.setdefault(_test_of(item), []).append(item)
    left_out: set[pytest.Item] = set()
    for others in cases.values():
        (number,), covered = others[0].get_closest_marker("few").args, set[tuple[object, ...]]()  # type: ignore[union-attr]
        for _ in range(min(number, len(others))):
            chosen = max(others, key=lambda item: len(_values_of(item) - covered))
            covered |= _values_of(chosen)
            others.remove(chosen)
        left_out |= {*others}
    return [item for item in items if item not in left_out]


def _values_of(item: pytest.Item) -> set[tuple[object, ...]]:
    """What a case is made of. Large values differ in their beginning."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    values: set[tuple[object, ...]] = set()
    for name, value in params.items():
        parts = enumerate(value) if isinstance(value, tuple) else ()
        values |= {
            (name, repr(value)[:200]),
            *((name, place, repr(part)[:200]) for place, part in parts),
        }
    return values


def _test_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _agent_of(item: pytest.Item) -> object:
    """The stage that a parameter names; None: the test has one stage, or none."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("stage") if callspec is not None else None


@pytest.fixture
def whole(pytestconfig: pytest.Config) -> bool:
    """True if a test is to run at full length."""
    return bool(pytestconfig.getoption("--whole"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With `STAGES` in its module, a test runs once on each of these."""
    parametrize_stage(metafunc, getattr(metafunc.module, "STAGES", ()))


def parametrize_stage(metafunc: pytest.Metafunc, kinds: Sequence[type[Stage]]) -> None:
    marks = metafunc.definition.iter_markers("parametrize")
    if kinds and "stage" in metafunc.fixturenames and not any(mark.args[0] == "stage" for mark in marks):
        metafunc.parametrize("stage", kinds, indirect=True, ids=lambda kind: kind.adapter)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A private home in which fake agents run, all of them ended with the test. The demo agent's, unless
    the module names another one as `STAGE`, or a parameter does."""
    kind: type[Stage] = getattr(request, "param", getattr(request.module, "STAGE", DemoStage))
    stage = kind(tmp_path)
    yield stage
    stage.close()
