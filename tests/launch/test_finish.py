"""What is left to do when a launched agent has ended: once, whoever comes first, and never hidden."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl import paths
from agentctl.errors import Passing, SourceError
from agentctl.launch import finish, hooks
from agentctl.launch import folder as output
from agentctl.process import ours
from agentctl.sessions import query
from agentctl.state import launch_writes, launches, locks
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Exit, Launch
from agentctl.truth.survey import Survey
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, environ_of
from tests.waiting import until

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
DEAD = ProcessIdentity(ME.boot, ME.pid, ME.start - 1)


class Ended:
    """A launch whose agent has ended, as a dead launcher and a dead shim leave it."""

    def __init__(self, stage: DemoStage, **more: object) -> None:
        self.stage = stage
        self.state = stage.environ["AGENTCTL_HOME"]
        self.notes = paths.notes_file(self.state)
        self.log = stage.root / "log"
        note = Launch("1a", DEAD, None, adapter="demo", cwd=str(stage.work))
        launch_writes.begin(self.notes, note._replace(**more))  # type: ignore[arg-type]
        self.folder = Path(launches.folder(self.notes, "1a"))
        output.make(str(self.folder), b"")

    def record(self, code: int) -> Exit:
        (self.folder / "exit").write_text(json.dumps({"code": code, "at": time.time()}))
        told = launches.exit_record(self.notes, "1a")
        assert told is not None
        return told

    def note(self) -> Launch:
        [note] = launches.recorded(self.notes)
        return note

    def logged(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def _log(stage: DemoStage, *names: str) -> str:
    facts = " ".join(f"{name}=$AGENTCTL_{name}" for name in names)
    return f'echo "ran {facts}" >> {stage.root}/log'


@pytest.fixture
def here(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> DemoStage:
    """This very process asks as one of the stage would."""
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    return stage


def test_how_it_ended_is_noted(here: DemoStage) -> None:
    ended = Ended(here)
    told = ended.record(3)
    finish.finish(ended.state, "1a")
    output.remove(str(ended.folder))  # it is in the note now
    known = ended.note().ended
    assert known is not None
    assert (known.code, known.at) == (3, told.at)


def test_once_for_all_who_ask(stage: DemoStage) -> None:
    ended = Ended(stage, on_complete=_log(stage))
    ended.record(0)
    program = "import sys; from agentctl.launch.finish import main; sys.stdin.readline(); main()"
    runners = [
        subprocess.Popen(
            [sys.executable, "-c", program, ended.state, "1a"],
            env=environ_of(stage),
            stdin=subprocess.PIPE,
        )
        for _ in range(10)
    ]
    for runner in runners:
        assert runner.stdin is not None
        runner.stdin.write(b"\n")
        runner.stdin.flush()
    for runner in runners:
        runner.communicate(timeout=60)
    assert {runner.returncode for runner in runners} == {0}
    assert ended.logged() == ["ran "]
    assert len(ended.note().hooks) == 1
    assert not (ended.folder / "finish").exists()  # nobody had a word to leave


def test_the_id_is_learned_from_what_the_agent_said(here: DemoStage) -> None:
    """The launcher died before it could."""
    puppet = here.start()
    puppet.do("rest")
    puppet.finish()
    ended = Ended(here, on_complete=_log(here, "SESSION_ID", "OUTCOME", "EXIT_CODE"))
    ended.record(0)
    (ended.folder / "stdout").write_text(f"hello\n{puppet.session_id}\nbye\n")
    finish.finish(ended.state, "1a")
    assert ended.note().session_id == puppet.session_id
    assert ended.logged() == [f"ran SESSION_ID={puppet.session_id} OUTCOME=completed EXIT_CODE=0"]


@pytest.mark.parametrize("adapter", ["demo", "uninstalled", "", None])
def test_without_an_id_the_hook_runs_all_the_same(here: DemoStage, adapter: str | None) -> None:
    ended = Ended(here, adapter=adapter, on_complete=_log(here, "SESSION_ID", "EXIT_CODE"))
    ended.record(7)
    (ended.folder / "stdout").write_text("no id here\n")
    finish.finish(ended.state, "1a")
    assert ended.note().session_id is None
    assert ended.logged() == ["ran SESSION_ID= EXIT_CODE=7"]


def test_an_adapter_that_fails_costs_no_hook_and_is_told(
    here: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr(finish, "load", broken)
    ended = Ended(here, on_complete=_log(here))
    finish.finish(ended.state, "1a")
    assert ended.logged() == ["ran "]
    assert "ZeroDivisionError" in (ended.folder / "finish").read_text()


@pytest.mark.parametrize("record", [None, "", '{"code": ', '{"code": "0", "at": 1.0}', "[]"])
def test_without_a_record_the_exit_code_is_not_known(here: DemoStage, record: str | None) -> None:
    """The shim was killed, or the disk was full: never 0."""
    puppet = here.start()
    puppet.do("rest")
    puppet.finish()
    ended = Ended(here, session_id=puppet.session_id, on_complete=_log(here, "EXIT_CODE", "OUTCOME"))
    if record is not None:
        (ended.folder / "exit").write_text(record)
    finish.finish(ended.state, "1a")
    assert ended.logged() == ["ran EXIT_CODE= OUTCOME=completed"]
    assert ended.note().ended is None


def test_a_deleted_state_asks_for_nothing(here: DemoStage) -> None:
    state = here.environ["AGENTCTL_HOME"]
    finish.finish(state, "1a")
    assert not Path(state).exists()
    ended = Ended(here, on_complete=_log(here))
    launch_writes.forget(ended.notes, ["1a"])
    finish.finish(state, "1a")
    assert ended.logged() == []


def test_a_cleared_folder_costs_no_hook(here: DemoStage) -> None:
    ended = Ended(here, on_complete=_log(here))
    output.remove(str(ended.folder.parent))
    finish.finish(ended.state, "1a")
    assert ended.logged() == ["ran "]
    [run] = ended.note().hooks
    assert run.code == 0


def test_what_cannot_be_done_is_said_beside_the_launch(here: DemoStage) -> None:
    """Nobody reads its error stream."""
    ended = Ended(here, on_complete="true")
    (ended.folder / "on-complete").mkdir()
    with pytest.raises(SourceError):
        finish.finish(ended.state, "1a")
    finish.leave_word(ended.notes, "1a", "finish", "a word")
    assert (ended.folder / "finish").read_text() == "a word\n"
    finish.leave_word(ended.notes, "none", "finish", "a word")  # no folder, no readers
    program = "from agentctl.launch.finish import main; main()"
    launch_writes.begin(ended.notes, ended.note()._replace(id="2b"))
    folder = Path(launches.folder(ended.notes, "2b"))
    (folder / "on-complete").mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", program, ended.state, "2b"], env=environ_of(here), check=True, timeout=60
    )
    assert "on-complete: " in (folder / "finish").read_text()


def test_what_a_full_disk_hinders_is_done_when_there_is_room(
    here: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step once, whichever is hindered."""
    ended = Ended(here, on_complete=_log(here, "EXIT_CODE"))
    ended.record(3)
    for module, name in (
        (launches, "noted"),
        (launch_writes, "claim_end"),
        (hooks, "run"),
        (launch_writes, "hook_ran"),
    ):
        monkeypatch.setattr(module, name, _hindered(getattr(module, name), times=2))
    monkeypatch.setattr(finish, "PAUSES", (0.0, 0.0))
    with pytest.raises(Passing):
        finish.finish(ended.state, "1a")
    finish.finish(ended.state, "1a", finish.patiently)
    assert ended.logged() == ["ran EXIT_CODE=3"]
    assert [run.code for run in ended.note().hooks] == [0]


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "LASTS", -1.0)
    with pytest.raises(Passing):
        finish.patiently(_hindered(lambda: None, times=1))


