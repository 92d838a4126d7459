"""`daemon install` and `uninstall`, with a service manager that writes down what it is told."""

import os
from pathlib import Path

import pytest

from agentctl.cli import installing
from agentctl.errors import Unreachable
from tests.daemon.serving import daemon_of, daemons_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of


def _manager(stage: DemoStage, code: int = 0) -> Path:
    """A `systemctl` of the test's own."""
    program, told = stage.root / "bin" / "systemctl", stage.root / "told"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\necho "$*" >> "{told}"\necho "no bus" >&2\nexit {code}\n')
    program.chmod(0o755)
    stage.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
    return told


def _units(stage: DemoStage) -> list[Path]:
    return list((stage.home / ".config" / "systemd" / "user").glob("*"))


def test_install_and_uninstall(stage: DemoStage) -> None:
    told = _manager(stage)
    ran = agentctl_of(stage, "daemon", "install")
    assert ran.code == 0, ran.err
    (unit,) = _units(stage)
    assert ran.lines == [f"wrote {unit}", "the daemon runs, and will at each login"]
    assert f'Environment="AGENTCTL_HOME={stage.environ["AGENTCTL_HOME"]}"' in unit.read_text()
    assert agentctl_of(stage, "daemon", "install").code == 0, "our own file may be written anew"
    ran = agentctl_of(stage, "daemon", "uninstall")
    assert ran.lines == [
        f"removed {unit}",
        "the daemon is stopped, and starts only where a verb needs it",
    ]
    assert _units(stage) == []
    assert told.read_text().splitlines() == [
        "--user daemon-reload",
        f"--user enable --now {unit.name}",
        "--user daemon-reload",
        f"--user enable --now {unit.name}",
        f"--user disable --now {unit.name}",
        "--user daemon-reload",
    ]
    assert agentctl_of(stage, "daemon", "uninstall").code == 3


def test_the_one_that_runs_makes_room(stage: DemoStage) -> None:
    _manager(stage)
    identity = daemon_of(stage)
    ran = agentctl_of(stage, "daemon", "install")
    assert f"stopped the daemon that ran, pid {identity.pid}" in ran.lines
    assert daemons_of(stage) == []


def test_without_a_manager_it_says_what_to_type(stage: DemoStage) -> None:
    _manager(stage, code=1)
    identity = daemon_of(stage)
    ran = agentctl_of(stage, "daemon", "install")
    assert ran.code == 1
    (unit,) = _units(stage)
    why, what = ran.err.splitlines()
    assert why == "agentctl: systemctl --user daemon-reload: no bus"
    both = f"systemctl --user daemon-reload && systemctl --user enable --now {unit.name}"
    assert what == f"  where your login's services run: {both}"
    assert daemons_of(stage) == [identity.pid], "and the one that runs, runs on"


@pytest.mark.parametrize("deed", ["install", "uninstall"])
def test_a_file_that_it_did_not_write_is_left_alone(stage: DemoStage, deed: str) -> None:
    _manager(stage)
    agentctl_of(stage, "daemon", "install")
    (unit,) = _units(stage)
    unit.write_text("mine")
    ran = agentctl_of(stage, "daemon", deed)
    assert (ran.code, unit.read_text()) == (4, "mine")
    assert "is not a file that install wrote" in ran.err


def test_the_usual_home_has_the_plain_name(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/bin", "XDG_CONFIG_HOME": "/c"}
    usual = installing.described(environ, "linux")
    assert usual.path == "/c/systemd/user/agentctl.service"
    assert "AGENTCTL_HOME" not in usual.content
    same = installing.described({**environ, "AGENTCTL_HOME": f"{tmp_path}/.agentctl"}, "linux")
    assert same == usual


def test_a_mac(tmp_path: Path) -> None:
    made = installing.described({"HOME": str(tmp_path), "PATH": "/bin"}, "darwin")
    assert made.path == f"{tmp_path}/Library/LaunchAgents/dev.agentctl.plist"
    domain = f"gui/{os.getuid()}"
    assert made.begin == (("launchctl", "bootstrap", domain, made.path),)
    assert made.end == (("launchctl", "bootout", f"{domain}/dev.agentctl"),)


def test_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installing, "home_directory", lambda _: None)
    with pytest.raises(Unreachable, match="no home"):
        installing.described({"AGENTCTL_HOME": str(tmp_path)}, "linux")
