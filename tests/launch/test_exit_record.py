"""How a launched agent ended, as far as its shim lives to tell."""

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
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process
from agentctl.testing import Puppet
from agentctl.truth.model import Launch, Session
from tests.fakes.doomed import Doomed
from tests.running import agentctl_of
from tests.waiting import until


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doomed]:
    """This very process asks with the stage's environment."""
    made = Doomed(tmp_path)
    for name, value in made.environ.items():
        if name != "PATH" and not name.startswith("AGENTCTL_STAGE"):
            monkeypatch.setenv(name, value)
    yield made
    made.close()


def launched(stage: Doomed, prompt: str, *words: str) -> tuple[Session, Process, Process]:
    """A session, its owner and its shim."""
    ran = agentctl_of(stage, "launch", "demo", "--cwd", str(stage.work), "-p", prompt, *words)
    assert ran.code == 0, ran.err
    (session,) = query.everything().sessions
    owner = session.seen.owner
    assert owner is not None
    return session, owner, proc.read_process(owner.parent, owner.identity.boot)


def signalled(process: Process, number: signal.Signals) -> None:
    with Handle(process.identity) as handle:
        handle.signal(number)
        if number == signal.SIGKILL:
            handle.wait(20)


def test_the_record_is_waited_for(stage: Doomed) -> None:
    session, owner, shim = launched(stage, "hang")
    assert session.launch is not None
    signalled(shim, signal.SIGSTOP)  # it will be late
    signalled(owner, signal.SIGKILL)
    assert not exit_record.recorded(session.launch, 0.05).ended, (
        "not in this time, and nobody pretends to know"
    )
    told: list[Launch] = []
    waiter = threading.Thread(target=lambda: told.append(exit_record.recorded(launch_of(session), 20.0)))
    waiter.start()
    signalled(shim, signal.SIGCONT)
    waiter.join(20)
    (found,) = told
    assert found.ended is not None
    assert found.ended.code == -signal.SIGKILL


def launch_of(session: Session) -> Launch:
    assert session.launch is not None
    return session.launch


def test_where_the_shim_is_dead_its_work_is_done_here_once(stage: Doomed) -> None:
    hook = stage.root / "hook"
    session, owner, shim = launched(
        stage, "hang", "--on-complete", f"echo $AGENTCTL_EXIT_CODE. >> {hook}"
    )
    signalled(shim, signal.SIGKILL)
    signalled(owner, signal.SIGKILL)
    assert not exit_record.recorded(launch_of(session)).ended, "nobody saw its exit code"
    # where init is slow to reap, the kernel still knows the code; nobody else does
    assert hook.read_text() in (".\n", "-9.\n"), "the hook ran"
    assert not exit_record.recorded(launch_of(session)).ended
    assert hook.read_text() in (".\n", "-9.\n"), "once"


def test_one_in_another_container_is_not_ended_from_here(stage: Doomed) -> None:
    """Its process is not to be seen from here, and neither is its shim: that does not make it dead."""
    hook = stage.root / "hook"
    notes = paths.notes_file(os.environ["AGENTCTL_HOME"])
    elsewhere = ProcessIdentity(proc.boot_id(), 1 << 22, 1)
    note = Launch("l1", elsewhere, "s", adapter="demo", on_complete=f"echo >> {hook}")
    launch_writes.begin(notes, note)
    with db.transaction(notes) as connection:
        connection.execute("update launch set detail = json_set(detail, '$.namespace', 'pid:[1]')")
    assert exit_record.recorded(note).ended is None
    assert not hook.exists()
    assert launch_writes.claim_end(notes, "l1"), "its end is still to come"


def test_a_record_that_is_there_is_enough(stage: Doomed) -> None:
    session, owner, shim = launched(stage, "hang")
    signalled(owner, signal.SIGKILL)
    until(lambda: proc.current(shim.identity) is None, "the shim has done all it had to do")
    assert exit_record.recorded(launch_of(session)).ended


def test_half_a_record_is_none(stage: Doomed) -> None:
    notes = paths.notes_file(os.environ["AGENTCTL_HOME"])
    folder = Path(launches.folder(notes, "l1"))
    folder.mkdir(parents=True)
    for text, known in (("", False), ('{"code": 3', False), (json.dumps({"code": 3, "at": 1.0}), True)):
        (folder / "exit").write_text(text)
        assert exit_record._known(notes, "l1") is known


def test_without_a_state_directory_nothing_is_known(
    stage: Doomed, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet: Puppet = stage.start()
    monkeypatch.setattr(paths, "state_directory", lambda _: None)
    assert exit_record.recorded(Launch("l1", puppet.identity)).ended is None
