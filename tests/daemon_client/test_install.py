"""The file of the service: systemd reads its values unchanged, and hides no files from the daemon."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from agentctl.daemon_client import install
from agentctl.errors import Unreachable, UsageError
from tests.daemon.serving import daemon_of, daemons_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of

AWKWARD = '/home/a b/100%h/"quoted"/back\\slash/$HOME/it\'s/ä'
COMMAND = ["/usr/bin/python3", "-P", "-c", 'import sys; print("%s" % 1)', AWKWARD]
ENVIRON = {"AGENTCTL_HOME": AWKWARD, "PATH": "/usr/bin:/bin"}


def parse_line(line: str) -> list[str]:
    """Return the words of a line as systemd.syntax(7) reads them, with specifiers resolved."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    plain = [re.sub(r"\\(.)", lambda m: {"t": "\t"}.get(m[1], m[1]), word) for word in words]
    return [remove_escapes(word, "%") for word in plain]


def remove_escapes(word: str, sign: str) -> str:
    """Make each doubled sign single: a single one would have a meaning for systemd."""
    assert word.count(sign) == 2 * word.count(sign * 2), word
    return word.replace(sign * 2, sign)


def test_a_unit_has_the_command_and_the_environment() -> None:
    unit = install.make_unit(AWKWARD, COMMAND, ENVIRON).splitlines()
    (command,) = [line for line in unit if line.startswith("ExecStart=")]
    assert [remove_escapes(word, "$") for word in parse_line(command)] == COMMAND
    variables = [parse_line(line)[0] for line in unit if line.startswith("Environment=")]
    assert variables == [f"{name}={value}" for name, value in ENVIRON.items()]


def test_systemd_accepts_a_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")

    def verify_unit(text: str) -> tuple[int, str]:
        path = tmp_path / "agentctl-test.service"
        path.write_text(text)
        command = ["systemd-analyze", "--user", "--man=no", "verify", str(path)]
        # It looks at the machine's own units too: their sockets need a short name.
        with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
            environ = {**os.environ, "XDG_RUNTIME_DIR": runtime, "HOME": str(tmp_path)}
            ran = subprocess.run(
                command, env=environ, capture_output=True, text=True, check=False, timeout=60
            )
        return ran.returncode, ran.stderr

    unit = install.make_unit(AWKWARD, ["/bin/sh", "-c", "true", AWKWARD], ENVIRON)
    assert verify_unit(unit) == (0, "")
    assert verify_unit(unit.replace("LockPersonality", "LockPersonalty")) != (0, ""), "it does look"


@pytest.mark.parametrize(
    "setting", ["Private", "Protect", "Bind", "ReadOnly", "Inaccessible", "RootDirectory", "MemoryDeny"]
)
def test_a_unit_has_no_setting_that_hides_files(setting: str) -> None:
    assert f"\n{setting}" not in install.make_unit("/h", COMMAND, ENVIRON)


def test_a_unit_restarts_the_daemon_unless_another_runs() -> None:
    unit = install.make_unit("/h", COMMAND, ENVIRON)
    assert "\nRestart=on-failure\n" in unit
    assert "\nRestartPreventExitStatus=4\n" in unit
    assert "/h/daemon.sock" in unit


@pytest.mark.parametrize("bad", ["/a\nExecStart=/bin/rm", "/a\0b", "/a\udcff", "/a\rb", "/a\x1b[2J"])
def test_a_value_that_no_line_can_hold_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="a service file cannot hold"):
        install.make_unit(bad, COMMAND, ENVIRON)
    with pytest.raises(UsageError):
        install.make_unit("/h", COMMAND, {"PATH": bad})


def test_each_home_has_its_own_service_name() -> None:
    assert install.service_name("/home/me/.agentctl", usual=True) == "agentctl"
    names = {
        install.service_name(home, usual=False) for home in ("/a/x", "/b/x", "/a/x y", "/a/x%y", "/")
    }
    assert len(names) == 5
    assert all(re.fullmatch(r"agentctl-[A-Za-z0-9-]+", name) for name in names)


