"""A process that ended and left no file: the kernel tells, and what was said before is no answer."""

import signal
from pathlib import Path

from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Session
from agentctl.watch import vanished
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
        ended = vanished.gone(_session(identity), identity, handle)
    assert (ended.verdict.status, ended.verdict.outcome) == ("stopped", "killed")
    assert ended.verdict.exit_code == -9
    assert IDLE._replace(trusted=False) in ended.verdict.overruled
    assert ended.seen.evidence[0].note == "it ended while we watched it"


def test_without_a_handle_nobody_knows_how() -> None:
    identity = ProcessIdentity("b", 7, 7)
    ended = vanished.gone(_session(identity), identity, None)
    assert (ended.verdict.status, ended.verdict.outcome) == ("stopped", "unknown")
    assert ended.verdict.exit_code is None
    assert ended.seen.evidence[0].note == "this process does not exist any more"


def test_one_that_its_living_process_shows_no_more_is_unknown() -> None:
    identity = ProcessIdentity("b", 7, 7)
    lost = vanished.out_of_sight(_session(identity), identity)
    assert (lost.verdict.status, lost.verdict.outcome) == ("unknown", None)
    assert "no source shows this session any more" in lost.verdict.reason
    assert IDLE._replace(trusted=False) in lost.verdict.overruled
