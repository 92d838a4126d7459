"""`agentctl launch`, as a person calls it: real agents, started and found."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl import paths
from agentctl.state import launches, locks
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import Ran, agentctl_in, agentctl_of, environ_of
from tests.waiting import DEADLINE, until


def _launch(stage: DemoStage, *words: str, **more: str) -> Ran:
    return agentctl_of(stage, "launch", "demo", "--cwd", str(stage.work), *words, **more)


def _launch_session(stage: DemoStage, *words: str, **more: str) -> str:
    ran = _launch(stage, *words, **more)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.strip()


def _list_sessions(stage: DemoStage) -> list[dict[str, Any]]:
    sessions: list[dict[str, Any]] = agentctl_of(stage, "list", "--json").json()["sessions"]
    return sessions


def _prompt_of(stage: DemoStage, session_id: str) -> str:
    """Return the first prompt, as the agent itself recorded it."""
    journal = stage.home / ".demo-agent" / "sessions" / f"{session_id}.jsonl"
    records = (json.loads(line) for line in journal.read_text().splitlines())
    return next(str(record["text"]) for record in records if record["type"] == "say")


def _owner(stage: DemoStage, session_id: str) -> Process:
    owner = stage.session(session_id).observation.owner
    assert owner is not None
    return owner


def _assert_nothing_is_left(stage: DemoStage) -> None:
    """Check that there is no row, lock, folder or process."""
    notes = paths.database_file(stage.environ["AGENTCTL_HOME"])
    assert launches.read_launches(notes) == []
    assert locks.read_locks(notes) == []
    folders = Path(launches.launch_folder(notes, "x")).parent
    assert not folders.exists() or list(folders.iterdir()) == []
    until(lambda: stage.processes() == [], "every process has left")
    assert _list_sessions(stage) == []


def _wait_for(path: Path, end: str = "\n") -> str:
    until(lambda: path.exists() and path.read_text().endswith(end), f"{path.name} is written")
    return path.read_text()


# the answer


def test_the_id_printed_is_the_agents_own_and_listed(stage: DemoStage) -> None:
    ran = _launch(stage, "-p", "hang")
    assert (ran.code, ran.err) == (0, "")
    [session] = _list_sessions(stage)
    assert ran.out == f"{session['id']}\n"
    assert (session["status"], session["adapter"], session["cwd"]) == (
        "running",
        "demo",
        str(stage.work),
    )
    assert (stage.home / ".demo-agent" / "sessions" / f"{session['id']}.jsonl").exists()


def test_the_json_is_that_of_list(stage: DemoStage) -> None:
    answer = _launch(stage, "-p", "rest", "--name", "n", "--json").json()
    listed = agentctl_of(stage, "list", "--json").json()
    assert set(answer) == set(listed)
    [mine], [row] = answer["sessions"], listed["sessions"]
    assert set(mine) == set(row)
    for name in ("id", "adapter", "pid", "cwd", "launch", "host", "transcript"):
        assert mine[name] == row[name]


def test_labels_are_shown(stage: DemoStage) -> None:
    (stage.root / "s.md").write_text("a specification")
    session_id = _launch_session(
        stage, "-p", "hang, by the spec", "--name", "the name", "--group", "g", "--spec", "s.md",
        "--meta", "ticket=7", "--meta", "ticket=8",
    )  # fmt: skip
    status = agentctl_of(stage, "status", session_id).out
    for words in (("name", "the name"), ("group", "g"), ("spec", f"{stage.root}/s.md")):
        assert any(line.split(maxsplit=1) == list(words) for line in status.splitlines()), words
    assert "meta ticket   8" in status
    assert "meta ticket   7" not in status


def test_a_quick_agent_is_no_failure(stage: DemoStage) -> None:
    session_id = _launch_session(stage, "-p", "exit 0")
    [session] = agentctl_of(stage, "status", session_id, "--json").json()["sessions"]
    assert (session["status"], session["outcome"], session["exit_code"]) == ("stopped", "completed", 0)
    assert locks.list_held(paths.database_file(stage.environ["AGENTCTL_HOME"])) == []


def test_a_late_session_is_waited_for(stage: DemoStage) -> None:
    session_id = _launch_session(stage, "-p", "hang", "--", "--late", "0.5")
    assert [session["id"] for session in _list_sessions(stage)] == [session_id]


def test_the_model_is_passed_on(stage: DemoStage) -> None:
    session_id = _launch_session(stage, "-p", "hang", "--model", "m-7")
    assert stage.session(session_id).observation.facts.model == "m-7"


# nothing is started


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dry_run_starts_nothing_and_leaves_nothing(stage: DemoStage, as_json: bool) -> None:
    json_word = ["--json"] if as_json else []
    ran = _launch(
        stage, "-p", "work 5", "--dry-run", "--env", "K=v", "--on-complete", "make test", *json_word,
        CLAUDECODE="1",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    assert not Path(stage.environ["AGENTCTL_HOME"]).exists()
    assert stage.processes() == []
    if as_json:
        [plan] = ran.json()["launches"]
        assert plan["command"][1:4] == ["-P", "-m", "agentctl.demo.agent"]
        assert plan["environment"]["set"]["K"] == "v"
        assert plan["environment"]["unset"] == ["CLAUDECODE"]
        assert (plan["cwd"], plan["lock"], plan["stdin_bytes"]) == (str(stage.work), str(stage.work), 6)
    else:
        facts = dict(line.split(maxsplit=1) for line in ran.lines)
        assert (facts["lock"], facts["unset"], facts["on-complete"]) == (
            str(stage.work),
            "CLAUDECODE",
            "make test",
        )
        assert "-P -m agentctl.demo.agent" in facts["command"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-p", "hang", "--", "--no-such-flag"], 1, "unrecognized arguments: --no-such-flag"),
        (["-p", "hang", "--cwd", "none"], 2, "not a directory: "),
        ([], 2, "no prompt"),
        (["-p", " "], 2, "no prompt"),
        (["-p", "hang", "-"], 2, "more than one prompt"),
        (["-p", "hang", "--prompt-file", "x"], 2, "more than one prompt"),
        (["--prompt-file", "none"], 2, "cannot read none: No such file"),
        (["-p", "hang", "--file", "."], 2, "cannot read .: Is a directory"),
        (["-p", "hang", "--env", "K"], 2, "not a pair: 'K'"),
        (["-p", "hang", "--meta", "=v"], 2, "not a pair: '=v'"),
        (["-p", "hang", "--name", ""], 2, "not a label: ''"),
        (["-p", "hang", "--timeout", "soon"], 2, "not a duration"),
        (["-p", "hang", "--permission-mode", "yolo"], 2, "demo has no permission mode 'yolo'"),
        (["-p", "hang", "--append-system-prompt", "x"], 2, "no system prompt to append to"),
        (["-p", "hang", "--no-such-option"], 2, "--no-such-option"),
        (["-p", "hang", "--cwd", ""], 2, "not a directory: ''"),
        (["-p", "hang", "--branch", "b"], 2, "a branch is for a worktree"),
    ],
)
def test_a_start_that_fails_leaves_nothing(
    stage: DemoStage, words: list[str], code: int, message: str
) -> None:
    ran = _launch(stage, *words)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert ran.err.startswith("agentctl: ")
    _assert_nothing_is_left(stage)


def test_an_agent_that_ends_at_once_is_reported_in_its_own_words(stage: DemoStage) -> None:
    ran = _launch(stage, "-p", "hang", "--", "--no-such-flag")
    first, *rest = ran.err.splitlines()
    assert first == "agentctl: demo ended while it was being launched: exit code 2"
    assert "  | demo-agent: error: unrecognized arguments: --no-such-flag" in rest


def test_an_agent_that_fails_soon_was_listed_or_the_launch_failed(stage: DemoStage) -> None:
    """It has a session by then: either it was seen alive, or the whole launch failed."""
    ran = _launch(stage, "-p", "no such step")
    if ran.code == 0:
        until(lambda: _list_sessions(stage) == [], "it has ended")
        return
    assert "exit code 2" in ran.err
    assert "no such step" in ran.err
    _assert_nothing_is_left(stage)


def test_a_missing_program_is_reported(stage: DemoStage) -> None:
    ran = _launch(stage, "-p", "hang", AGENTCTL_ADAPTER_DEMO_BINARY="no-such-agent")
    assert (ran.code, ran.out) == (1, "")
    assert "no-such-agent is not installed" in ran.err
    assert "looked in /usr/bin, /bin" in ran.err
    state = Path(stage.environ["AGENTCTL_HOME"])
    state.mkdir()
    (state / "config.toml").write_text('[adapters.demo]\nbinary = "/no/such/agent"\n')
    ran = _launch(stage, "-p", "hang")
    assert (ran.code, ran.out) == (1, "")
    assert "cannot run /no/such/agent" in ran.err
    _assert_nothing_is_left(stage)


def test_a_program_that_cannot_run_is_reported(stage: DemoStage) -> None:
    program = stage.root / "agent"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    ran = _launch(stage, "-p", "hang", AGENTCTL_ADAPTER_DEMO_BINARY=str(program))
    assert (ran.code, ran.out) == (1, "")
    assert "could not be started: No such file or directory" in ran.err
    _assert_nothing_is_left(stage)


def test_a_program_that_ends_at_once_without_a_session_has_failed(stage: DemoStage) -> None:
    ran = _launch(stage, "-p", "hang", AGENTCTL_ADAPTER_DEMO_BINARY="/bin/true")
    assert (ran.code, ran.out) == (1, "")  # exit code 0, and no session: no success
    assert "demo ended while it was being launched: exit code 0" in ran.err
    _assert_nothing_is_left(stage)


def test_a_deleted_current_directory_is_refused(stage: DemoStage) -> None:
    (stage.root / "gone").mkdir()
    program = (
        f"cd {stage.root}/gone && rmdir {stage.root}/gone && exec {sys.executable} -m agentctl launch"
    )
    child = subprocess.run(
        ["/bin/sh", "-c", f"{program} demo -p hang"],
        env=environ_of(stage), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (child.returncode, child.stdout) == (2, b"")
    assert b"the current directory was deleted" in child.stderr


def test_an_unknown_agent_is_refused(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "launch", "nosuch", "-p", "hang")
    assert ran.code == 2
    assert "no adapter named 'nosuch'" in ran.err
    ran = agentctl_of(stage, "launch", "-p", "hang")
    assert ran.code == 2
    assert "missing ADAPTER" in ran.err


def test_a_module_of_our_name_where_it_works_is_not_run(stage: DemoStage) -> None:
    trap = stage.root / "ran"
    (stage.work / "agentctl.py").write_text(f"open({str(trap)!r}, 'w').close()\n")
    ran = _launch(stage, "-p", "exit 0", "--wait")
    assert ran.code == 0, ran
    assert not trap.exists()


def test_the_default_agent(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "launch", "-p", "exit 0", AGENTCTL_DEFAULT_ADAPTER="demo")
    assert (ran.code, ran.err) == (0, "")


def test_an_interrupted_launch_leaves_nothing(stage: DemoStage) -> None:
    """Ctrl-C while the session is not there yet: also what the agent's program has started."""
    wrapper = stage.root / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n{sys.executable} "$@" &\nwait\n')
    wrapper.chmod(0o755)
    launcher = subprocess.Popen(
        [sys.executable, "-m", "agentctl", "launch", "demo", "--cwd", str(stage.work), "-p", "hang",
         "--", "--late", "1000"],
        env=environ_of(stage, AGENTCTL_ADAPTER_DEMO_BINARY=str(wrapper)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    until(lambda: any(p.comm == "demo-agent" for p in stage.processes()), "the agent runs")
    launcher.send_signal(signal.SIGINT)
    out, err = launcher.communicate(timeout=60)
    assert (launcher.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    _assert_nothing_is_left(stage)


# prompts


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "prompt", ["--hang", "-x", "-", "hang, \"q\" 'q' `q` $HOME \\", "hang,\nzwei\r\n\tdrei ü 🙂", "a=b"]
)
def test_any_prompt_arrives(stage: DemoStage, prompt: str) -> None:
    session_id = _launch_session(stage, "-p", prompt, "--", "--steps")
    assert _prompt_of(stage, session_id) == prompt


def test_a_large_prompt(stage: DemoStage) -> None:
    text = "hang, " + "x" * 200_000
    (stage.root / "large").write_text(text)
    session_id = _launch_session(stage, "--prompt-file", "large")
    assert _prompt_of(stage, session_id) == text


def test_a_prompt_from_standard_input(stage: DemoStage) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "agentctl", "launch", "demo", "-", "--cwd", str(stage.work)],
        env=environ_of(stage), input=b"hang, from a pipe\n", capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (child.returncode, child.stderr) == (0, b"")
    assert _prompt_of(stage, child.stdout.decode().strip()) == "hang, from a pipe\n"


@pytest.mark.parametrize("data", [b"a\0b", b"\xff", b""])
def test_standard_input_that_is_no_prompt_is_refused(stage: DemoStage, data: bytes) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "agentctl", "launch", "demo", "-"],
        env=environ_of(stage), input=data, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (child.returncode, child.stdout) == (2, b"")
    assert b"Traceback" not in child.stderr
    _assert_nothing_is_left(stage)