def test_the_environment_has_the_homes_of_agents_and_no_secrets() -> None:
    environ = {
        "PATH": "/bin",
        "CODEX_HOME": "/c",
        "OPENAI_API_KEY": "x",
        "AGENTCTL_HOME": "/h",
        "PWD": "/",
    }
    assert install.service_environment(environ, "/h", usual=False) == {
        "AGENTCTL_HOME": "/h",
        "PATH": "/bin",
        "CODEX_HOME": "/c",
    }
    assert "AGENTCTL_HOME" not in install.service_environment(environ, "/h", usual=True)


def install_fake_systemctl(stage: DemoStage, code: int = 0) -> Path:
    """Install a `systemctl` of the test. Return the file in which it records its calls."""
    program, calls = stage.root / "bin" / "systemctl", stage.root / "calls"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\necho "$*" >> "{calls}"\necho "no bus" >&2\nexit {code}\n')
    program.chmod(0o755)
    stage.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
    return calls


def list_units(stage: DemoStage) -> list[Path]:
    return list((stage.home / ".config" / "systemd" / "user").glob("*"))


def test_install_and_uninstall(stage: DemoStage) -> None:
    calls = install_fake_systemctl(stage)
    ran = agentctl_of(stage, "daemon", "install")
    assert ran.code == 0, ran.err
    (unit,) = list_units(stage)
    assert ran.lines == [f"wrote {unit}", "the daemon runs, and will start at each login"]
    assert f'Environment="AGENTCTL_HOME={stage.environ["AGENTCTL_HOME"]}"' in unit.read_text()
    assert agentctl_of(stage, "daemon", "install").code == 0, "our own file may be replaced"
    ran = agentctl_of(stage, "daemon", "uninstall")
    assert ran.lines == [
        f"removed {unit}",
        "the daemon is stopped, and starts only when a command needs it",
    ]
    assert list_units(stage) == []
    assert calls.read_text().splitlines() == [
        "--user daemon-reload",
        f"--user enable --now {unit.name}",
        "--user daemon-reload",
        f"--user enable --now {unit.name}",
        f"--user disable --now {unit.name}",
        "--user daemon-reload",
    ]
    assert agentctl_of(stage, "daemon", "uninstall").code == 3


def test_install_stops_the_daemon_that_runs(stage: DemoStage) -> None:
    install_fake_systemctl(stage)
    identity = daemon_of(stage)
    ran = agentctl_of(stage, "daemon", "install")
    assert f"stopped the daemon that ran, pid {identity.pid}" in ran.lines
    assert daemons_of(stage) == []


def test_without_a_manager_the_error_names_the_command(stage: DemoStage) -> None:
    install_fake_systemctl(stage, code=1)
    identity = daemon_of(stage)
    ran = agentctl_of(stage, "daemon", "install")
    assert ran.code == 1
    (unit,) = list_units(stage)
    why, what = ran.err.splitlines()
    assert why == "agentctl: systemctl --user daemon-reload: no bus"
    both = f"systemctl --user daemon-reload && systemctl --user enable --now {unit.name}"
    assert what == f"  where your login's services run: {both}"
    assert daemons_of(stage) == [identity.pid], "the daemon that ran still runs"


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_file_of_the_user_is_not_changed(stage: DemoStage, command: str) -> None:
    install_fake_systemctl(stage)
    agentctl_of(stage, "daemon", "install")
    (unit,) = list_units(stage)
    unit.write_text("mine")
    ran = agentctl_of(stage, "daemon", command)
    assert (ran.code, unit.read_text()) == (4, "mine")
    assert "is not a file that install wrote" in ran.err


def test_the_usual_home_has_the_usual_service_name(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/bin", "XDG_CONFIG_HOME": "/c"}
    usual = install.describe_service(environ)
    assert usual.path == "/c/systemd/user/agentctl.service"
    assert "AGENTCTL_HOME" not in usual.content
    same = install.describe_service({**environ, "AGENTCTL_HOME": f"{tmp_path}/.agentctl"})
    assert same == usual


def test_without_a_home_there_is_no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install, "home_directory", lambda _: None)
    with pytest.raises(Unreachable, match="no home"):
        install.describe_service({"AGENTCTL_HOME": str(tmp_path)})
