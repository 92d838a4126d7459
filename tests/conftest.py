"""Property tests find the same examples on every machine, and none is too slow on a loaded one. Signals
mean what they mean at a terminal: a shell's background job ignores Ctrl-C, one of nohup a hang-up, and
whatever they start would do the same. A directory that a test makes is nobody else's to write to, as
some people's umask would have it."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from agentctl.testing import Stage
from tests.fakes.demo import DemoStage
from tests.worktrees.repository import repo

__all__ = ["repo", "stage"]

os.umask(0o022)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile("repeatable", max_examples=400, derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


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
    made = kind(tmp_path)
    yield made
    made.close()