def _hindered(work: Any, times: int) -> Any:
    left = iter(range(times))

    def hindered(*words: Any) -> Any:
        if next(left, None) is not None:
            raise Passing("state.db", "no space left on its disk")
        return work(*words)

    return hindered


def test_a_late_hook_is_told(here: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "LIMIT", 0.05)
    ended = Ended(here, on_complete="exec sleep 1000")
    finish.finish(ended.state, "1a")
    assert [run.code for run in ended.note().hooks] == [None]


def test_a_moment_of_doubt_is_not_what_the_hook_is_told(
    here: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another agent is just ending, and of what that one runs nobody can tell."""
    puppet = here.start()
    puppet.do("work")
    ended = Ended(here, session_id=puppet.session_id, on_complete=_log(here, "OUTCOME"))
    other = here.start()
    record = here.records(other)[0]
    said = record.read_text()
    puppet.kill()
    record.unlink()
    ask = query.everything

    def asked(*words: Any, **more: Any) -> Survey:
        found = ask(*words, **more)
        record.write_text(said)
        return found

    monkeypatch.setattr(query, "everything", asked)
    ended.record(-9)
    finish.finish(ended.state, "1a")
    assert ended.logged() == ["ran OUTCOME=killed"]


# through the shim, as it happens


def _launched(stage: DemoStage, *words: str) -> str:
    ran = agentctl_of(stage, "launch", "demo", "--cwd", str(stage.work), *words)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.strip()


def _lines(stage: DemoStage) -> list[str]:
    path = stage.root / "log"
    return path.read_text().splitlines() if path.exists() else []


def test_the_hook_of_a_killed_agent(stage: DemoStage) -> None:
    facts = ("SESSION_ID", "EXIT_CODE", "OUTCOME", "ADAPTER", "CWD", "GROUP")
    session_id = _launched(stage, "-p", "hang", "--group", "g", "--on-complete", _log(stage, *facts))
    owner = stage.session(session_id).seen.owner
    assert owner is not None
    kill(owner.identity)
    until(lambda: _lines(stage) != [], "the hook ran")
    assert _lines(stage) == [
        f"ran SESSION_ID={session_id} EXIT_CODE=-9 OUTCOME=killed ADAPTER=demo CWD={stage.work} GROUP=g"
    ]


def test_a_failed_hook_is_shown(stage: DemoStage) -> None:
    session_id = _launched(stage, "-p", "exit 0", "--on-complete", "echo tests fail; exit 4")
    until(lambda: "on-complete" in agentctl_of(stage, "status", session_id).out, "the hook ran")
    status = agentctl_of(stage, "status", session_id)
    [line] = [line for line in status.lines if line.startswith("on-complete")]
    assert "FAILED, exit code 4" in line
    said = line.rpartition("(said: ")[2].removesuffix(")")
    assert Path(said).read_text() == "tests fail\n"
    [session] = agentctl_of(stage, "status", session_id, "--json").json()["sessions"]
    assert [(run["hook"], run["code"]) for run in session["launch"]["hooks"]] == [("on-complete", 4)]


def test_with_the_shim_killed_nobody_knows_the_code(stage: DemoStage) -> None:
    session_id = _launched(stage, "-p", "hang", "--on-complete", _log(stage, "EXIT_CODE"))
    owner = stage.session(session_id).seen.owner
    assert owner is not None
    kill(proc.read_process(owner.parent, owner.identity.boot).identity)
    kill(owner.identity)
    assert _lines(stage) == []
    [note] = launches.recorded(paths.notes_file(stage.environ["AGENTCTL_HOME"]))
    program = "from agentctl.launch.finish import main; main()"
    words = [sys.executable, "-c", program, stage.environ["AGENTCTL_HOME"], note.id]
    subprocess.run(words, env=environ_of(stage), check=True, timeout=60)  # as `stop` and `prune` do
    told = _lines(stage)
    # where nobody reaps orphans it is a zombie, and the kernel still tells; never 0
    assert told in (["ran EXIT_CODE="], ["ran EXIT_CODE=-9"])
    [session] = agentctl_of(stage, "status", session_id, "--json").json()["sessions"]
    assert session["exit_code"] in (None, -9)


def test_it_is_known_as_what_it_was_before(stage: DemoStage) -> None:
    """While the hook runs: `stop` must not take it for a process of the agent."""
    _launched(
        stage, "-p", "exit 0", "--on-complete", f"cat /proc/$PPID/comm > {stage.root}/log; sleep 1000"
    )
    until(lambda: _lines(stage) != [], "the hook runs")
    assert _lines(stage) == ["agentctl-shim"]


def _wrapped(stage: DemoStage, *words: str) -> tuple[ProcessIdentity, ProcessIdentity]:
    """An agent that was launched by a wrapper, and the wrapper."""
    wrapper = stage.root / "wrapper"
    # a shell gives what it starts in the background no standard input, unless it is told to
    wrapper.write_text(f'#!/bin/sh\nexec 3<&0\n{sys.executable} "$@" <&3 &\nwait\n')
    wrapper.chmod(0o755)
    ran = agentctl_of(
        stage, "launch", "demo", "-p", "work 600", *words, AGENTCTL_ADAPTER_DEMO_BINARY=str(wrapper)
    )
    assert ran.code == 0, ran.err
    (session,) = stage.survey().sessions
    owner = session.seen.owner
    assert owner is not None
    parent = proc.read_process(owner.parent, owner.identity.boot)
    assert parent.comm == "wrapper"
    return owner.identity, parent.identity


def test_a_wrapper_that_is_killed_is_not_the_end_of_the_agent(stage: DemoStage) -> None:
    over, log = stage.root / "over", stage.root / "log"
    hook = f"test -e {over} && echo after >> {log} || echo before >> {log}"
    agent, wrapper = _wrapped(stage, "--on-complete", hook)
    kill(wrapper)
    until(lambda: log.exists() or any(_waits(p) for p in stage.processes()), "it waits for the agent")
    over.touch()
    kill(agent)
    until(log.exists, "the hook has run")
    assert log.read_text() == "after\n"


def test_nor_where_our_notes_are_lost(stage: DemoStage) -> None:
    """What the shim tells of its launch is told for as long as the agent lives: above all its lock."""
    agent, wrapper = _wrapped(stage)
    shutil.rmtree(stage.environ["AGENTCTL_HOME"])
    kill(wrapper)
    until(lambda: _settled(stage), "it waits for the agent, or has left")
    (lock,) = locks.held(paths.notes_file(stage.environ["AGENTCTL_HOME"]))
    assert (lock.identity, lock.noted) == (agent, False)
    kill(agent)
    until(lambda: stage.processes() == [], "it has left")


def _settled(stage: DemoStage) -> bool:
    heirs = [process for process in stage.processes() if process.comm != "demo-agent"]
    return not heirs or any(_waits(process) for process in heirs)


def _waits(process: proc.Process) -> bool:
    """Whether it is the finishing work, with a process in hand."""
    if ours.called(process.argv) != "finish":
        return False
    try:
        return any("pidfd" in os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir())
    except FileNotFoundError:  # it opens and closes other things, too
        return False
