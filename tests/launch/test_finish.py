"""Finishing a launch whose agent has ended: once, whichever process does it, and with errors logged."""

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
from agentctl.errors import SourceError, Temporary
from agentctl.launch import finish, hooks
from agentctl.launch import folder as output
from agentctl.process import ours
from agentctl.sessions import query
from agentctl.state import launch_writes, launches, locks
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import Exit, Launch
from agentctl.truth.survey import Survey
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, environ_of
from tests.waiting import until

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity
DEAD = ProcessIdentity(ME.boot, ME.pid, ME.start - 1)


class EndedLaunch:
    """A launch whose agent has ended, as a dead launcher and a dead shim leave it."""

    def __init__(self, stage: DemoStage, **more: object) -> None:
        self.stage = stage
        self.state = stage.environ["AGENTCTL_HOME"]
        self.notes = paths.database_file(self.state)
        self.log = stage.root / "log"
        note = Launch("1a", DEAD, None, adapter="demo", cwd=str(stage.work))
        launch_writes.begin_launch(self.notes, note._replace(**more))  # type: ignore[arg-type]
        self.folder = Path(launches.launch_folder(self.notes, "1a"))
        output.make_folder(str(self.folder), b"")

    def record(self, code: int) -> Exit:
        (self.folder / "exit").write_text(json.dumps({"code": code, "at": time.time()}))
        record = launches.read_exit_record(self.notes, "1a")
        assert record is not None
        return record

    def note(self) -> Launch:
        [note] = launches.read_launches(self.notes)
        return note

    def read_log(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def _log(stage: DemoStage, *names: str) -> str:
    facts = " ".join(f"{name}=$AGENTCTL_{name}" for name in names)
    return f'echo "ran {facts}" >> {stage.root}/log'


@pytest.fixture
def here(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> DemoStage:
    """Give this process the stage's environment."""
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    return stage


def test_the_exit_code_is_noted(here: DemoStage) -> None:
    launch = EndedLaunch(here)
    record = launch.record(3)
    finish.finish_launch(launch.state, "1a")
    output.remove_folder(str(launch.folder))  # it is in the note now
    exit_in_note = launch.note().exit
    assert exit_in_note is not None
    assert (exit_in_note.code, exit_in_note.at) == (3, record.at)


def test_ten_processes_finish_a_launch_once(stage: DemoStage) -> None:
    launch = EndedLaunch(stage, on_complete=_log(stage))
    launch.record(0)
    program = "import sys; from agentctl.launch.finish import main; sys.stdin.readline(); main()"
    runners = [
        subprocess.Popen(
            [sys.executable, "-c", program, launch.state, "1a"],
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
    assert launch.read_log() == ["ran "]
    assert len(launch.note().hooks) == 1
    assert not (launch.folder / "finish").exists()  # there was no error to log


def test_the_session_id_is_read_from_the_agents_output(here: DemoStage) -> None:
    """The launcher died before it could read the id."""
    puppet = here.start()
    puppet.do("rest")
    puppet.finish()
    launch = EndedLaunch(here, on_complete=_log(here, "SESSION_ID", "OUTCOME", "EXIT_CODE"))
    launch.record(0)
    (launch.folder / "stdout").write_text(f"hello\n{puppet.session_id}\nbye\n")
    finish.finish_launch(launch.state, "1a")
    assert launch.note().session_id == puppet.session_id
    assert launch.read_log() == [f"ran SESSION_ID={puppet.session_id} OUTCOME=completed EXIT_CODE=0"]


@pytest.mark.parametrize("adapter", ["demo", "uninstalled", "", None])
def test_the_hook_runs_without_a_session_id(here: DemoStage, adapter: str | None) -> None:
    launch = EndedLaunch(here, adapter=adapter, on_complete=_log(here, "SESSION_ID", "EXIT_CODE"))
    launch.record(7)
    (launch.folder / "stdout").write_text("no id here\n")
    finish.finish_launch(launch.state, "1a")
    assert launch.note().session_id is None
    assert launch.read_log() == ["ran SESSION_ID= EXIT_CODE=7"]


def test_the_hook_runs_and_an_error_of_the_adapter_is_logged(
    here: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr(finish, "load", broken)
    launch = EndedLaunch(here, on_complete=_log(here))
    finish.finish_launch(launch.state, "1a")
    assert launch.read_log() == ["ran "]
    assert "ZeroDivisionError" in (launch.folder / "finish").read_text()


@pytest.mark.parametrize("record", [None, "", '{"code": ', '{"code": "0", "at": 1.0}', "[]"])
def test_without_a_record_the_exit_code_is_unknown(here: DemoStage, record: str | None) -> None:
    """The shim was killed, or the disk was full: never 0."""
    puppet = here.start()
    puppet.do("rest")
    puppet.finish()
    launch = EndedLaunch(
        here, session_id=puppet.session_id, on_complete=_log(here, "EXIT_CODE", "OUTCOME")
    )
    if record is not None:
        (launch.folder / "exit").write_text(record)
    finish.finish_launch(launch.state, "1a")
    assert launch.read_log() == ["ran EXIT_CODE= OUTCOME=completed"]
    assert launch.note().exit is None


def test_nothing_is_done_for_a_deleted_note(here: DemoStage) -> None:
    state = here.environ["AGENTCTL_HOME"]
    finish.finish_launch(state, "1a")
    assert not Path(state).exists()
    launch = EndedLaunch(here, on_complete=_log(here))
    launch_writes.forget_launches(launch.notes, ["1a"])
    finish.finish_launch(state, "1a")
    assert launch.read_log() == []


def test_the_hook_runs_when_the_folder_was_deleted(here: DemoStage) -> None:
    launch = EndedLaunch(here, on_complete=_log(here))
    output.remove_folder(str(launch.folder.parent))
    finish.finish_launch(launch.state, "1a")
    assert launch.read_log() == ["ran "]
    [run] = launch.note().hooks
    assert run.code == 0


def test_errors_are_logged_in_the_launch_folder(here: DemoStage) -> None:
    """The error stream of the process has no reader."""
    launch = EndedLaunch(here, on_complete="true")
    (launch.folder / "on-complete").mkdir()
    with pytest.raises(SourceError):
        finish.finish_launch(launch.state, "1a")
    finish.log_message(launch.notes, "1a", "finish", "a word")
    assert (launch.folder / "finish").read_text() == "a word\n"
    finish.log_message(launch.notes, "none", "finish", "a word")  # no folder, no readers
    program = "from agentctl.launch.finish import main; main()"
    launch_writes.begin_launch(launch.notes, launch.note()._replace(id="2b"))
    folder = Path(launches.launch_folder(launch.notes, "2b"))
    (folder / "on-complete").mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", program, launch.state, "2b"], env=environ_of(here), check=True, timeout=60
    )
    assert "on-complete: " in (folder / "finish").read_text()


def test_the_work_is_retried_when_the_disk_is_full(
    here: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step fails twice, and is done once."""
    launch = EndedLaunch(here, on_complete=_log(here, "EXIT_CODE"))
    launch.record(3)
    for module, name in (
        (launches, "find_launch"),
        (launch_writes, "claim_end"),
        (hooks, "run_hook"),
        (launch_writes, "record_hook"),
    ):
        monkeypatch.setattr(module, name, _make_failing(getattr(module, name), times=2))
    monkeypatch.setattr(finish, "PAUSES", (0.0, 0.0))
    with pytest.raises(Temporary):
        finish.finish_launch(launch.state, "1a")
    finish.finish_launch(launch.state, "1a", finish.retry_temporary)
    assert launch.read_log() == ["ran EXIT_CODE=3"]
    assert [run.code for run in launch.note().hooks] == [0]


def test_retries_have_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "LASTS", -1.0)
    with pytest.raises(Temporary):
        finish.retry_temporary(_make_failing(lambda: None, times=1))


def _make_failing(work: Any, times: int) -> Any:
    failures = iter(range(times))

    def fail_first(*words: Any) -> Any:
        if next(failures, None) is not None:
            raise Temporary("state.db", "no space left on its disk")
        return work(*words)

    return fail_first


def test_a_hook_over_its_time_limit_has_no_exit_code(
    here: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "LIMIT", 0.05)
    launch = EndedLaunch(here, on_complete="exec sleep 1000")
    finish.finish_launch(launch.state, "1a")
    assert [run.code for run in launch.note().hooks] == [None]


def test_the_hook_gets_the_outcome_when_it_is_certain(
    here: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of another agent is missing in the first look: it might run this session."""
    puppet = here.start()
    puppet.do("work")
    launch = EndedLaunch(here, session_id=puppet.session_id, on_complete=_log(here, "OUTCOME"))
    other = here.start()
    record = here.records(other)[0]
    text = record.read_text()
    puppet.kill()
    record.unlink()
    survey_sessions = query.survey_sessions

    def survey_then_restore(*words: Any, **more: Any) -> Survey:
        survey = survey_sessions(*words, **more)
        record.write_text(text)
        return survey

    monkeypatch.setattr(query, "survey_sessions", survey_then_restore)
    launch.record(-9)
    finish.finish_launch(launch.state, "1a")
    assert launch.read_log() == ["ran OUTCOME=killed"]


# through the shim, as it happens


def _launch_demo(stage: DemoStage, *words: str) -> str:
    ran = agentctl_of(stage, "launch", "demo", "--cwd", str(stage.work), *words)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.strip()


def _lines(stage: DemoStage) -> list[str]:
    path = stage.root / "log"
    return path.read_text().splitlines() if path.exists() else []


def test_the_hook_of_a_killed_agent(stage: DemoStage) -> None:
    facts = ("SESSION_ID", "EXIT_CODE", "OUTCOME", "ADAPTER", "CWD", "GROUP")
    session_id = _launch_demo(stage, "-p", "hang", "--group", "g", "--on-complete", _log(stage, *facts))
    owner = stage.session(session_id).observation.owner
    assert owner is not None
    kill(owner.identity)
    until(lambda: _lines(stage) != [], "the hook ran")
    assert _lines(stage) == [
        f"ran SESSION_ID={session_id} EXIT_CODE=-9 OUTCOME=killed ADAPTER=demo CWD={stage.work} GROUP=g"
    ]


def test_a_failed_hook_is_shown(stage: DemoStage) -> None:
    session_id = _launch_demo(stage, "-p", "exit 0", "--on-complete", "echo tests fail; exit 4")
    until(lambda: "on-complete" in agentctl_of(stage, "status", session_id).out, "the hook ran")
    status = agentctl_of(stage, "status", session_id)
    [line] = [line for line in status.lines if line.startswith("on-complete")]
    assert "FAILED, exit code 4" in line
    output = line.rpartition("(output: ")[2].removesuffix(")")
    assert Path(output).read_text() == "tests fail\n"
    [session] = agentctl_of(stage, "status", session_id, "--json").json()["sessions"]
    assert [(run["hook"], run["code"]) for run in session["launch"]["hooks"]] == [("on-complete", 4)]


def test_the_exit_code_is_unknown_when_the_shim_was_killed(stage: DemoStage) -> None:
    session_id = _launch_demo(stage, "-p", "hang", "--on-complete", _log(stage, "EXIT_CODE"))
    owner = stage.session(session_id).observation.owner
    assert owner is not None
    kill(proc.read_process(owner.parent, owner.identity.boot).identity)
    kill(owner.identity)
    assert _lines(stage) == []
    [note] = launches.read_launches(paths.database_file(stage.environ["AGENTCTL_HOME"]))
    program = "from agentctl.launch.finish import main; main()"
    words = [sys.executable, "-c", program, stage.environ["AGENTCTL_HOME"], note.id]
    subprocess.run(words, env=environ_of(stage), check=True, timeout=60)  # as `stop` and `prune` do
    lines = _lines(stage)
    # if init does not reap orphans, the agent is a zombie and the kernel still has the code; never 0
    assert lines in (["ran EXIT_CODE="], ["ran EXIT_CODE=-9"])
    [session] = agentctl_of(stage, "status", session_id, "--json").json()["sessions"]
    assert session["exit_code"] in (None, -9)


def test_the_finishing_process_is_named_as_the_shim(stage: DemoStage) -> None:
    """While the hook runs: `stop` must not take it for a process of the agent."""
    _launch_demo(
        stage, "-p", "exit 0", "--on-complete", f"cat /proc/$PPID/comm > {stage.root}/log; sleep 1000"
    )
    until(lambda: _lines(stage) != [], "the hook runs")
    assert _lines(stage) == ["agentctl-shim"]


def _launch_wrapped(stage: DemoStage, *words: str) -> tuple[ProcessIdentity, ProcessIdentity]:
    """An agent that was launched by a wrapper, and the wrapper."""
    wrapper = stage.root / "wrapper"
    # a shell gives a background process no standard input unless it is redirected
    wrapper.write_text(f'#!/bin/sh\nexec 3<&0\n{sys.executable} "$@" <&3 &\nwait\n')
    wrapper.chmod(0o755)
    ran = agentctl_of(
        stage, "launch", "demo", "-p", "work 600", *words, AGENTCTL_ADAPTER_DEMO_BINARY=str(wrapper)
    )
    assert ran.code == 0, ran.err
    (session,) = stage.survey().sessions
    owner = session.observation.owner
    assert owner is not None
    parent = proc.read_process(owner.parent, owner.identity.boot)
    assert parent.comm == "wrapper"
    return owner.identity, parent.identity


def test_the_end_of_a_wrapper_is_not_the_end_of_the_agent(stage: DemoStage) -> None:
    over, log = stage.root / "over", stage.root / "log"
    hook = f"test -e {over} && echo after >> {log} || echo before >> {log}"
    agent, wrapper = _launch_wrapped(stage, "--on-complete", hook)
    kill(wrapper)
    until(lambda: log.exists() or any(_waits(p) for p in stage.processes()), "it waits for the agent")
    over.touch()
    kill(agent)
    until(log.exists, "the hook has run")
    assert log.read_text() == "after\n"


def test_the_end_of_a_wrapper_frees_no_lock_without_notes(stage: DemoStage) -> None:
    """The shim carries the launch, above all its lock, for as long as the agent lives."""
    agent, wrapper = _launch_wrapped(stage)
    shutil.rmtree(stage.environ["AGENTCTL_HOME"])
    kill(wrapper)
    until(lambda: _is_settled(stage), "it waits for the agent, or has left")
    (lock,) = locks.list_held(paths.database_file(stage.environ["AGENTCTL_HOME"]))
    assert (lock.identity, lock.has_note) == (agent, False)
    kill(agent)
    until(lambda: stage.processes() == [], "it has left")


def _is_settled(stage: DemoStage) -> bool:
    heirs = [process for process in stage.processes() if process.comm != "demo-agent"]
    return not heirs or any(_waits(process) for process in heirs)


def _waits(process: proc.Process) -> bool:
    """Whether it is the finishing work, with a process in hand."""
    if ours.identify_program(process.argv) != "finish":
        return False
    try:
        return any("pidfd" in os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir())
    except FileNotFoundError:  # it opens and closes other things, too
        return False
