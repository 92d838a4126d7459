"""`agentctl webhook`: which deed, and what each refuses."""

import pytest

from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("frob",), "webhook knows no 'frob'"),
        (("list", "x"), "too many words"),
        (("test", "a", "b"), "too many words"),
        (("retry", "--all"), "--all is for webhook list"),
        (("test", "--dead"), "--dead is for webhook retry"),
        (("retry", "x", "--dead"), "not both"),
    ],
)
def test_usage(stage: DemoStage, words: tuple[str, ...], told: str) -> None:
    ran = agentctl_of(stage, "webhook", *words)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert not (stage.root / "state").exists()


def test_alone_it_lists(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "webhook")
    assert ran.code == 0
    assert ran.out.startswith("no webhook is configured")
    assert agentctl_of(stage, "webhook", "--json").json() == {
        "version": 1,
        "targets": [],
        "deliveries": [],
    }
    assert not (stage.root / "state").exists()
