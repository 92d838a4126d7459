"""`agentctl help`."""

import pytest

from agentctl.cli.catalogue import VERBS
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


@pytest.mark.parametrize("verb", VERBS)
def test_help_on_a_verb_is_its_own_help(stage: DemoStage, verb: str) -> None:
    ran = agentctl_of(stage, "help", verb)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: agentctl {verb} ")
    assert "examples:\n" in ran.out
    assert agentctl_of(stage, verb, "--help") == ran


def test_help_on_everything(stage: DemoStage) -> None:
    assert agentctl_of(stage, "help") == agentctl_of(stage, "--help")


def test_an_unknown_verb_is_a_usage_error(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "help", "nosuch")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("agentctl: no verb 'nosuch'\n")


def test_an_unknown_command_is_a_usage_error(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "help", "daemon", "lgos")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "agentctl: unknown command 'daemon lgos'\n  did you mean 'logs'?\n"
    assert "list has no commands" in agentctl_of(stage, "help", "list", "x").err
