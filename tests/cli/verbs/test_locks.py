"""`agentctl locks` is `agentctl lock list`."""

from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


def test_it_is_lock_list(stage: DemoStage) -> None:
    for words in ((), ("--json",)):
        assert agentctl_of(stage, "locks", *words) == agentctl_of(stage, "lock", "list", *words)
    agentctl_of(stage, "lock", str(stage.work))
    assert agentctl_of(stage, "locks", "--json") == agentctl_of(stage, "lock", "list", "--json")


def test_it_takes_no_directory(stage: DemoStage) -> None:
    assert agentctl_of(stage, "locks", ".").code == 2
