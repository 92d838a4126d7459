"""`agentctl daemon`: which words mean what."""

import pytest

from agentctl.cli import completion
from agentctl.cli.verbs import daemon
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("begin",), "daemon knows no 'begin'"),
        (("start", "--json"), "daemon start takes no --json"),
        (("stop", "--foreground"), "daemon stop takes no --foreground"),
        (("status", "-f"), "daemon status takes no --follow"),
        (("-n", "3"), "daemon status takes no -n"),
        (("logs", "-n", "0"), "-n: not a whole number above 0: '0'"),
        (("logs", "-n", "x"), "-n: not a whole number above 0: 'x'"),
        (("start", "--force"), "daemon start takes no --force"),
    ],
)
def test_words_that_do_not_fit(stage: DemoStage, words: tuple[str, ...], told: str) -> None:
    ran = agentctl_of(stage, "daemon", *words)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def test_help_tells_exit_codes_and_examples(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "help", "daemon")
    assert ran.code == 0
    for word in ("Exit codes: 3", "agentctl daemon logs -f", "AGENTCTL_NO_DAEMON=1"):
        assert word in ran.out


def test_completion_knows_every_deed() -> None:
    assert completion.ARGUMENTS["daemon"] == daemon.DEEDS


def test_every_option_belongs_to_a_deed() -> None:
    options = {action.dest for action in daemon.parser()._actions if action.option_strings} - {"help"}
    assert options == daemon.FIT.keys()
    assert {deed for deeds in daemon.FIT.values() for deed in deeds} <= set(daemon.DEEDS)
