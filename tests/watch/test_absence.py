"""A process that ended and left no file: the kernel says so, and earlier evidence does not count."""

import signal
from pathlib import Path

from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Session
from agentctl.watch import absence
from tests.fakes.stranger import Stranger

IDLE = Evidence("idle", "/t@1", "journal", detail="completed")


def make_idle_session(identity: ProcessIdentity) -> Session:
    evidence = (Evidence("alive", identity.address, "kernel"), IDLE)
    return Session(Observation("demo", "s", evidence), judge(evidence))


def test_only_the_kernel_says_how_a_process_ended(tmp_path: Path) -> None:
    with Stranger("stranger", {}, tmp_path) as stranger, Handle(stranger.process.identity) as handle:
        identity = stranger.process.identity
        handle.signal(signal.SIGKILL)
        assert handle.wait(20)
        stopped = absence.ended_session(make_idle_session(identity), identity, handle)
    assert (stopped.verdict.status, stopped.verdict.outcome) == ("stopped", "killed")
    assert stopped.verdict.exit_code == -9
    assert IDLE._replace(trusted=False) in stopped.verdict.overruled
    assert stopped.observation.evidence[0].note == "it ended while we watched it"


def test_without_a_handle_the_outcome_is_unknown() -> None:
    identity = ProcessIdentity("b", 7, 7)
    stopped = absence.ended_session(make_idle_session(identity), identity, None)
    assert (stopped.verdict.status, stopped.verdict.outcome) == ("stopped", "unknown")
    assert stopped.verdict.exit_code is None
    assert stopped.observation.evidence[0].note == "this process does not exist any more"


def test_a_session_that_its_living_process_hides_is_unknown() -> None:
    identity = ProcessIdentity("b", 7, 7)
    hidden = absence.hidden_session(make_idle_session(identity), identity)
    assert (hidden.verdict.status, hidden.verdict.outcome) == ("unknown", None)
    assert "no source shows this session any more" in hidden.verdict.reason
    assert IDLE._replace(trusted=False) in hidden.verdict.overruled
