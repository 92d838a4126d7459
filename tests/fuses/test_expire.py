"""A launch whose time is over is ended as `stop` would end it, and says so; its fuse decides."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.errors import Refused
from agentctl.fuses.expire import RECHECK, _ask_again, expire
from agentctl.launch.shim import shim
from agentctl.process.ours import LAUNCH
from agentctl.process.tree import Family
from agentctl.state import db, fuse_firing, fuses, journal, launch_writes, launches
from agentctl.stop import plan, stop
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from tests.ending import play_on
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import until


def _notes(stage: DemoStage) -> str:
    return paths.notes_file(stage.environ["AGENTCTL_HOME"])


def _launched(stage: DemoStage, *words: str) -> str:
    ran = agentctl_of(stage, "launch", "demo", "-p", "tool, work 600", *words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def _told(stage: DemoStage) -> list[str]:
    kinds = [event.type for event in journal.after(_notes(stage), 0)]
    return [kind for kind in kinds if kind.startswith("fuse.") or kind == "launch.expired"]


def test_its_time_is_over(stage: DemoStage) -> None:
    session_id = _launched(stage, "--timeout", "0.2")
    waited = agentctl_of(stage, "wait", session_id)
    assert waited.code == 1
    until(lambda: stage.processes() == [], "agent, tool and shim are gone")
    (note,) = launches.recorded(_notes(stage))
    assert note.expired_at is not None
    assert "timeout" in agentctl_of(stage, "status", session_id).out
    assert _told(stage) == ["fuse.set", "launch.expired", "fuse.fired"]
    ((result,),) = [each.results for each in fuses.recorded(_notes(stage))]
    assert result is not None
    assert result["stopped"][0]["id"] == session_id


def test_one_that_ended_in_time_is_not_touched(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 0.1", "--timeout", "600", "--wait")
    assert ran.code == 0, ran.err
    until(lambda: stage.processes() == [], "agent and shim are gone")
    state = stage.environ["AGENTCTL_HOME"]
    (note,) = launches.recorded(paths.notes_file(state))
    assert expire(state, note.id) is None
    assert expire(state, "nosuch") is None
    (again,) = launches.recorded(paths.notes_file(state))
    assert again.expired_at is None
    assert _told(stage) == ["fuse.set", "fuse.cancelled"]


def test_extended_while_it_runs(stage: DemoStage) -> None:
    """The shim asks, is told to ask again, and then ends it: nobody else is there."""
    _launched(stage, "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(stage))
    assert timeout.launch_id is not None
    fuses.extend(_notes(stage), timeout.id, 1.2, anew=True)
    folder = Path(launches.folder(_notes(stage), timeout.launch_id))
    _ring(timeout.launch_id)
    until((folder / "again").exists, "it was asked, and has time left")
    assert 0 < float((folder / "again").read_text()) <= 1.2
    until(lambda: stage.processes() == [], "it was asked again, and is gone")
    assert _told(stage) == ["fuse.set", "fuse.extended", "launch.expired", "fuse.fired"]


def test_cancelled_it_is_never_asked_again(stage: DemoStage) -> None:
    session_id = _launched(stage, "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(stage))
    fuses.cancel(_notes(stage), timeout.id, "said so")
    assert timeout.launch_id is not None
    assert expire(stage.environ["AGENTCTL_HOME"], timeout.launch_id) is None
    (live,) = stage.survey().sessions
    assert live.seen.session_id == session_id


def test_while_another_fires_it(stage: DemoStage) -> None:
    _launched(stage, "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(stage))
    assert timeout.launch_id is not None
    fuses.extend(_notes(stage), timeout.id, 0, anew=True)
    me = fuse_firing.ourselves()
    child = proc.read_process(1, proc.boot_id()).identity  # one that lives and is not us
    assert fuse_firing.claim(_notes(stage), timeout.id, me._replace(identity=child))
    assert expire(stage.environ["AGENTCTL_HOME"], timeout.launch_id) == RECHECK
    assert len(stage.survey().sessions) == 1


def _ring(launch_id: str) -> None:
    """As its timer does. The shim is of this test's own launch."""
    shim = Family(None, launch_id).shim(proc.read_table())
    assert shim is not None
    with Handle(shim.identity) as handle:
        handle.signal(signal.SIGALRM)


