"""The daemon's program."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import agentctl.daemon.__main__ as daemon_main
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import lock_file
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from tests.daemon.serving import daemon_of, daemons_of, home_of, log_of
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import agentctl_in, agentctl_of, environ_of
from tests.waiting import until


def test_it_has_no_terminal_directory_or_agent_of_its_caller(stage: DemoStage) -> None:
    daemon_of(stage, CLAUDECODE="1", AGENTCTL_LAUNCH_ID="abc", CLAUDE_CONFIG_DIR="/some/where")
    holder = lock_file.find_proven(home_of(stage))
    assert holder is not None
    process = proc.find_process(holder.identity)
    assert process is not None
    assert (process.comm, process.cwd) == ("agentctl-daemon", "/")
    assert os.getsid(process.pid) == process.pid
    environ = process.environ()
    assert not {"CLAUDECODE", "AGENTCTL_LAUNCH_ID"} & environ.keys()
    assert environ["CLAUDE_CONFIG_DIR"] == "/some/where", "what the user set stays"


def test_it_may_open_more_files_than_a_login(stage: DemoStage) -> None:
    from resource import RLIMIT_NOFILE, prlimit

    soft, hard = prlimit(daemon_of(stage).pid, RLIMIT_NOFILE)
    assert soft >= min(hard, 8192)


def test_it_inherits_no_descriptor_of_its_caller(stage: DemoStage, tmp_path: Path) -> None:
    """Otherwise a shell's `flock 9` would never be released."""
    fd = os.open(tmp_path / "precious", os.O_CREAT | os.O_RDWR)
    command = [sys.executable, "-m", "agentctl", "daemon", "start"]
    subprocess.run(command, env=environ_of(stage), pass_fds=[fd], check=True, stdout=subprocess.DEVNULL)
    os.close(fd)
    holder = lock_file.find_proven(home_of(stage))
    assert holder is not None
    process = proc.find_process(holder.identity)
    assert process is not None
    assert not [path for path in process.list_open_files() if path.endswith("precious")]


def test_the_result_of_the_start_is_reported_once(tmp_path: Path) -> None:
    """A second report would be written into the file that has that descriptor by then."""
    read, write = os.pipe()
    report = daemon_main.make_reporter(write)
    report("ok")
    other = os.open(tmp_path / "precious", os.O_CREAT | os.O_RDWR)
    os.dup2(other, write)
    report("failed for some reason")
    assert os.read(read, 100) == b"ok\n"
    assert (tmp_path / "precious").read_bytes() == b""
    for fd in {read, write, other}:
        os.close(fd)


def test_its_files_are_private(stage: DemoStage) -> None:
    daemon_of(stage)
    for name in ("daemon.sock", "daemon.lock", "daemon.log", "state.db"):
        until(lambda name=name: os.path.exists(f"{home_of(stage)}/{name}"), name)  # type: ignore[misc]
        assert stat.S_IMODE(os.stat(f"{home_of(stage)}/{name}").st_mode) & 0o077 == 0, name


def test_a_second_daemon_names_the_first(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    ran = subprocess.run(
        [sys.executable, "-m", "agentctl.daemon"],
        env=environ_of(stage),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 4
    assert f"pid {identity.pid}" in ran.stderr
    assert daemons_of(stage) == [identity.pid]


def test_the_next_daemon_starts_at_once_after_a_kill(stage: DemoStage) -> None:
    first = daemon_of(stage)
    kill(first)
    assert os.path.lexists(f"{home_of(stage)}/daemon.sock"), "its socket is left"
    assert agentctl_of(stage, "daemon", "status").code == 3
    second = daemon_of(stage)
    assert second != first
    assert " ERROR " not in log_of(stage)


def test_two_homes_are_two_daemons(stage: DemoStage, tmp_path: Path) -> None:
    one = daemon_of(stage)
    other_home = str(tmp_path / "other")
    other = daemon_of(stage, AGENTCTL_HOME=other_home)
    assert sorted(daemons_of(stage)) == sorted([one.pid, other.pid])
    assert agentctl_of(stage, "daemon", "stop").code == 0
    assert daemons_of(stage) == [other.pid]
    with rpc.connect(other_home) as client:
        assert client.hello().home == other_home


def test_a_home_longer_than_a_socket_s_address(stage: DemoStage, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.parent.mkdir()
    identity = daemon_of(stage, AGENTCTL_HOME=str(deep))
    ran = agentctl_of(stage, "daemon", "stop", AGENTCTL_HOME=str(deep))
    assert (ran.code, ran.out) == (0, f"stopped: agentctl 0.1.0, pid {identity.pid}\n")


def test_a_relative_home_is_below_the_directory_of_the_caller(stage: DemoStage) -> None:
    environ = environ_of(stage, AGENTCTL_HOME="here")
    ran = agentctl_in(environ, "daemon", "start", cwd=str(stage.work))
    assert ran.code == 0, ran.err
    with rpc.connect(str(stage.work / "here")) as client:
        assert client.hello().home == str(stage.work / "here")


def test_in_the_foreground_it_prints_its_log_and_ends_with_ctrl_c(stage: DemoStage) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "agentctl", "daemon", "start", "--foreground"],
        env=environ_of(stage),
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        until(lambda: agentctl_of(stage, "daemon", "status").code == 0, "it answers")
        with Handle(proc.read_process(child.pid, proc.read_boot_id()).identity) as handle:
            handle.signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        assert child.returncode == 0
    assert "INFO app: agentctl" in err
    assert "ending: SIGINT" in err


def test_unknown_arguments_are_a_usage_error() -> None:
    command = [sys.executable, "-m", "agentctl.daemon", "--what"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 2
    assert "agentctl daemon start" in ran.stderr


@pytest.mark.parametrize("obstacle", ["daemon.sock", "daemon.lock"])
def test_the_error_names_the_obstacle(stage: DemoStage, obstacle: str) -> None:
    os.makedirs(f"{home_of(stage)}/{obstacle}/inside")
    ran = agentctl_of(stage, "daemon", "start")
    assert ran.code != 0
    assert obstacle in ran.err
    until(lambda: daemons_of(stage) == [], "it has ended after its report")