def test_a_prompt_that_is_not_utf8_is_refused(stage: DemoStage) -> None:
    ran = _launch(stage, "-p", os.fsdecode(b"caf\xe9"))
    assert (ran.code, ran.out) == (2, "")
    assert "the prompt is not UTF-8 text" in ran.err


def test_spec_and_files_are_attached(stage: DemoStage) -> None:
    (stage.root / "spec.md").write_text("# Spec\n```\ncode\n```\n")
    (stage.root / "a.txt").write_text("first")
    session_id = _launch_session(stage, "-p", "hang, with these", "--spec", "spec.md", "--file", "a.txt")
    assert _prompt_of(stage, session_id) == (
        "hang, with these\n\nSpec: spec.md\n````\n# Spec\n```\ncode\n```\n````"
        "\n\nFile: a.txt\n```\nfirst\n```"
    )
    ran = _launch(stage, "-p", "x", "--file", "a.txt", "--max-file-size", "4")
    assert (ran.code, ran.out) == (2, "")
    assert "a.txt is larger than 4 bytes" in ran.err


def test_the_prompt_is_private(stage: DemoStage) -> None:
    session_id = _launch_session(stage, "-p", "hang, secret")
    for process in stage.processes():
        assert "secret" not in " ".join(process.argv)
    [note] = launches.read_launches(paths.database_file(stage.environ["AGENTCTL_HOME"]))
    folder = Path(launches.launch_folder(paths.database_file(stage.environ["AGENTCTL_HOME"]), note.id))
    for directory in (Path(stage.environ["AGENTCTL_HOME"]), folder.parent, folder):
        assert directory.stat().st_mode & 0o777 == 0o700, directory
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert note.session_id == session_id