def test_the_shim_killed_whoever_looks_at_the_clock_ends_it(stage: DemoStage) -> None:
    import subprocess
    import sys

    from tests.running import environ_of

    session_id = _launched(stage, "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(stage))
    assert timeout.launch_id is not None
    shim = Family(None, timeout.launch_id).shim(proc.read_table())
    assert shim is not None
    with Handle(shim.identity) as handle:
        handle.signal(signal.SIGKILL)
        handle.wait(20)
    fuses.extend(_notes(stage), timeout.id, 0, anew=True)
    program = "import sys; from agentctl.fuses import fire; fire.fire(*sys.argv[1:])"
    words = [sys.executable, "-c", program, stage.environ["AGENTCTL_HOME"], timeout.id]
    subprocess.run(words, env=environ_of(stage), check=True, timeout=60)
    assert stage.survey().sessions == []
    assert _told(stage) == ["fuse.set", "fuse.extended", "launch.expired", "fuse.fired"]
    told = json.loads(agentctl_of(stage, "status", session_id, "--json").out)["sessions"][0]
    assert told["launch"]["expired_at"] is not None


def test_a_wrapper_that_has_ended_is_not_its_agent(stage: DemoStage) -> None:
    """As where the launcher was killed before it had learned which process runs the session."""
    session_id = _launched(stage, "--timeout", "1h")
    (note,) = launches.recorded(_notes(stage))
    gone = note.identity._replace(start=note.identity.start - 1)
    launch_writes.learned(_notes(stage), note._replace(identity=gone, session_id=session_id))
    timeout = fuses.timeout_of(_notes(stage), note.id)
    assert timeout is not None
    assert timeout.moot
    fuses.extend(_notes(stage), timeout.id, 0, anew=True)
    _ring(note.id)
    until(lambda: stage.survey().sessions == [], "it is ended all the same")
    until(lambda: "fuse.fired" in _told(stage), "and that is told")


def test_without_our_state_it_ends_all_the_same(stage: DemoStage) -> None:
    _launched(stage, "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(stage))
    assert timeout.launch_id is not None
    state = Path(stage.environ["AGENTCTL_HOME"])
    shutil.rmtree(state)
    _ring(timeout.launch_id)
    until(lambda: stage.processes() == [], "agent, tool and shim are gone")
    assert not (state / "state.db").exists()  # nothing comes back


def test_a_cancelled_timeout_that_is_forgotten_ends_nobody(stage: DemoStage) -> None:
    """The note is there: so its fuse is missing for being over, and not for being lost."""
    session_id = _launched(stage, "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(stage))
    assert timeout.launch_id is not None
    with db.transaction(_notes(stage)) as connection:
        connection.execute("delete from fuse")
    assert expire(stage.environ["AGENTCTL_HOME"], timeout.launch_id) is None
    (live,) = stage.survey().sessions
    assert live.seen.session_id == session_id


def test_without_our_state_others_that_were_started_there_are_spared(stage: DemoStage) -> None:
    """As `stop` spares them: a person may sit at a terminal that a tool of the agent has opened."""
    session_id = _launched(stage, "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(stage))
    assert timeout.launch_id is not None
    other = stage.start(stage.root / "elsewhere", environ={LAUNCH: timeout.launch_id})
    other.do("rest")
    shutil.rmtree(stage.environ["AGENTCTL_HOME"])
    _ring(timeout.launch_id)
    until(lambda: len(stage.processes()) <= 1, "agent, tool and shim are gone")
    assert stage.session(session_id).verdict.status == "stopped"
    assert stage.session(other.session_id or "").verdict.status == "idle"


@pytest.mark.parametrize("module", [plan, stop])
def test_without_our_notes_it_ends_also_where_it_cannot_be_stopped(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    """A third party's stop plan may fail in any way, and so may what follows: that is said."""

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("broken") if module is plan else Refused("broken")

    _launched(stage, "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(stage))
    assert timeout.launch_id is not None
    folder = Path(launches.folder(_notes(stage), timeout.launch_id))
    for file in Path(stage.environ["AGENTCTL_HOME"]).glob("state.db*"):
        file.unlink()
    monkeypatch.setattr(module, "plan" if module is plan else "stop", fails)
    play_on(stage, monkeypatch)
    assert expire(stage.environ["AGENTCTL_HOME"], timeout.launch_id) is None
    until(lambda: stage.processes() == [], "agent, tool and shim are gone")
    assert "broken" in (folder / "expire").read_text()


@pytest.mark.parametrize("place", ["/dev/full", "/no/such/folder/again"])
def test_on_a_full_disk_the_shim_is_told_to_ask_again(place: str) -> None:
    """When, it cannot be told: it knows a time of its own."""
    with pytest.raises(SystemExit) as left:
        _ask_again(place, 5.0)
    assert left.value.code == shim.AGAIN
