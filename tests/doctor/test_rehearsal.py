"""The results of `doctor --live`, from the lines that a rehearsal prints.

Rehearsals that really run are in tests/cli/verbs/test_doctor.py.
"""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from agentctl.doctor.rehearsal import rehearse_agents
from agentctl.errors import StartFailed, UsageError
from agentctl.rehearsal import run, sandbox

HEAD = {"adapter": "codex", "binary": "/bin/codex", "agent_version": "9.9", "measured_on": ["0.1"]}
START = {"act": "terminal", "step": "start"}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Play these lines as the rehearsal of every agent."""
    lines: list[dict[str, Any]] = [HEAD]

    def play(*_: object) -> Generator[dict[str, Any], None, None]:
        yield from lines

    monkeypatch.setattr(sandbox, "find_obstacle", lambda **_: None)
    monkeypatch.setattr(run, "find_agent_program", _find("codex", "pi"))
    monkeypatch.setattr(run, "rehearse", play)
    return lines


def rehearse(*names: str) -> list[dict[str, Any]]:
    return rehearse_agents(names, {}, 1.0, lambda _: None)


@pytest.mark.parametrize(
    ("state", "result", "reason"),
    [
        ("as expected", "as expected", None),
        ("drifted", "drifted", None),
        ("not reached", "failed", "start (at its terminal) was not reached"),
    ],
)
def test_the_result_follows_from_the_steps(
    lines: list[dict[str, Any]], state: str, result: str, reason: str | None
) -> None:
    lines += [{**START, "state": state}]
    (agent,) = rehearse("codex")
    assert (agent["state"], agent["reason"], agent["agent_version"]) == (result, reason, "9.9")
    assert agent["steps"] == lines[1:]


def test_a_rehearsal_that_breaks_has_failed(lines: list[dict[str, Any]]) -> None:
    lines[:] = [{"broken": ["no such", "thing"]}]
    (agent,) = rehearse("codex")
    assert (agent["state"], agent["reason"]) == ("failed", "no such thing")


def test_every_line_and_the_result_are_shown(lines: list[dict[str, Any]]) -> None:
    lines += [{**START, "state": "as expected"}]
    reports: list[dict[str, Any]] = []
    results = rehearse_agents(["codex"], {}, 1.0, reports.append)
    assert reports == [*lines, *results]


def test_without_a_sandbox_no_agent_is_checked(
    lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_obstacle", lambda **_: "unshare: Operation not permitted")
    codex, pi = rehearse("codex", "pi")
    assert (codex["state"], codex["binary"]) == ("not checked", "/bin/codex")
    assert pi["reason"] == "cannot make a sandbox: unshare: Operation not permitted"


def test_a_named_agent_that_is_not_installed_is_not_checked(
    lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "find_agent_program", _find("codex"))
    (agent,) = rehearse("pi")
    assert (agent["state"], agent["binary"]) == ("not checked", None)
    assert agent["reason"] == "pi is not installed (looked in /bin)"


def test_without_names_only_installed_agents_count(
    lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "find_agent_program", _find("codex"))
    assert [agent["adapter"] for agent in rehearse()] == ["codex"]
    monkeypatch.setattr(run, "find_agent_program", _find())
    assert rehearse() == []


def test_an_unknown_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no adapter named 'cluade'"):
        rehearse("cluade")


def _find(*installed: str) -> Callable[[str, object], str]:
    def find(name: str, _: object) -> str:
        if name in installed:
            return f"/bin/{name}"
        raise StartFailed(f"{name} is not installed", "looked in /bin")

    return find
