"""A launch of which somebody is to be told starts the daemon, and never fails for it."""

import subprocess
import sys
from pathlib import Path

from agentctl.state import targets
from tests.daemon.serving import daemon_of, daemons_of
from tests.fakes.demo import DemoStage
from tests.receiver import Receiver
from tests.running import agentctl_of, environ_of
from tests.waiting import until


def configured(stage: DemoStage, text: str) -> None:
    state = stage.root / "state"
    state.mkdir(exist_ok=True)
    (state / "config.toml").write_text(text)


def launched(stage: DemoStage, **more: str) -> str:
    words = ("launch", "demo", "-p", "exit 0", "--cwd", str(stage.root), "--wait")
    ran = agentctl_of(stage, *words, **more)
    assert ran.code == 0, ran.err
    return ran.err


def test_an_ended_launch_is_told_of(stage: DemoStage) -> None:
    with Receiver() as receiver:
        configured(
            stage, f'[webhooks.ci]\nurl = "{receiver.url}"\nevents = ["launch.*", "session.stopped"]\n'
        )
        launched(stage)
        wanted = {"launch.started", "launch.identified", "launch.ended", "session.stopped"}
        until(lambda: {request.json()["hook_type"] for request in receiver.requests} == wanted, "all")
    assert receiver.requests[0].json()["hook_type"] == "launch.started"
    [stopped] = [r.json() for r in receiver.requests if r.json()["hook_type"] == "session.stopped"]
    assert (stopped["outcome"], stopped["exit_status"]) == ("completed", 0)
    assert stopped["summary"].startswith("demo in ")


def test_without_targets_no_daemon_is_started(stage: DemoStage) -> None:
    launched(stage)
    assert daemons_of(stage) == []


def test_without_targets_nothing_is_imported_for_them(stage: DemoStage) -> None:
    program = (
        "import os, sys; from agentctl.config import settings; from agentctl.cli import launching;"
        "before = set(sys.modules); launching.herald('/nonexistent', settings.load(os.environ));"
        "print(sorted({name for name in sys.modules if 'target' in name or 'deliver' in name}),"
        " sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=environ_of(stage),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "[] []\n"


def test_it_is_not_started_where_that_is_not_wanted(stage: DemoStage) -> None:
    configured(stage, '[webhooks.ci]\nurl = "http://127.0.0.1:1/"\n')
    assert "webhook" not in launched(stage, AGENTCTL_NO_DAEMON="1")
    configured(stage, '[daemon]\nauto = false\n[webhooks.ci]\nurl = "http://127.0.0.1:1/"\n')
    launched(stage)
    assert daemons_of(stage) == []
    assert targets.known(str(stage.root / "state" / "state.db")) == {("webhook", "ci")}


def test_a_daemon_that_has_not_the_variable_is_told_of(stage: DemoStage) -> None:
    daemon_of(stage)
    told = launched(stage, AGENTCTL_WEBHOOK_URL="http://127.0.0.1:1/")
    assert "was started without AGENTCTL_WEBHOOK_URL" in told


def test_what_cannot_be_noted_stops_no_launch(stage: DemoStage, tmp_path: Path) -> None:
    configured(stage, '[webhooks.ci]\nurl = "http://127.0.0.1:1/"\n')
    (stage.root / "state" / "daemon.lock").mkdir()
    assert "may be late" in launched(stage)
