"""A launch whose time is over is ended as `stop` would end it. Its fuse decides."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.errors import Refused
from agentctl.fuses.expire import RECHECK, _exit_for_retry, expire_launch
from agentctl.launch.shim import shim
from agentctl.process.ours import LAUNCH
from agentctl.process.tree import ProcessFamily
from agentctl.state import db, fuse_firing, fuses, launch_writes, launches
from agentctl.stop import plan, stop
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from tests.ending import play_on
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.state.events import read_event_types
from tests.waiting import until


def _notes(stage: DemoStage) -> str:
    return paths.database_file(stage.environ["AGENTCTL_HOME"])


def _launch(stage: DemoStage, *words: str) -> str:
    ran = agentctl_of(stage, "launch", "demo", "-p", "tool, work 600", *words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def _read_events(stage: DemoStage) -> list[str]:
    kinds = read_event_types(_notes(stage))
    return [kind for kind in kinds if kind.startswith("fuse.") or kind == "launch.expired"]


def test_a_launch_ends_when_its_time_is_over(stage: DemoStage) -> None:
    session_id = _launch(stage, "--timeout", "0.2")
    waited = agentctl_of(stage, "wait", session_id)
    assert waited.code == 1
    until(lambda: stage.processes() == [], "agent, tool and shim are gone")
    (note,) = launches.read_launches(_notes(stage))
    assert note.expired_at is not None
    assert "timeout" in agentctl_of(stage, "status", session_id).out
    assert _read_events(stage) == ["fuse.set", "launch.expired", "fuse.fired"]
    ((result,),) = [each.results for each in fuses.list_fuses(_notes(stage))]
    assert result is not None
    assert result["stopped"][0]["id"] == session_id


def test_a_launch_that_ended_in_time_is_not_touched(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 0.1", "--timeout", "600", "--wait")
    assert ran.code == 0, ran.err
    until(lambda: stage.processes() == [], "agent and shim are gone")
    state = stage.environ["AGENTCTL_HOME"]
    (note,) = launches.read_launches(paths.database_file(state))
    assert expire_launch(state, note.id) is None
    assert expire_launch(state, "nosuch") is None
    (again,) = launches.read_launches(paths.database_file(state))
    assert again.expired_at is None
    assert _read_events(stage) == ["fuse.set", "fuse.cancelled"]


def test_a_timeout_is_extended_while_the_agent_runs(stage: DemoStage) -> None:
    """The shim asks, has to ask again, and then ends the agent: there is no other process to do it."""
    _launch(stage, "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(stage))
    assert timeout.launch_id is not None
    fuses.extend_fuse(_notes(stage), timeout.id, 1.2, from_now=True)
    folder = Path(launches.launch_folder(_notes(stage), timeout.launch_id))
    _ring(timeout.launch_id)
    until((folder / "again").exists, "it was asked, and has time left")
    assert 0 < float((folder / "again").read_text()) <= 1.2
    until(lambda: stage.processes() == [], "it was asked again, and is gone")
    assert _read_events(stage) == ["fuse.set", "fuse.extended", "launch.expired", "fuse.fired"]


def test_a_cancelled_timeout_does_not_fire(stage: DemoStage) -> None:
    session_id = _launch(stage, "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(stage))
    fuses.cancel_fuse(_notes(stage), timeout.id, "said so")
    assert timeout.launch_id is not None
    assert expire_launch(stage.environ["AGENTCTL_HOME"], timeout.launch_id) is None
    (live,) = stage.survey().sessions
    assert live.observation.session_id == session_id


def test_a_timeout_that_another_process_fires_is_checked_again(stage: DemoStage) -> None:
    _launch(stage, "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(stage))
    assert timeout.launch_id is not None
    fuses.extend_fuse(_notes(stage), timeout.id, 0, from_now=True)
    me = fuse_firing.make_claim()
    init = proc.read_process(1, proc.read_boot_id()).identity  # one that lives and is not us
    assert fuse_firing.claim_fuse(_notes(stage), timeout.id, me._replace(identity=init))
    assert expire_launch(stage.environ["AGENTCTL_HOME"], timeout.launch_id) == RECHECK
    assert len(stage.survey().sessions) == 1


def _ring(launch_id: str) -> None:
    """Signal the shim as its timer does. The shim is of this test's own launch."""
    shim = ProcessFamily(None, launch_id).find_shim(proc.read_table())
    assert shim is not None
    with Handle(shim.identity) as handle:
        handle.signal(signal.SIGALRM)


