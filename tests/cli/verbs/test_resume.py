"""`agentctl resume`, as a person calls it: the same session goes on, or nothing is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl import paths
from agentctl.state import launches, locks
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import Ran, agentctl_of, environ_of
from tests.waiting import until


def _launch_session(stage: DemoStage, *words: str) -> str:
    ran = agentctl_of(stage, "launch", "demo", "--cwd", str(stage.work), *words)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.strip()


def _launch_to_its_end(stage: DemoStage, *words: str) -> str:
    """Launch a session, wait for its end, and return its id."""
    session_id = _launch_session(stage, "-p", "exit 0", *words)
    until(lambda: _session(stage, session_id)["exit_code"] == 0, "it is over")
    until(lambda: stage.processes() == [], "its shim has left")
    return session_id


def _session(stage: DemoStage, session_id: str) -> dict[str, Any]:
    session: dict[str, Any]
    [session] = agentctl_of(stage, "status", session_id, "--json").json()["sessions"]
    return session


def _read_messages(stage: DemoStage, session_id: str) -> list[str]:
    journal = stage.home / ".demo-agent" / "sessions" / f"{session_id}.jsonl"
    records = (json.loads(line) for line in journal.read_text().splitlines())
    return [str(record["text"]) for record in records if record["type"] == "say"]


def _program(stage: DemoStage, script: str) -> dict[str, str]:
    """Return an environ that runs this script as the agent, with the words -P -m MODULE --resume ID -"""
    path = stage.root / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"AGENTCTL_ADAPTER_DEMO_BINARY": str(path)}


def _kill(stage: DemoStage, session_id: str) -> None:
    owner = stage.session(session_id).observation.owner
    assert owner is not None
    kill(owner.identity)


def test_the_same_session_goes_on_in_its_own_directory(stage: DemoStage) -> None:
    session_id = _launch_to_its_end(stage)
    ran = agentctl_of(stage, "resume", session_id[:8], "hang, and on")
    assert (ran.code, ran.out, ran.err) == (0, f"{session_id}\n", "")
    session = _session(stage, session_id)
    assert session["status"] == "running"
    owner = stage.session(session_id).observation.owner
    assert owner is not None
    assert owner.cwd == str(stage.work)  # and not where we were
    assert _read_messages(stage, session_id) == ["exit 0", "hang, and on"]
    assert [row["id"] for row in agentctl_of(stage, "list", "-a", "--json").json()["sessions"]] == [
        session_id
    ]


def test_a_session_that_we_did_not_launch_is_resumed(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("rest")
    puppet.finish()
    ran = agentctl_of(stage, "resume", puppet.session_id or "", "hang", "--json")
    assert (ran.code, ran.err) == (0, "")
    [session] = ran.json()["sessions"]
    assert (session["id"], session["status"]) == (puppet.session_id, "running")
    assert session["launch"]["id"]


def test_labels_and_hooks_stay(stage: DemoStage) -> None:
    log = stage.root / "log"
    hook = f"echo $AGENTCTL_EXIT_CODE $AGENTCTL_GROUP >> {log}"
    words = ("--name", "n", "--group", "g", "--meta", "a=1", "--meta", "b=1", "--on-complete", hook)
    session_id = _launch_to_its_end(stage, *words)
    agentctl_of(stage, "resume", session_id, "hang", "--meta", "b=2", "--meta", "c=3")
    note = _session(stage, session_id)["launch"]
    assert (note["name"], note["group"], note["on_complete"]) == ("n", "g", hook)
    assert note["meta"] == {"a": "1", "b": "2", "c": "3"}
    _kill(stage, session_id)
    until(lambda: log.exists() and log.read_text() == "0 g\n-9 g\n", "one run for each end")
    agentctl_of(stage, "resume", session_id, "hang", "--name", "another")
    assert _session(stage, session_id)["launch"]["name"] == "another"


def test_a_quick_end_is_no_failure(stage: DemoStage) -> None:
    session_id = _launch_to_its_end(stage)
    for code in range(3):
        ran = agentctl_of(stage, "resume", session_id, "exit 0")
        assert (ran.code, ran.out, ran.err) == (0, f"{session_id}\n", ""), code
    assert _read_messages(stage, session_id) == ["exit 0"] * 4


def test_a_live_session_is_refused(stage: DemoStage) -> None:
    session_id = _launch_session(stage, "-p", "hang")
    pid = _session(stage, session_id)["pid"]
    for words in ((), ("--force",)):
        ran = agentctl_of(stage, "resume", session_id, "go on", *words)
        assert (ran.code, ran.out) == (4, "")
        assert f"pid {pid} runs it" in ran.err
        assert f"agentctl stop {session_id}" in ran.err
    assert _read_messages(stage, session_id) == ["hang"]


def test_of_two_resumes_at_once_one_succeeds(stage: DemoStage) -> None:
    session_id = _launch_to_its_end(stage)
    words = [sys.executable, "-m", "agentctl", "resume", session_id, "hang"]
    both = [
        subprocess.Popen(
            words, env=environ_of(stage), cwd=stage.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    for each in both:
        each.communicate(timeout=60)
    # refused by the lock, or because the session of the other's process is not known yet
    assert sorted(each.returncode for each in both) in ([0, 4], [0, 5])
    assert _read_messages(stage, session_id) == ["exit 0", "hang"]


def test_a_session_that_may_be_alive_is_refused(stage: DemoStage) -> None:
    """A process of the agent whose session is not known may run this one."""
    session_id = _launch_to_its_end(stage)
    puppet = stage.start()
    (stage.home / ".demo-agent" / "live" / f"{puppet.pid}.json").unlink()
    journal = stage.home / ".demo-agent" / "sessions" / f"{session_id}.jsonl"
    with journal.open("a") as file:  # written to after that process began
        file.write(json.dumps({"type": "turn", "state": "working", "at": 4e9}) + "\n")
    assert _session(stage, session_id)["status"] == "unknown"
    ran = agentctl_of(stage, "resume", session_id, "go on")
    assert (ran.code, ran.out) == (5, "")
    assert f"cannot tell whether {session_id} has ended" in ran.err
    assert f"agentctl why {session_id}" in ran.err


def test_an_unknown_session_is_not_found(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "resume", "4f2a", "go on")
    assert (ran.code, ran.out) == (3, "")
    assert "no session '4f2a'" in ran.err
    assert agentctl_of(stage, "resume", "", "go on").code == 2


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no prompt"),
        ([" "], "no prompt"),
        (["one", "--prompt-file", "x"], "more than one prompt"),
        (["one", "-p", "two"], "more than one message"),
        (["-", "-p", "two"], "more than one prompt"),
        (["one", "two"], "unrecognized arguments: two"),
        (["one", "--permission-mode", "yolo"], "demo has no permission mode 'yolo'"),
        (["one", "--name", ""], "not a label"),
        (["one", "--env", "x"], "not a pair"),
    ],
)
def test_wrong_words_are_usage_errors(stage: DemoStage, words: list[str], message: str) -> None:
    session_id = _launch_to_its_end(stage)
    ran = agentctl_of(stage, "resume", session_id, *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert _read_messages(stage, session_id) == ["exit 0"]


@pytest.mark.few(2)
@pytest.mark.parametrize("words", [["-p", "--hang, so"], ["--prompt-file", "message"], ["-"]])
def test_a_message_is_read_from_an_option_a_file_or_standard_input(
    stage: DemoStage, words: list[str]
) -> None:
    session_id = _launch_to_its_end(stage)
    (stage.root / "message").write_text("--hang, so")
    child = subprocess.run(
        [sys.executable, "-m", "agentctl", "resume", session_id, *words, "--", "--steps"],
        env=environ_of(stage), cwd=stage.root, input=b"--hang, so", capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (child.returncode, child.stderr) == (0, b"")
    assert _read_messages(stage, session_id)[-1] == "--hang, so"


def test_a_dry_run_starts_nothing(stage: DemoStage) -> None:
    session_id = _launch_to_its_end(stage)
    ran = agentctl_of(stage, "resume", session_id, "hang", "--dry-run", "--json")
    [plan] = ran.json()["launches"]
    assert plan["command"][4:6] == ["--resume", session_id]
    assert plan["cwd"] == str(stage.work)
    out = agentctl_of(stage, "resume", session_id, "hang", "--dry-run").out
    assert "--resume" in out
    assert f"session id  {session_id}\n" in out
    assert stage.processes() == []
    assert _read_messages(stage, session_id) == ["exit 0"]


def test_a_missing_directory_is_refused(stage: DemoStage) -> None:
    session_id = _launch_to_its_end(stage)
    stage.work.rmdir()
    ran = agentctl_of(stage, "resume", session_id, "hang")
    assert (ran.code, ran.out) == (4, "")
    assert f"its directory is gone: {stage.work}" in ran.err
    assert _read_messages(stage, session_id) == ["exit 0"]


def test_an_unknown_directory_is_refused(stage: DemoStage) -> None:
    """The directory is not guessed: in a wrong one some agents hang, others begin a new session."""
    puppet = stage.start()
    puppet.do("rest")
    puppet.finish()
    journal = stage.home / ".demo-agent" / "sessions" / f"{puppet.session_id}.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[1:]))
    ran = agentctl_of(stage, "resume", puppet.session_id or "", "hang")
    assert (ran.code, ran.out) == (5, "")
    assert f"the directory of {puppet.session_id} is not known" in ran.err
    assert stage.processes() == []


def test_a_directory_in_use_is_refused_without_force(stage: DemoStage) -> None:
    session_id = _launch_to_its_end(stage)
    other = _launch_session(stage, "-p", "hang")
    ran = agentctl_of(stage, "resume", session_id, "hang")
    assert (ran.code, ran.out) == (4, "")
    assert other in ran.err
    ran = agentctl_of(stage, "resume", session_id, "hang", "--force")
    assert (ran.code, ran.out) == (0, f"{session_id}\n")


def _fail_to_resume(stage: DemoStage, session_id: str, environ: dict[str, str]) -> Ran:
    """Run a resume that fails, and check that nothing was lost."""
    before, journal = _session(stage, session_id), _read_messages(stage, session_id)
    ran = agentctl_of(stage, "resume", session_id, "go on", "--name", "another", **environ)
    assert (ran.code, ran.out) == (1, "")
    until(lambda: stage.processes() == [], "every process has left")
    assert _session(stage, session_id) == before
    assert before["exit_code"] == 0
    assert before["launch"]["name"] == "n"
    assert _read_messages(stage, session_id) == journal
    notes = paths.database_file(stage.environ["AGENTCTL_HOME"])
    [note] = launches.read_launches(notes)
    assert [path.name for path in Path(launches.launch_folder(notes, "x")).parent.iterdir()] == [note.id]
    assert locks.list_held(notes) == []
    return ran


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo not logged in >&2; exit 7", "exit code 7"),
        ("kill -9 $$", "signal 9"),
        ("exit 0", "exit code 0"),
        ('echo "$4"; exit 0', "exit code 0"),  # says which session it is, and does nothing
        ('echo "$4"; echo why >&2; exit 3', "exit code 3"),
    ],
)
def test_a_failed_resume_loses_nothing(stage: DemoStage, script: str, message: str) -> None:
    session_id = _launch_to_its_end(stage, "--name", "n")
    ran = _fail_to_resume(stage, session_id, _program(stage, script))
    assert f"demo ended while it was being launched: {message}" in ran.err


def test_a_missing_program_loses_nothing(stage: DemoStage) -> None:
    session_id = _launch_to_its_end(stage, "--name", "n")
    ran = _fail_to_resume(stage, session_id, {"AGENTCTL_ADAPTER_DEMO_BINARY": "/no/such/agent"})
    assert "cannot run /no/such/agent" in ran.err


def test_a_session_without_our_notes_is_resumed(stage: DemoStage) -> None:
    session_id = _launch_to_its_end(stage, "--name", "n")
    shutil.rmtree(stage.environ["AGENTCTL_HOME"])
    ran = agentctl_of(stage, "resume", session_id, "hang")
    assert (ran.code, ran.out, ran.err) == (0, f"{session_id}\n", "")
    assert _session(stage, session_id)["launch"]["name"] is None


def test_help_has_examples(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "resume", "--help")
    assert ran.code == 0
    for word in ("--dry-run", "--prompt-file", 'agentctl resume 4f2a "now run the tests"'):
        assert word in ran.out
