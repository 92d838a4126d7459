"""A process that ended and left no file: the kernel tells, and what was said before is no answer."""

import signal
from pathlib import Path

from agentctl.control import parting
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, ProcessIdentity, Session
from agentctl.truth.pidfd import Handle
from tests.fakes.stranger import Stranger

IDLE = Evidence("idle", "/t@1", "journal", detail="completed")


def _session(identity: ProcessIdentity) -> Session:
    evidence = (Evidence("alive", identity.address, "kernel"), IDLE)
    return Session(Observation("demo", "s", evidence), judge(evidence))


def test_how_it_ended_is_asked_of_the_kernel_alone(tmp_path: Path) -> None:
    with Stranger("nobody", {}, tmp_path) as stranger, Handle(stranger.process.identity) as handle:
        identity = stranger.process.identity
        handle.signal(signal.SIGKILL)
        assert handle.wait(20)
        ended = parting.gone(_session(identity), identity, handle)
    assert (ended.verdict.status, ended.verdict.outcome) == ("stopped", "killed")
    assert ended.verdict.exit_code == -9
    assert IDLE._replace(trusted=False) in ended.verdict.overruled


def test_without_a_handle_nobody_knows_how() -> None:
    identity = ProcessIdentity("b", 7, 7)
    ended = parting.gone(_session(identity), identity, None)
    assert (ended.verdict.status, ended.verdict.outcome) == ("stopped", "unknown")
    assert ended.verdict.exit_code is None