def test_another_process_fires_the_timeout_when_the_shim_was_killed(stage: DemoStage) -> None:
    import subprocess
    import sys

    from tests.running import environ_of

    session_id = _launch(stage, "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(stage))
    assert timeout.launch_id is not None
    shim = ProcessFamily(None, timeout.launch_id).find_shim(proc.read_table())
    assert shim is not None
    with Handle(shim.identity) as handle:
        handle.signal(signal.SIGKILL)
        handle.wait(20)
    fuses.extend_fuse(_notes(stage), timeout.id, 0, from_now=True)
    program = "import sys; from agentctl.fuses import fire; fire.fire_fuse(*sys.argv[1:])"
    words = [sys.executable, "-c", program, stage.environ["AGENTCTL_HOME"], timeout.id]
    subprocess.run(words, env=environ_of(stage), check=True, timeout=60)
    assert stage.survey().sessions == []
    assert _read_events(stage) == ["fuse.set", "fuse.extended", "launch.expired", "fuse.fired"]
    row = json.loads(agentctl_of(stage, "status", session_id, "--json").out)["sessions"][0]
    assert row["launch"]["expired_at"] is not None


def test_a_wrapper_that_has_ended_is_not_its_agent(stage: DemoStage) -> None:
    """As if the launcher was killed before it had learned which process runs the session."""
    session_id = _launch(stage, "--timeout", "1h")
    (note,) = launches.read_launches(_notes(stage))
    dead = note.identity._replace(start=note.identity.start - 1)
    launch_writes.record_session(_notes(stage), note._replace(identity=dead, session_id=session_id))
    timeout = fuses.find_timeout(_notes(stage), note.id)
    assert timeout is not None
    assert timeout.is_moot
    fuses.extend_fuse(_notes(stage), timeout.id, 0, from_now=True)
    _ring(note.id)
    until(lambda: stage.survey().sessions == [], "it is ended all the same")
    until(lambda: "fuse.fired" in _read_events(stage), "and that is recorded")


def test_a_timeout_fires_without_our_state(stage: DemoStage) -> None:
    _launch(stage, "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(stage))
    assert timeout.launch_id is not None
    state = Path(stage.environ["AGENTCTL_HOME"])
    shutil.rmtree(state)
    _ring(timeout.launch_id)
    until(lambda: stage.processes() == [], "agent, tool and shim are gone")
    assert not (state / "state.db").exists()  # nothing comes back


def test_a_timeout_without_a_fuse_ends_no_agent(stage: DemoStage) -> None:
    """The note is there: so the fuse was cancelled and forgotten, and not lost."""
    session_id = _launch(stage, "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(stage))
    assert timeout.launch_id is not None
    with db.transaction(_notes(stage)) as connection:
        connection.execute("delete from fuse")
    assert expire_launch(stage.environ["AGENTCTL_HOME"], timeout.launch_id) is None
    (live,) = stage.survey().sessions
    assert live.observation.session_id == session_id


def test_without_our_state_other_agents_that_were_started_there_are_spared(stage: DemoStage) -> None:
    """As `stop` spares them: the user may sit at a terminal that a tool of the agent has opened."""
    session_id = _launch(stage, "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(stage))
    assert timeout.launch_id is not None
    other = stage.start(stage.root / "elsewhere", environ={LAUNCH: timeout.launch_id})
    other.do("rest")
    shutil.rmtree(stage.environ["AGENTCTL_HOME"])
    _ring(timeout.launch_id)
    until(lambda: len(stage.processes()) <= 1, "agent, tool and shim are gone")
    assert stage.session(session_id).verdict.status == "stopped"
    assert stage.session(other.session_id or "").verdict.status == "idle"


@pytest.mark.parametrize("module", [plan, stop])
def test_without_our_notes_the_agent_ends_also_if_the_stop_fails(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    """A third party's stop plan may fail in any way, and so may what follows: the error is logged."""

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("broken") if module is plan else Refused("broken")

    _launch(stage, "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(stage))
    assert timeout.launch_id is not None
    folder = Path(launches.launch_folder(_notes(stage), timeout.launch_id))
    for file in Path(stage.environ["AGENTCTL_HOME"]).glob("state.db*"):
        file.unlink()
    monkeypatch.setattr(module, "make_plan" if module is plan else "stop_session", fails)
    play_on(stage, monkeypatch)
    assert expire_launch(stage.environ["AGENTCTL_HOME"], timeout.launch_id) is None
    until(lambda: stage.processes() == [], "agent, tool and shim are gone")
    assert "broken" in (folder / "expire").read_text()


@pytest.mark.parametrize("place", ["/dev/full", "/no/such/folder/again"])
def test_on_a_full_disk_the_exit_code_asks_for_a_retry(place: str) -> None:
    """The time cannot be written: the shim has one of its own."""
    with pytest.raises(SystemExit) as caught:
        _exit_for_retry(place, 5.0)
    assert caught.value.code == shim.AGAIN
