"""The start that continues an ended session."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctl.config import settings as config
from agentctl.errors import Refused, Unreachable, UsageError
from agentctl.launch.resume import check_ended, prepare_resume
from agentctl.launch.slots import Slot
from agentctl.launch.spec import LaunchSpec
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.truth.model import Facts, Launch, Observation, Session, Verdict, Worktree

IDENTITY = ProcessIdentity("b", 7, 1)
OWNER = Process(IDENTITY, 1, "S", "demo-agent")


def session(
    cwd: str | None, note: Launch | None = None, status: str = "stopped", owner: Process | None = None
) -> Session:
    verdict = Verdict(status, "unknown", None, None, None, "the reason", (), ())  # type: ignore[arg-type]
    return Session(Observation("demo", "4f2a", (), Facts(cwd=cwd), owner), verdict, note)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Config:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTCTL_HOME", f"{tmp_path}/state")
    return config.load({"AGENTCTL_HOME": f"{tmp_path}/state"})


SPEC = LaunchSpec(prompt="go on")


def test_labels_of_the_previous_launch_stay(settings: config.Config, tmp_path: Path) -> None:
    tree = Worktree("/repo", str(tmp_path), "b", "c")
    note = Launch(
        "1a", IDENTITY, name="n", group="g", spec="/s", meta=(("a", "1"),), worktree=tree,
        on_complete="make",
    )  # fmt: skip
    request = prepare_resume(session(str(tmp_path), note), SPEC, settings).request
    assert (request.prompt, request.cwd) == ("go on", str(tmp_path))
    assert (request.name, request.group, request.spec) == ("n", "g", "/s")
    assert (request.worktree, request.on_complete) == (tree, "make")
    spec = SPEC._replace(
        slots=(Slot(model="m"),), name="o", meta=(("a", "2"),), on_complete="true", group="other"
    )
    overridden = prepare_resume(session(str(tmp_path), note), spec, settings).request
    assert (overridden.model, overridden.name, overridden.on_complete) == ("m", "o", "true")
    assert (overridden.meta, overridden.group) == ((("a", "1"), ("a", "2")), "g")


def test_a_session_that_we_did_not_launch(settings: config.Config, tmp_path: Path) -> None:
    order = prepare_resume(session(str(tmp_path)), SPEC, settings)
    assert (order.request.name, order.request.group, order.request.worktree) == (None, None, None)
    assert "4f2a" in order.command.argv


def test_only_an_ended_session_is_resumed() -> None:
    check_ended(session("/"))
    with pytest.raises(Refused, match="4f2a is running: pid 7 runs it"):
        check_ended(session("/", status="running", owner=OWNER))
    with pytest.raises(Unreachable, match="cannot tell whether 4f2a has ended: the reason"):
        check_ended(session("/", status="unknown"))


def test_only_in_its_own_directory(settings: config.Config, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="the directory of 4f2a is not known"):
        prepare_resume(session(None), SPEC, settings)
    with pytest.raises(Refused, match="its directory is gone"):
        prepare_resume(session(f"{tmp_path}/gone"), SPEC, settings)


def test_a_message_is_needed(settings: config.Config, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no prompt"):
        prepare_resume(session(str(tmp_path)), LaunchSpec(), settings)
