"""Who needs the daemon starts it; several at once start one."""

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


def test_it_is_started_where_none_runs_and_found_where_one_does(stage: DemoStage) -> None:
    with start.ensure(environ_of(stage)) as first, start.ensure(environ_of(stage)) as second:
        assert first.hello() == second.hello()
    assert len(daemons_of(stage)) == 1


@pytest.mark.parametrize("how", ["variable", "flag"])
def test_it_is_not_started_where_that_is_not_wanted(stage: DemoStage, how: str) -> None:
    environ = environ_of(stage, **({"AGENTCTL_NO_DAEMON": "1"} if how == "variable" else {}))
    with pytest.raises(NoDaemon, match="says not to start one") as told:
        start.ensure(environ, no_daemon=how == "flag")
    assert told.value.hint == "agentctl daemon start"
    assert not os.path.exists(home_of(stage)), "and nothing was made"
    daemon_of(stage)
    start.ensure(environ, no_daemon=how == "flag").close()


def test_the_settings_may_say_no(stage: DemoStage) -> None:
    config = Path(home_of(stage)) / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[daemon]\nauto = false\n")
    with pytest.raises(NoDaemon, match=r"daemon\.auto .*says not to start one"):
        start.ensure(environ_of(stage))
    daemon_of(stage)  # who says so himself
    start.ensure(environ_of(stage)).close()


def test_twenty_at_once_end_with_one(stage: DemoStage) -> None:
    environ, pids, errors = environ_of(stage), list[int](), list[BaseException]()
    barrier = threading.Barrier(20)

    def call() -> None:
        barrier.wait()
        done = subprocess.run(
            [sys.executable, "-c", _START], env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            pids.append(int(done.stdout))
        else:
            errors.append(AssertionError(done.stderr))

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
with start.ensure(os.environ) as client:
    print(client.hello().pid)
"""


def test_one_that_was_killed_is_replaced_at_once(stage: DemoStage) -> None:
    first = daemon_of(stage)
    kill(first)
    with start.ensure(environ_of(stage)) as client:
        assert client.hello().pid != first.pid


def test_it_is_nobody_s_child(stage: DemoStage) -> None:
    """A verb that stays for hours would keep its remains."""
    with start.ensure(environ_of(stage)) as client:
        process = proc.read_process(client.hello().pid, proc.boot_id())
    assert process.parent != os.getpid()


def test_what_keeps_it_from_starting_is_told(stage: DemoStage) -> None:
    os.makedirs(f"{home_of(stage)}/daemon.sock/inside")
    with pytest.raises(StartFailed, match="did not start") as told:
        start.start(environ_of(stage))
    assert told.value.hint == "agentctl daemon logs"
    assert "cannot run" in log_of(stage)
    until(lambda: daemons_of(stage) == [], "it has ended")


def test_one_that_cannot_even_begin_is_told(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "daemon", lambda *_: [sys.executable, "-c", "raise SystemExit('no!')"])
    with pytest.raises(StartFailed, match="ended at once") as told:
        start.start(environ_of(stage))
    assert told.value.said == ("no!",)
    monkeypatch.setattr(ours, "daemon", lambda *_: ["/no/such/python"])
    with pytest.raises(StartFailed, match="No such file"):
        start.start(environ_of(stage))


def test_a_home_where_nothing_can_be_written(tmp_path: Path) -> None:
    environ = {"AGENTCTL_HOME": str(tmp_path / "no" / "such"), "PATH": "/usr/bin:/bin"}
    with pytest.raises(Exception, match="no such file"):
        start.start(environ)


def test_no_home_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.paths.home", lambda _: None)
    with pytest.raises(Unreachable, match="no home"):
        start.ensure({})


def test_its_surroundings() -> None:
    environ = {"NOTIFY_SOCKET": "/n", "CLAUDECODE": "1", "X": "y", "AGENTCTL_HOME": "here"}
    here = os.path.abspath("here")
    assert start.surroundings(environ) == {"X": "y", "AGENTCTL_HOME": here}
    supervised = start.surroundings(environ, supervised=True)
    assert supervised == {"X": "y", "AGENTCTL_HOME": here, "NOTIFY_SOCKET": "/n"}


@pytest.mark.parametrize(("value", "may"), [("", True), ("0", True), ("1", False), ("yes", False)])
def test_what_the_variable_means(value: str, *, may: bool) -> None:
    assert start.allowed({"AGENTCTL_NO_DAEMON": value}) is may
