"""End processes that a test has started, by their identity, and see whether they are gone."""

import os
import signal

import pytest

from agentctl.errors import Gone
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.testing import Stage
from tests.waiting import DEADLINE


def kill(identity: ProcessIdentity) -> None:
    """It may have ended by itself."""
    try:
        with Handle(identity) as handle:
            handle.signal(signal.SIGKILL)
            assert handle.wait(DEADLINE), f"{identity.address} survives SIGKILL"
    except Gone:
        pass


def is_gone(identity: ProcessIdentity) -> bool:
    process = proc.find_process(identity)
    return process is None or not process.is_alive


def play_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this very process the stage's environment and nothing else."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
