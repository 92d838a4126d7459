"""`agentctl demo`, the verb; the show itself is tested in tests/demo."""

import argparse

import pytest

from agentctl.cli.verbs import demo
from agentctl.demo import show


@pytest.mark.parametrize(("words", "faster"), [([], False), (["--fast"], True)])
def test_fast_shortens_the_pauses(
    monkeypatch: pytest.MonkeyPatch, words: list[str], faster: bool
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(show, "play", lambda *, pause: pauses.append(pause))
    assert demo.run(demo.parser().parse_args(words)) == 0
    assert (pauses[0] < 1.0) == faster


def test_fast_is_off_by_default() -> None:
    assert demo.parser().parse_args([]) == argparse.Namespace(fast=False)
