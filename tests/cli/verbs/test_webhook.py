"""`agentctl webhook`: its commands, and wrong usage of each."""

import pytest

from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("frob",), "unknown command 'webhook frob'"),
        (("list", "x"), "unrecognized arguments: x"),
        (("test", "a", "b"), "unrecognized arguments: b"),
        (("retry", "--all"), "webhook retry takes no --all"),
        (("test", "--dead"), "webhook test takes no --dead"),
        (("retry", "x", "--dead"), "ID and --dead exclude each other"),
    ],
)
def test_usage(stage: DemoStage, words: tuple[str, ...], message: str) -> None:
    ran = agentctl_of(stage, "webhook", *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert not (stage.root / "state").exists()


def test_without_a_command_it_lists(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "webhook")
    assert ran.code == 0
    assert ran.out.startswith("no webhook is configured")
    assert agentctl_of(stage, "webhook", "--json").json() == {
        "version": 1,
        "targets": [],
        "deliveries": [],
    }
    assert not (stage.root / "state").exists()