# where, with what


def test_a_directory_in_use_is_refused_without_force(stage: DemoStage) -> None:
    first = _launch_session(stage, "-p", "hang")
    (stage.root / "link").symlink_to("work")
    ran = agentctl_of(stage, "launch", "demo", "--cwd", f"{stage.root}/link", "-p", "hang")
    assert (ran.code, ran.out) == (4, "")
    for word in (str(stage.work), first, f"agentctl stop {first}", "--force"):
        assert word in ran.err
    assert str(_owner(stage, first).pid) in ran.err
    assert [session["id"] for session in _list_sessions(stage)] == [first]
    second = _launch_session(stage, "-p", "hang", "--force")
    assert {session["id"] for session in _list_sessions(stage)} == {first, second}


def test_a_dead_owners_directory_is_free_at_once(stage: DemoStage) -> None:
    kill(_owner(stage, _launch_session(stage, "-p", "hang")).identity)
    _launch_session(stage, "-p", "hang")


def test_the_agent_s_environment(stage: DemoStage) -> None:
    session_id = _launch_session(
        stage, "-p", "hang", "--env", "K=v=w", "--env", "E=", "--env", "LANG=de",
        CLAUDECODE="1", LANG="fr", MINE="yes", PWD="/old",
    )  # fmt: skip
    environ = _owner(stage, session_id).environ()
    assert {name: environ.get(name) for name in ("K", "E", "LANG", "MINE", "PWD", "CLAUDECODE")} == {
        "K": "v=w",
        "E": "",
        "LANG": "de",
        "MINE": "yes",
        "PWD": str(stage.work),
        "CLAUDECODE": None,
    }
    [session] = _list_sessions(stage)
    assert environ["AGENTCTL_LAUNCH_ID"] == session["launch"]["id"]


