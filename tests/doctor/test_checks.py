"""The checks of `doctor`, one by one."""

import os
import tomllib
from pathlib import Path

import pytest

from agentctl.adapters import registry
from agentctl.config import settings
from agentctl.daemon.server import Peer
from agentctl.daemon_client import protocol
from agentctl.daemon_client.protocol import Request
from agentctl.doctor import checks
from agentctl.errors import Unsupported
from agentctl.launch.order import StartRequest, prepare_order
from agentctl.system import pidfd
from agentctl.truth.look import Look
from agentctl.truth.model import Problem
from agentctl.wire.doctor import Finding
from tests.daemon.serving import Served, home_of
from tests.fakes.demo import DemoStage


def _levels(findings: list[Finding]) -> set[str]:
    return {finding.level for finding in findings}


def test_this_machine() -> None:
    findings = list(checks.check_machine())
    assert "wrong" not in _levels(findings)
    assert [finding.subject for finding in findings[:2]] == ["agentctl", "kernel"]


def test_a_kernel_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported() -> bool:
        raise Unsupported("pidfd_open", "not available here")

    monkeypatch.setattr(pidfd, "has_exit_info", unsupported)
    findings = list(checks.check_machine())
    assert findings[-1].level == "wrong"
    assert "pidfd_open: not available here" in findings[-1].text
    monkeypatch.delattr(os, "pidfd_open")
    assert "no pidfd" in list(checks.check_machine())[-1].text


@pytest.mark.parametrize("supported", [True, False])
def test_exit_info(monkeypatch: pytest.MonkeyPatch, supported: bool) -> None:
    monkeypatch.setattr(pidfd, "has_exit_info", lambda: supported)
    (finding,) = [finding for finding in checks.check_machine() if "exit info" in finding.text]
    assert finding.level == ("ok" if supported else "note")
    assert finding.text.startswith("exit info:" if supported else "no exit info")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTCTL_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_state_directory_that_is_not_there_yet(state: Path) -> None:
    assert list(checks.check_state(os.environ)) == [
        Finding("state", "ok", f"{state} (does not exist yet)")
    ]


def test_a_private_state_directory(state: Path) -> None:
    state.mkdir(mode=0o700)
    assert list(checks.check_state(os.environ)) == [Finding("state", "ok", str(state))]


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701])
def test_a_state_directory_open_to_others_is_wrong(state: Path, mode: int) -> None:
    state.mkdir()
    state.chmod(mode)
    (finding,) = checks.check_state(os.environ)
    assert finding.level == "wrong"
    assert f"chmod 700 {state}" in finding.text


def test_a_state_directory_that_cannot_be_read_is_wrong(state: Path) -> None:
    state.symlink_to(state)
    (finding,) = checks.check_state(os.environ)
    assert finding.level == "wrong"


def _install(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o755)
    return path


def test_a_program_on_the_path(tmp_path: Path) -> None:
    adapter, environ = registry.load("claude-code"), {"PATH": f"/nonexistent:{tmp_path}"}
    finding = checks.check_program(adapter, environ)
    assert (finding.level, f"looked in /nonexistent, {tmp_path}" in finding.text) == ("note", True)
    (tmp_path / "claude").mkdir()  # a directory is not a program
    assert checks.check_program(adapter, environ).level == "note"
    (tmp_path / "claude").rmdir()
    program = _install(tmp_path / "claude")
    expected = Finding("claude-code", "ok", f"{program} (version unknown)")
    assert checks.check_program(adapter, environ) == expected


def _launch_program(adapter: str, environ: dict[str, str], cwd: Path) -> str:
    """Return the program that `launch` would start."""
    binary = settings.load(environ).for_adapter(adapter).binary.value
    wish = StartRequest(adapter, "hello", str(cwd), binary=binary)
    return prepare_order(wish, environ).command.argv[0]


