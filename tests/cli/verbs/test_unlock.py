"""`agentctl unlock`: 0 released, 3 nobody holds it, 4 an agent does."""

from agentctl.state import launch_writes
from agentctl.truth.model import Launch
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


def test_nobody_holds_it(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "unlock", str(stage.work))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.splitlines()[0] == f"agentctl: nobody holds {stage.work.resolve()}"
    assert not (stage.root / "state").exists()


def test_an_agent_s_only_by_force(stage: DemoStage) -> None:
    puppet = stage.start()
    note = Launch("1a", puppet.identity, puppet.session_id, cwd=str(stage.work))
    launch_writes.begin(f"{stage.root}/state/state.db", note)
    refused = agentctl_of(stage, "unlock", str(stage.work))
    assert refused.code == 4
    assert f"in use by session {puppet.session_id}, pid {puppet.pid}" in refused.err
    assert f"agentctl stop {puppet.session_id} ends it" in refused.err
    forced = agentctl_of(stage, "unlock", "--force", "--json", str(stage.work))
    assert forced.code == 0
    assert [lock["pid"] for lock in forced.json()["locks"]] == [puppet.pid]
    assert agentctl_of(stage, "unlock", str(stage.work)).code == 3
    assert stage.row_of(puppet) is not None  # it works on