def test_words_after_two_dashes_go_to_the_agent(stage: DemoStage) -> None:
    session_id = _launch_session(stage, "-p", "hang", "--", "--model", "m-1", "--late", "0")
    assert _owner(stage, session_id).argv[4:] == ("--model", "m-1", "--late", "0", "-")


def test_hooks_get_the_facts(stage: DemoStage) -> None:
    print_facts = 'env | grep ^AGENTCTL_ | sort; pwd; echo "."'
    session_id = _launch_session(
        stage, "-p", "hang", "--group", "g", "--model", "m",
        "--on-create", f"({print_facts}) > {stage.root}/created",
        "--on-complete", f"({print_facts}) > {stage.root}/over",
    )  # fmt: skip
    with Handle(_owner(stage, session_id).identity) as handle:
        handle.signal(signal.SIGTERM)
    created, over = (_wait_for(stage.root / name, ".\n").splitlines() for name in ("created", "over"))
    common = [
        "AGENTCTL_ADAPTER=demo",
        "AGENTCTL_BRANCH=",
        f"AGENTCTL_CWD={stage.work}",
        "AGENTCTL_GROUP=g",
        "AGENTCTL_MODEL=m",
        f"AGENTCTL_SESSION_ID={session_id}",
        str(stage.work),
    ]
    for output in (created, over):
        assert [word for word in common if word not in output] == []
        assert any(word.startswith("AGENTCTL_LAUNCH_ID=") and word[19:] for word in output)
    assert [w for w in created if "EXIT_CODE" in w or "OUTCOME" in w] == [
        "AGENTCTL_EXIT_CODE=",
        "AGENTCTL_OUTCOME=",
    ]
    assert "AGENTCTL_EXIT_CODE=143" in over
    assert any(
        word.startswith("AGENTCTL_OUTCOME=") and word != "AGENTCTL_OUTCOME=completed" for word in over
    )


