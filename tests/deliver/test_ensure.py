"""A launch whose events have a target starts the daemon, and never fails because of it."""

import subprocess
import sys
from pathlib import Path

from agentctl.state import outbox
from tests.daemon.serving import daemon_of, daemons_of
from tests.fakes.demo import DemoStage
from tests.receiver import Receiver
from tests.running import agentctl_of, environ_of
from tests.waiting import until


def write_config(stage: DemoStage, text: str) -> None:
    state = stage.root / "state"
    state.mkdir(exist_ok=True)
    (state / "config.toml").write_text(text)


def launch_and_wait(stage: DemoStage, **more: str) -> str:
    words = ("launch", "demo", "-p", "exit 0", "--cwd", str(stage.root), "--wait")
    ran = agentctl_of(stage, *words, **more)
    assert ran.code == 0, ran.err
    return ran.err


def test_the_events_of_a_launch_are_delivered(stage: DemoStage) -> None:
    with Receiver() as receiver:
        write_config(
            stage, f'[webhooks.ci]\nurl = "{receiver.url}"\nevents = ["launch.*", "session.stopped"]\n'
        )
        launch_and_wait(stage)
        kinds = {"launch.started", "launch.identified", "launch.ended", "session.stopped"}
        until(lambda: {request.json()["hook_type"] for request in receiver.requests} == kinds, "all")
    assert receiver.requests[0].json()["hook_type"] == "launch.started"
    [stopped] = [r.json() for r in receiver.requests if r.json()["hook_type"] == "session.stopped"]
    assert (stopped["outcome"], stopped["exit_status"]) == ("completed", 0)
    assert stopped["summary"].startswith("demo in ")


def test_without_targets_no_daemon_is_started(stage: DemoStage) -> None:
    launch_and_wait(stage)
    assert daemons_of(stage) == []


def test_without_targets_nothing_is_imported_for_them(stage: DemoStage) -> None:
    program = (
        "import os, sys; from agentctl.config import settings; from agentctl.cli import launch_answer;"
        "loaded = settings.load(os.environ);"
        "before = set(sys.modules); launch_answer.ensure_delivery('/nonexistent', loaded);"
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


def test_no_daemon_is_started_if_the_user_switched_it_off(stage: DemoStage) -> None:
    write_config(stage, '[webhooks.ci]\nurl = "http://127.0.0.1:1/"\n')
    assert "webhook" not in launch_and_wait(stage, AGENTCTL_NO_DAEMON="1")
    write_config(stage, '[daemon]\nauto = false\n[webhooks.ci]\nurl = "http://127.0.0.1:1/"\n')
    launch_and_wait(stage)
    assert daemons_of(stage) == []
    assert outbox.list_targets(str(stage.root / "state" / "state.db")) == {("webhook", "ci")}


def test_a_daemon_without_the_variable_is_a_warning(stage: DemoStage) -> None:
    daemon_of(stage)
    warning = launch_and_wait(stage, AGENTCTL_WEBHOOK_URL="http://127.0.0.1:1/")
    assert "was started without AGENTCTL_WEBHOOK_URL" in warning


def test_a_launch_does_not_fail_if_the_daemon_cannot_start(stage: DemoStage, tmp_path: Path) -> None:
    write_config(stage, '[webhooks.ci]\nurl = "http://127.0.0.1:1/"\n')
    (stage.root / "state" / "daemon.lock").mkdir()
    assert "may be late" in launch_and_wait(stage)