@pytest.mark.parametrize("adapter", ["claude-code", "codex", "opencode", "pi"])
@pytest.mark.parametrize("place", ["path", "home", "setting", "variable"])
def test_a_program_is_found_where_launch_finds_it(tmp_path: Path, adapter: str, place: str) -> None:
    agent, environ = registry.load(adapter), {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    environ["AGENTCTL_HOME"] = str(state)
    if place == "path":
        program = _install(tmp_path / "bin" / agent.binary)
    elif place == "home":  # not on PATH
        program = _install(tmp_path / ".local" / "bin" / agent.binary)
    else:
        _install(tmp_path / "bin" / agent.binary)  # the setting wins
        program = _install(tmp_path / "elsewhere" / "my-agent")
    if place == "setting":
        (state / "config.toml").write_text(f'[adapters.{adapter}]\nbinary = "{program}"\n')
    elif place == "variable":
        environ[f"AGENTCTL_ADAPTER_{adapter.replace('-', '_').upper()}_BINARY"] = str(program)
    finding = checks.check_program(agent, environ)
    assert finding == Finding(adapter, "ok", f"{program} (version unknown)")
    assert _launch_program(adapter, environ, tmp_path) == str(program)


def test_a_program_that_is_set_and_missing_is_wrong(tmp_path: Path) -> None:
    _install(tmp_path / "pi")
    environ = {"PATH": str(tmp_path), "AGENTCTL_ADAPTER_PI_BINARY": "/no/such"}
    finding = checks.check_program(registry.load("pi"), environ)
    assert finding == Finding("pi", "wrong", "cannot run /no/such (there is no such file)")


def test_a_version_is_read_and_nothing_is_run(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "node_modules" / "agent"
    (package / "bin").mkdir(parents=True)
    (package / "bin" / "agent.js").write_text("#!/bin/false\n")
    (package / "package.json").write_text('{"version": "1.2.3"}')
    (tmp_path / "agent").symlink_to(package / "bin" / "agent.js")
    assert checks.read_version(str(tmp_path / "agent")) == "1.2.3"
    (package / "package.json").write_text("[]")
    assert checks.read_version(str(tmp_path / "agent")) is None
    (tmp_path / "2.1.325").touch()
    (tmp_path / "claude").symlink_to(tmp_path / "2.1.325")
    assert checks.read_version(str(tmp_path / "claude")) == "2.1.325"


def test_an_agent_s_places(tmp_path: Path) -> None:
    look = Look({}, {"HOME": str(tmp_path)}, 0.0).scope_to("demo")
    findings = list(checks.check_agent(registry.load("demo"), look, [], {}))
    assert findings[1] == Finding("demo", "ok", "0 live")
    assert findings[2].text == f"journals: {tmp_path}/.demo-agent/sessions (does not exist)"
    (tmp_path / ".demo-agent").mkdir()
    (tmp_path / ".demo-agent" / "sessions").symlink_to("sessions")
    findings = list(checks.check_agent(registry.load("demo"), look, [], {}))
    assert [finding.level for finding in findings[2:]] == ["wrong", "ok"]


@pytest.mark.parametrize(
    ("kind", "level"),
    [("stale", "note"), ("malformed", "wrong"), ("forbidden", "wrong"), ("late", "wrong")],
)
def test_a_problem_is_a_finding(kind: str, level: str) -> None:
    assert checks.problem_finding(Problem("demo", kind, "what", "/where")) == Finding(
        "demo", level, f"{kind}: what (/where)"
    )
    assert checks.problem_finding(Problem("", kind, "what")).subject == "agentctl"


def test_extras() -> None:
    assert "wrong" not in _levels(list(checks.check_extras()))
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(checks.EXTRAS) == set(project["optional-dependencies"])


def test_the_parts_of_the_daemon(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTL_HOME", home_of(stage))
    assert list(checks.check_daemon(os.environ)) == [Finding("daemon", "ok", "not running")]
    parts = [
        {"name": "guard", "state": "running"},
        {"name": "observer", "state": "degraded", "problem": "a limit", "unwatched": ["/x: denied"]},
        {"name": "clock", "state": "failed", "problem": "broken"},
    ]
    hello = {"protocol": protocol.PROTOCOL, "version": "1", "pid": 7, "start": 7, "home": ""}

    async def answer(request: Request, _: Peer) -> object:
        return hello if request.method == "hello" else {"pid": 7, "parts": parts}

    with Served(Path(home_of(stage)), answer):
        assert list(checks.check_daemon(os.environ)) == [
            Finding("daemon", "ok", "pid 7"),
            Finding("daemon", "note", "observer degraded: a limit"),
            Finding("daemon", "note", "observer: polled every second, not watched: /x: denied"),
            Finding("daemon", "wrong", "clock failed: broken"),
        ]