def test_hooks_get_the_default_model(stage: DemoStage) -> None:
    print_model = 'echo "$AGENTCTL_MODEL."'
    words = (
        "--on-create",
        f"{print_model} > {stage.root}/created",
        "--on-complete",
        f"{print_model} > {stage.root}/over",
    )
    _launch_session(stage, "-p", "work 0.2", *words)
    assert [_wait_for(stage.root / name, ".\n") for name in ("created", "over")] == ["demo-1.\n"] * 2


def test_on_complete_runs_after_on_create(stage: DemoStage) -> None:
    """Also if the agent is quicker than its on-create hook."""
    log = stage.root / "log"
    _launch_session(
        stage, "-p", "exit 0", "--on-create", f"sleep 0.5; echo begun >> {log}",
        "--on-complete", f"echo over >> {log}",
    )  # fmt: skip
    until(lambda: log.exists() and "over" in log.read_text(), "both ran")
    assert log.read_text() == "begun\nover\n"


def test_a_failed_on_create_is_reported_and_the_agent_lives(stage: DemoStage) -> None:
    ran = _launch(stage, "-p", "hang", "--on-create", "echo why; exit 3")
    assert ran.code == 0
    assert "agentctl: on-create failed: exit code 3; see " in ran.err
    assert Path(ran.err.strip().rpartition("see ")[2]).read_text() == "why\n"
    [session] = _list_sessions(stage)
    assert ran.out == f"{session['id']}\n"
    assert "FAILED, exit code 3" in agentctl_of(stage, "status", session["id"]).out


def test_a_timeout_ends_the_session(stage: DemoStage) -> None:
    session_id = _launch_session(stage, "-p", "hang", "--timeout", "0.3s")
    until(lambda: stage.session(session_id).verdict.status == "stopped", "it is ended")
    assert stage.session(session_id).verdict.outcome != "completed"


def test_an_agent_that_a_hook_launches_has_facts_of_its_own(stage: DemoStage) -> None:
    """It inherits neither the hook's marker nor the hook's facts."""
    other = stage.root / "other"
    other.mkdir()
    again = f"{sys.executable} -m agentctl launch demo --cwd {other} -p hang > {stage.root}/second"
    first = _launch_session(stage, "-p", "exit 0", "--group", "g", "--on-complete", again)
    second = _wait_for(stage.root / "second").strip()
    assert second != first
    environ = _owner(stage, second).environ()
    assert "AGENTCTL_HOOK" not in environ
    assert "AGENTCTL_SESSION_ID" not in environ
    [session] = _list_sessions(stage)
    assert (session["id"], session["launch"]["group"]) == (second, None)
    assert environ["AGENTCTL_LAUNCH_ID"] == session["launch"]["id"]


# the terminal


