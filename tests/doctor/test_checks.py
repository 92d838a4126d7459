"""What `doctor` finds."""

import os
from pathlib import Path

import pytest

from agentctl.adapters import registry
from agentctl.daemon.connection import Peer
from agentctl.daemon_client import protocol
from agentctl.daemon_client.protocol import Request
from agentctl.doctor import checks
from agentctl.doctor.checks import Finding
from agentctl.errors import Unsupported
from agentctl.system import pidfd
from agentctl.truth.look import Look
from agentctl.truth.model import Problem
from tests.daemon.serving import Served, home_of
from tests.fakes.demo import DemoStage


def _levels(found: list[Finding]) -> set[str]:
    return {finding.level for finding in found}


def test_this_machine() -> None:
    found = list(checks.of_machine())
    assert "wrong" not in _levels(found)
    assert [finding.subject for finding in found[:2]] == ["agentctl", "kernel"]


def test_a_kernel_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported() -> bool:
        raise Unsupported("pidfd_open", "not available here")

    monkeypatch.setattr(pidfd, "exit_info_supported", unsupported)
    found = list(checks.of_machine())
    assert found[-1].level == "wrong"
    assert "pidfd_open: not available here" in found[-1].text
    monkeypatch.delattr(os, "pidfd_open")
    assert "no pidfd" in list(checks.of_machine())[-1].text


@pytest.mark.parametrize("told", [True, False])
def test_exit_info(monkeypatch: pytest.MonkeyPatch, told: bool) -> None:
    monkeypatch.setattr(pidfd, "exit_info_supported", lambda: told)
    texts = [finding.text for finding in checks.of_machine()]
    assert any(("no exit info" in text) != told for text in texts if "exit info" in text)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTCTL_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_state_directory_that_is_not_there_yet(state: Path) -> None:
    assert list(checks.of_state(os.environ)) == [Finding("state", "ok", f"{state} (not there yet)")]


def test_a_private_state_directory(state: Path) -> None:
    state.mkdir(mode=0o700)
    assert list(checks.of_state(os.environ)) == [Finding("state", "ok", str(state))]


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701])
def test_a_state_directory_for_everybody_is_wrong(state: Path, mode: int) -> None:
    state.mkdir()
    state.chmod(mode)
    (found,) = checks.of_state(os.environ)
    assert found.level == "wrong"
    assert f"chmod 700 {state}" in found.text


def test_a_state_directory_that_cannot_be_told(state: Path) -> None:
    state.symlink_to(state)
    (found,) = checks.of_state(os.environ)
    assert found.level == "wrong"


def test_a_binary_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = registry.load("demo")
    monkeypatch.setenv("PATH", f"/nonexistent:{tmp_path}")
    assert checks.installed(adapter) == Finding("demo", "note", "no 'agentctl' on PATH")
    (tmp_path / "agentctl").mkdir()  # a directory is no command
    assert checks.installed(adapter).level == "note"
    (tmp_path / "agentctl").rmdir()
    (tmp_path / "agentctl").touch(0o755)
    assert checks.installed(adapter) == Finding("demo", "ok", f"{tmp_path}/agentctl (version unknown)")


def test_a_version_is_read_and_nothing_is_run(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "node_modules" / "agent"
    (package / "bin").mkdir(parents=True)
    (package / "bin" / "agent.js").write_text("#!/bin/false\n")
    (package / "package.json").write_text('{"version": "1.2.3"}')
    (tmp_path / "agent").symlink_to(package / "bin" / "agent.js")
    assert checks.version_of(str(tmp_path / "agent")) == "1.2.3"
    (package / "package.json").write_text("[]")
    assert checks.version_of(str(tmp_path / "agent")) is None
    (tmp_path / "2.1.325").touch()
    (tmp_path / "claude").symlink_to(tmp_path / "2.1.325")
    assert checks.version_of(str(tmp_path / "claude")) == "2.1.325"


def test_an_agent_s_places(tmp_path: Path) -> None:
    look = Look({}, {"HOME": str(tmp_path)}, 0.0).scoped("demo")
    found = list(checks.of_agent(registry.load("demo"), look, []))
    assert found[1] == Finding("demo", "ok", "0 live")
    assert found[2].text == f"journals: {tmp_path}/.demo-agent/sessions (not there)"
    (tmp_path / ".demo-agent").mkdir()
    (tmp_path / ".demo-agent" / "sessions").symlink_to("sessions")
    found = list(checks.of_agent(registry.load("demo"), look, []))
    assert [finding.level for finding in found[2:]] == ["wrong", "ok"]


@pytest.mark.parametrize(
    ("kind", "level"),
    [("stale", "note"), ("malformed", "wrong"), ("forbidden", "wrong"), ("late", "wrong")],
)
def test_a_problem_is_a_finding(kind: str, level: str) -> None:
    assert checks.of_problem(Problem("demo", kind, "what", "/where")) == Finding(
        "demo", level, f"{kind}: what (/where)"
    )
    assert checks.of_problem(Problem("", kind, "what")).subject == "agentctl"


def test_extras() -> None:
    assert "wrong" not in _levels(list(checks.of_extras()))


def test_the_parts_of_the_daemon(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTL_HOME", home_of(stage))
    assert list(checks.of_daemon(os.environ)) == [Finding("daemon", "ok", "none runs")]
    parts = [
        {"name": "guard", "state": "running"},
        {"name": "observer", "state": "degraded", "problem": "a limit", "unwatched": ["/x: denied"]},
        {"name": "clock", "state": "failed", "problem": "broken"},
    ]
    hello = {"protocol": protocol.PROTOCOL, "version": "1", "pid": 7, "start": 7, "home": ""}

    async def answer(asked: Request, _: Peer) -> object:
        return hello if asked.method == "hello" else {"pid": 7, "parts": parts}

    with Served(Path(home_of(stage)), answer):
        assert list(checks.of_daemon(os.environ)) == [
            Finding("daemon", "ok", "pid 7"),
            Finding("daemon", "note", "observer degraded: a limit"),
            Finding("daemon", "note", "observer: looked at once a second, not watched: /x: denied"),
            Finding("daemon", "wrong", "clock failed: broken"),
        ]
