"""A command that needs the daemon starts it; several at once start one."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentctl.daemon_client import start
from agentctl.errors import NoDaemon, StartFailed, Unreachable
from agentctl.process import ours
from agentctl.system import proc
from tests.daemon.serving import daemon_of, daemons_of, home_of, log_of
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import environ_of
from tests.waiting import until


def test_a_daemon_is_started_once_and_then_found(stage: DemoStage) -> None:
    with (
        start.ensure_daemon(environ_of(stage)) as first,
        start.ensure_daemon(environ_of(stage)) as second,
    ):
        assert first.hello() == second.hello()
    assert len(daemons_of(stage)) == 1


@pytest.mark.parametrize("how", ["variable", "flag"])
def test_no_daemon_is_started_if_the_user_says_so(stage: DemoStage, how: str) -> None:
    environ = environ_of(stage, **({"AGENTCTL_NO_DAEMON": "1"} if how == "variable" else {}))
    with pytest.raises(NoDaemon, match="says not to start one") as refusal:
        start.ensure_daemon(environ, no_daemon=how == "flag")
    assert refusal.value.hint == "agentctl daemon start"
    assert not os.path.exists(home_of(stage)), "nothing was created"
    daemon_of(stage)
    start.ensure_daemon(environ, no_daemon=how == "flag").close()


def test_no_daemon_is_started_if_the_settings_say_so(stage: DemoStage) -> None:
    config = Path(home_of(stage)) / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[daemon]\nauto = false\n")
    with pytest.raises(NoDaemon, match=r"daemon\.auto .*says not to start one"):
        start.ensure_daemon(environ_of(stage))
    daemon_of(stage)  # the user may still start it
    start.ensure_daemon(environ_of(stage)).close()


def test_twenty_starts_at_once_end_with_one_daemon(stage: DemoStage) -> None:
    environ, pids, errors = environ_of(stage), list[int](), list[BaseException]()
    barrier = threading.Barrier(20)

    def call() -> None:
        barrier.wait()
        ran = subprocess.run(
            [sys.executable, "-c", _START], env=environ, capture_output=True, text=True, check=False
        )
        if ran.returncode == 0:
            pids.append(int(ran.stdout))
        else:
            errors.append(AssertionError(ran.stderr))

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(pids) == 20
    assert len(set(pids)) == 1
    until(lambda: daemons_of(stage) == [pids[0]], "the others that were started have ended")


_START = """
import os
from agentctl.daemon_client import start
with start.ensure_daemon(os.environ) as client:
    print(client.hello().pid)
"""


def test_a_killed_daemon_is_replaced_at_once(stage: DemoStage) -> None:
    first = daemon_of(stage)
    kill(first)
    with start.ensure_daemon(environ_of(stage)) as client:
        assert client.hello().pid != first.pid


def test_the_daemon_is_no_child_of_its_starter(stage: DemoStage) -> None:
    """A verb that runs for hours would keep it as a zombie."""
    with start.ensure_daemon(environ_of(stage)) as client:
        process = proc.read_process(client.hello().pid, proc.read_boot_id())
    assert process.parent != os.getpid()


def test_an_obstacle_is_a_failed_start(stage: DemoStage) -> None:
    os.makedirs(f"{home_of(stage)}/daemon.sock/inside")
    with pytest.raises(StartFailed, match="did not start") as failure:
        start.start_daemon(environ_of(stage))
    assert failure.value.hint == "agentctl daemon logs"
    assert "cannot run" in log_of(stage)
    until(lambda: daemons_of(stage) == [], "it has ended")


def test_a_program_that_ends_at_once_is_a_failed_start(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ours, "daemon_command", lambda *_: [sys.executable, "-c", "raise SystemExit('no!')"]
    )
    with pytest.raises(StartFailed, match="ended at once") as failure:
        start.start_daemon(environ_of(stage))
    assert failure.value.output == ("no!",)
    monkeypatch.setattr(ours, "daemon_command", lambda *_: ["/no/such/python"])
    with pytest.raises(StartFailed, match="No such file"):
        start.start_daemon(environ_of(stage))


def test_a_home_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    environ = {"AGENTCTL_HOME": str(tmp_path / "no" / "such"), "PATH": "/usr/bin:/bin"}
    with pytest.raises(Exception, match="no such file"):
        start.start_daemon(environ)


def test_without_a_home_it_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.paths.home_directory", lambda _: None)
    with pytest.raises(Unreachable, match="no home"):
        start.ensure_daemon({})


def test_the_environment_of_the_daemon() -> None:
    environ = {"NOTIFY_SOCKET": "/n", "CLAUDECODE": "1", "X": "y", "AGENTCTL_HOME": "here"}
    here = os.path.abspath("here")
    assert start.daemon_environment(environ) == {"X": "y", "AGENTCTL_HOME": here}
    supervised = start.daemon_environment(environ, supervised=True)
    assert supervised == {"X": "y", "AGENTCTL_HOME": here, "NOTIFY_SOCKET": "/n"}


@pytest.mark.parametrize(("value", "may"), [("", True), ("0", True), ("1", False), ("yes", False)])
def test_the_values_of_the_variable(value: str, *, may: bool) -> None:
    assert start.may_start({"AGENTCTL_NO_DAEMON": value}) is may