def test_a_closed_terminal_ends_nothing(stage: DemoStage) -> None:
    """Launched from a shell with job control; its terminal hangs up."""
    pid, terminal = pty.fork()
    if pid == 0:
        command = f"{sys.executable} -m agentctl launch demo --cwd {stage.work} -p hang; sleep 1000"
        os.execve("/bin/sh", ["/bin/sh", "-c", command], environ_of(stage))
    output = b""
    while b"\n" not in output:
        assert select.select([terminal], [], [], DEADLINE)[0], output
        output += os.read(terminal, 1 << 16)
    os.close(terminal)
    os.waitpid(pid, 0)  # by SIGHUP
    session_id = output.decode().strip()
    assert [(s["id"], s["status"]) for s in _list_sessions(stage)] == [(session_id, "running")]


def test_its_output_is_closed_when_it_returns(stage: DemoStage) -> None:
    """`$(agentctl launch …)` ends with the launch, not with the agent."""
    command = (
        f'id=$({sys.executable} -m agentctl launch demo --cwd {stage.work} -p hang 2>&1); echo "$id" .'
    )
    child = subprocess.run(
        ["/bin/sh", "-c", command], env=environ_of(stage), capture_output=True, timeout=60, check=True
    )
    [session] = _list_sessions(stage)
    assert child.stdout.decode() == f"{session['id']} .\n"


def test_the_launcher_needs_no_terminal_and_no_streams(stage: DemoStage) -> None:
    command = f"{sys.executable} -m agentctl launch demo --cwd {stage.work} -p hang <&- >&- 2>&-"
    child = subprocess.run(["/bin/sh", "-c", command], env=environ_of(stage), timeout=60, check=False)
    assert child.returncode == 0
    assert len(_list_sessions(stage)) == 1


@pytest.mark.parametrize(("where", "code"), [("pipe", 0), ("/dev/full", 1)])
def test_an_answer_that_cannot_be_written_ends_no_agent(stage: DemoStage, where: str, code: int) -> None:
    """`agentctl launch … | true`, or a full disk: it was started, and goes on."""
    reader, writer = os.pipe() if where == "pipe" else (os.dup(0), os.open(where, os.O_WRONLY))
    os.close(reader)
    child = subprocess.run(
        [sys.executable, "-m", "agentctl", "launch", "demo", "--cwd", str(stage.work), "-p", "hang"],
        env=environ_of(stage), stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert child.returncode == code
    assert b"Traceback" not in child.stderr
    assert [session["status"] for session in _list_sessions(stage)] == ["running"]


def test_help_has_examples(stage: DemoStage) -> None:
    ran = agentctl_in(
        stage.environ | {"PYTHONPATH": environ_of(stage)["PYTHONPATH"]}, "launch", "--help"
    )
    assert ran.code == 0
    for word in ("--dry-run", "--on-complete", "git diff | agentctl launch pi -", "-- --agent plan"):
        assert word in ran.out


def test_a_dry_run_names_the_session_in_the_way(stage: DemoStage) -> None:
    session_id = _launch_session(stage, "-p", "work 600")
    plan = _launch(stage, "-p", "x", "--dry-run", "--json").json()["launches"][0]
    assert session_id in plan["lock_held_by"]
    assert session_id in _launch(stage, "-p", "x", "--dry-run").out
    kill(_owner(stage, session_id).identity)
    plan = _launch(stage, "-p", "x", "--dry-run", "--json").json()["launches"][0]
    assert plan["lock_held_by"] is None


def test_wait_reports_a_failed_hook_and_a_timeout(stage: DemoStage) -> None:
    ran = _launch(stage, "-p", "work 0.2", "--wait", "--on-complete", "sleep 0.3; exit 7")
    assert ran.code == 0  # the agent has done well
    assert "on-complete failed: exit code 7" in ran.err
    ran = _launch(stage, "-p", "work 600", "--wait", "--timeout", "0.2")
    assert ran.code == 1
    assert "timed out" in ran.err


def test_a_dry_run_keeps_the_callers_keys(stage: DemoStage) -> None:
    stage.environ["OPENCODE_CONFIG_CONTENT"] = '{"apiKey": "secret"}'
    program = stage.root / "opencode"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    words = ("launch", "opencode", "-p", "x", "--append-system-prompt", "y", "--dry-run")
    for more in ((), ("--json",)):
        ran = agentctl_of(stage, *words, *more, PATH=f"{stage.root}:/usr/bin:/bin")
        assert ran.code == 0, ran.err
        assert "OPENCODE_CONFIG_CONTENT" in ran.out
        assert "secret" not in ran.out
