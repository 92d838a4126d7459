"""How a launched agent ended, if its shim lives to record it."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.launch import exit_record
from agentctl.sessions import query
from agentctl.state import db, launch_writes, launches
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.testing import Puppet
from agentctl.truth.model import Launch, Session
from tests.fakes.doomed import Doomed
from tests.running import agentctl_of
from tests.waiting import until


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doomed]:
    """Give this process the stage's environment."""
    doomed = Doomed(tmp_path)
    for name, value in doomed.environ.items():
        if name != "PATH" and not name.startswith("AGENTCTL_STAGE"):
            monkeypatch.setenv(name, value)
    yield doomed
    doomed.close()


def launch_agent(stage: Doomed, prompt: str, *words: str) -> tuple[Session, Process, Process]:
    """A session, its owner and its shim."""
    ran = agentctl_of(stage, "launch", "demo", "--cwd", str(stage.work), "-p", prompt, *words)
    assert ran.code == 0, ran.err
    (session,) = query.survey_sessions().sessions
    owner = session.observation.owner
    assert owner is not None
    return session, owner, proc.read_process(owner.parent, owner.identity.boot)


def send_signal(process: Process, number: signal.Signals) -> None:
    with Handle(process.identity) as handle:
        handle.signal(number)
        if number == signal.SIGKILL:
            handle.wait(20)


def test_the_record_is_waited_for(stage: Doomed) -> None:
    session, owner, shim = launch_agent(stage, "hang")
    assert session.launch is not None
    send_signal(shim, signal.SIGSTOP)  # it will be late
    send_signal(owner, signal.SIGKILL)
    assert not exit_record.await_exit(session.launch, 0.05).exit, "the code is unknown, not invented"
    notes: list[Launch] = []
    waiter = threading.Thread(
        target=lambda: notes.append(exit_record.await_exit(launch_of(session), 20.0))
    )
    waiter.start()
    send_signal(shim, signal.SIGCONT)
    waiter.join(20)
    (note,) = notes
    assert note.exit is not None
    assert note.exit.code == -signal.SIGKILL


def launch_of(session: Session) -> Launch:
    assert session.launch is not None
    return session.launch


def test_the_work_of_a_dead_shim_is_done_here_once(stage: Doomed) -> None:
    hook = stage.root / "hook"
    session, owner, shim = launch_agent(
        stage, "hang", "--on-complete", f"echo $AGENTCTL_EXIT_CODE. >> {hook}"
    )
    send_signal(shim, signal.SIGKILL)
    send_signal(owner, signal.SIGKILL)
    assert not exit_record.await_exit(launch_of(session)).exit, "its exit code is unknown"
    # if init is slow to reap, the kernel still has the code
    assert hook.read_text() in (".\n", "-9.\n"), "the hook ran"
    assert not exit_record.await_exit(launch_of(session)).exit
    assert hook.read_text() in (".\n", "-9.\n"), "once"


def test_a_launch_in_another_container_is_not_finished_here(stage: Doomed) -> None:
    """Neither its process nor its shim is visible from here: that does not make them dead."""
    hook = stage.root / "hook"
    notes = paths.database_file(os.environ["AGENTCTL_HOME"])
    elsewhere = ProcessIdentity(proc.read_boot_id(), 1 << 22, 1)
    note = Launch("l1", elsewhere, "s", adapter="demo", on_complete=f"echo >> {hook}")
    launch_writes.begin_launch(notes, note)
    with db.transaction(notes) as connection:
        connection.execute("update launch set detail = json_set(detail, '$.namespace', 'pid:[1]')")
    assert exit_record.await_exit(note).exit is None
    assert not hook.exists()
    assert launch_writes.claim_end(notes, "l1"), "its end is still to come"


def test_an_existing_record_is_enough(stage: Doomed) -> None:
    session, owner, shim = launch_agent(stage, "hang")
    send_signal(owner, signal.SIGKILL)
    until(lambda: proc.find_process(shim.identity) is None, "the shim has done all it had to do")
    assert exit_record.await_exit(launch_of(session)).exit


def test_half_a_record_is_none(stage: Doomed) -> None:
    notes = paths.database_file(os.environ["AGENTCTL_HOME"])
    folder = Path(launches.launch_folder(notes, "l1"))
    folder.mkdir(parents=True)
    for text, is_whole in (
        ("", False),
        ('{"code": 3', False),
        (json.dumps({"code": 3, "at": 1.0}), True),
    ):
        (folder / "exit").write_text(text)
        assert exit_record._has_record(notes, "l1") is is_whole


def test_without_a_state_directory_the_exit_is_unknown(
    stage: Doomed, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet: Puppet = stage.start()
    monkeypatch.setattr(paths, "state_directory", lambda _: None)
    assert exit_record.await_exit(Launch("l1", puppet.identity)).exit is None
