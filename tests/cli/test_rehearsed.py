"""What `doctor --live` makes of what walks tell: lines for people, exit codes, and what was not checked.
(With agents that really run: tests/cli/verbs/test_doctor.py.)"""

from collections.abc import Generator
from typing import Any

import pytest

from agentctl.cli import rehearsed
from agentctl.errors import StartFailed, UsageError
from agentctl.rehearsal import sandbox, visit

HEAD = {"adapter": "codex", "binary": "/bin/codex", "agent_version": "9.9", "measured_on": ["0.1"]}


def step(name: str, state: str = "as expected", **more: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {
        "act": "terminal", "step": name, "state": state, "expected": "idle", "blind": False,
        "told": "idle", "reason": "", "differs": [], "signals": [], "problems": [], "evidence": [],
        "said": [], "seconds": 0.1,
    }  # fmt: skip
    return {**blank, **more}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the walk of every agent will tell."""
    lines: list[dict[str, Any]] = [HEAD]

    def visited(*_: object) -> Generator[dict[str, Any], None, None]:
        yield from lines

    monkeypatch.setattr(sandbox, "obstacle", lambda **_: None)
    monkeypatch.setattr(visit, "program", lambda name, _: f"/bin/{name}")
    monkeypatch.setattr(visit, "visit", visited)
    return lines


def run(*names: str) -> int:
    return rehearsed.run(names, 1.0, as_json=False)


def test_as_expected(told: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    told += [step("start"), step("end", act="headless")]
    assert run("codex") == 0
    assert capsys.readouterr().out == (
        "codex 9.9, never measured: compared with 0.1: /bin/codex\n"
        "  at its terminal start       idle     as expected\n"
        "  launched        end         idle     as expected\n"
        "codex as expected: 2 of 2 steps as expected\n"
        "\nnothing drifted\n"
    )


def test_drift_is_told_signal_by_signal(
    told: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"what": "a lock", "state": "missing", "found": None, "address": None}
    changed = {
        "what": "it says idle", "state": "untrusted", "found": "parked\x1b[2J",
        "address": "/tmp/rabc/home/.codex/x",
    }  # fmt: skip
    problem = {"kind": "drift", "message": "says 'parked'", "source": "/x", "adapter": "codex"}
    differs = ["status running, not idle"]
    told += [step("idle", "drifted", signals=[missing, changed], problems=[problem], differs=differs)]
    assert run("codex") == 1
    out = capsys.readouterr().out.splitlines()
    assert out[2:6] == [
        "      status running, not idle",
        "      missing: a lock",
        "      untrusted: it says idle: parked\\x1b[2J (~/.codex/x)",
        "      drift: says 'parked' (/x)",
    ]
    assert out[-1] == "not as expected: codex"


def test_what_was_not_reached_is_told_with_the_last_words(
    told: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    told += [step("start", "not reached", said=["boom"], seconds=30.0)]
    assert run("codex") == 1
    out = capsys.readouterr().out
    assert "      waited 30.0 s; its last words:\n      | boom\n" in out
    assert "codex failed: 0 of 1 steps as expected: start (at its terminal) was not reached" in out


def test_a_walk_that_breaks_is_no_success(
    told: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    told[:] = [{"broken": ["no such thing"]}]
    assert run("codex") == 1
    assert "codex failed: no such thing" in capsys.readouterr().out


def test_where_nothing_tells_that_is_said(
    told: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    told += [step("start", blind=True, told="running")]
    assert run("codex") == 0
    assert "as expected (told running: nothing tells more)" in capsys.readouterr().out


def test_without_a_room_each_is_told_why_it_was_not_checked(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "obstacle", lambda **_: "unshare: Operation not permitted")
    assert run("codex", "pi") == 5
    assert capsys.readouterr().out == (
        "codex not checked: no room for it here: unshare: Operation not permitted\n"
        "pi not checked: no room for it here: unshare: Operation not permitted\n"
        "\ncould not be checked: codex, pi\n"
    )


def test_drift_weighs_more_than_what_was_not_checked(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    told += [step("idle", "drifted")]
    monkeypatch.setattr(visit, "program", _only_codex)
    assert run("codex", "pi") == 1
    assert run("pi") == 5


def test_without_names_only_what_is_installed_counts(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told += [step("start")]
    monkeypatch.setattr(visit, "program", _only_codex)
    assert run() == 0
    assert "pi" not in capsys.readouterr().out.split()


def test_nothing_installed_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "obstacle", lambda **_: None)
    monkeypatch.setattr(visit, "program", _nothing)
    assert run() == 5
    assert capsys.readouterr().out == "\nno agent that could be rehearsed is installed\n"


def test_a_name_that_nobody_has_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no adapter named 'cluade'"):
        run("cluade")


def _only_codex(name: str, _: object) -> str:
    if name == "codex":
        return "/bin/codex"
    raise StartFailed(f"{name} is not installed", "looked in /bin")


def _nothing(name: str, _: object) -> str:
    raise StartFailed(f"{name} is not installed", "looked in /bin")
