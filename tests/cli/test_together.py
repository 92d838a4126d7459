"""Several slots at once: what starts goes on, what fails is told, nothing is left of it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from agentctl import paths
from agentctl.state import launches, locks
from tests.cli.hostile import harmful
from tests.cli.test_slotting import branches
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, agentctl_on_a_terminal, started
from tests.waiting import DEADLINE, until
from tests.worktrees.repository import Repository, repo

__all__ = ["repo"]


def worktrees(repository: Path) -> int:
    words = ["git", "worktree", "list", "--porcelain"]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout.count("worktree ")


def test_all_start(stage: DemoStage, repo: Repository) -> None:
    ran = agentctl_of(
        stage, "launch", "--adapter", "demo", "--model", "a", "--model", "b", "--model", "c",
        "-p", "work 600", "--cwd", str(repo.path), "--name", "try", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    answer = ran.json()
    assert answer["failures"] == []
    assert [s["launch"]["name"] for s in answer["sessions"]] == ["try/a", "try/b", "try/c"]
    (group,) = {s["launch"]["group"] for s in answer["sessions"]}
    assert f"agentctl compare {group}" in ran.err
    listed = agentctl_of(stage, "list", "--group", group, "--json").json()["sessions"]
    assert {s["id"] for s in listed} == {s["id"] for s in answer["sessions"]}
    assert {s["cwd"] for s in listed} == {s["launch"]["worktree"]["path"] for s in listed}
    assert len(branches(repo.path)) == worktrees(repo.path) == 4


def test_one_that_fails_stops_no_other_and_leaves_nothing(stage: DemoStage, repo: Repository) -> None:
    file = stage.root / "m.yaml"
    file.write_text(
        f"prompt: work 600\ncwd: {repo.path}\ngroup: g\nmatrix:\n"
        "  - {adapter: demo, name: good}\n  - {adapter: demo, name: bad, prompt: dance}\n"
    )
    ran = agentctl_of(stage, "launch", "--matrix", str(file), "--json")
    assert ran.code == 1
    answer = ran.json()
    assert [s["launch"]["name"] for s in answer["sessions"]] == ["good"]
    (failure,) = answer["failures"]
    assert failure["slot"] == "bad"
    assert failure["said"][-1] == "demo-agent: no such step: dance"
    assert "agentctl: bad: demo ended while it was being launched: exit code 2" in ran.err
    assert sorted(branches(repo.path)) == ["agentctl/g/good", "main"]
    assert worktrees(repo.path) == 2
    notes = paths.notes_file(stage.environ["AGENTCTL_HOME"])
    assert len(launches.recorded(notes)) == len(locks.held(notes)) == 1


def test_none_starts(stage: DemoStage, repo: Repository) -> None:
    words = ("--adapter", "demo", "--adapter", "demo", "-p", "dance", "--cwd", str(repo.path))
    ran = agentctl_of(stage, "launch", *words)
    assert (ran.code, ran.out) == (1, "")
    assert branches(repo.path) == ["main"]
    assert worktrees(repo.path) == 1


def test_the_exit_code_of_waiting_is_the_worst(stage: DemoStage, repo: Repository) -> None:
    file = stage.root / "m.yaml"
    file.write_text(
        f"cwd: {repo.path}\nmatrix:\n  - {{adapter: demo, name: good, prompt: 'work 0.2'}}\n"
        "  - {adapter: demo, name: bad, prompt: 'work 0.2, exit 3'}\n"
    )
    ran = agentctl_of(stage, "launch", "--matrix", str(file), "--wait")
    assert ran.code == 1
    assert len(ran.lines) == 2
    assert "stopped (completed, exit code 0)" in ran.err
    assert "stopped (failed, exit code 3)" in ran.err


def test_after_waiting_the_failures_are_told_too(stage: DemoStage, repo: Repository) -> None:
    file = stage.root / "m.yaml"
    file.write_text(
        f"cwd: {repo.path}\nmatrix:\n  - {{adapter: demo, name: good, prompt: 'work 0.2'}}\n"
        "  - {adapter: demo, name: bad, prompt: dance}\n"
    )
    ran = agentctl_of(stage, "launch", "--matrix", str(file), "--wait", "--json")
    assert ran.code == 1
    answer = ran.json()
    assert [(s["launch"]["name"], s["outcome"]) for s in answer["sessions"]] == [("good", "completed")]
    assert [failure["slot"] for failure in answer["failures"]] == ["bad"]


def test_what_ended_long_ago_is_forgotten(stage: DemoStage, repo: Repository) -> None:
    assert agentctl_of(stage, "launch", "demo", "-p", "exit 0", "--name", "old", "--wait").code == 0
    stage.environ["AGENTCTL_LAUNCH_TTL"] = "0s"
    words = ("--adapter", "demo", "--adapter", "demo", "-p", "work 600", "--cwd", str(repo.path))
    assert agentctl_of(stage, "launch", *words).code == 0
    notes = launches.recorded(paths.notes_file(stage.environ["AGENTCTL_HOME"]))
    assert sorted(note.name or "" for note in notes) == ["demo-1", "demo-2"]


def test_on_a_terminal_each_id_is_told_once(stage: DemoStage, repo: Repository) -> None:
    words = (
        "--adapter",
        "demo",
        "--model",
        "a",
        "--model",
        "b",
        "-p",
        "work 600",
        "--cwd",
        str(repo.path),
    )
    shown = agentctl_on_a_terminal(stage, "launch", *words, "--group", "g")
    assert shown.code == 0
    last = shown.out[shown.out.rindex("\x1b[2A") :]
    listed = agentctl_of(stage, "list", "--group", "g", "--json").json()["sessions"]
    assert [last.count(session["id"]) for session in listed] == [1, 1]


def test_ctrl_c_tells_what_has_started_and_how_to_end_it(stage: DemoStage, repo: Repository) -> None:
    hook = f"touch {stage.root}/begun; until [ -e {stage.root}/go ]; do sleep 0.05; done"
    words = ("--adapter", "demo", "--adapter", "demo", "-p", "work 600", "--cwd", str(repo.path))
    with started(stage, "launch", *words, "--group", "g", "--on-create", hook, "--wait") as child:
        until((stage.root / "begun").exists, "the hook of one of them")
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        while b"interrupted" not in (line := child.stderr.readline()):
            assert line
        (stage.root / "go").touch()
        out, err = child.communicate(timeout=DEADLINE)
        assert child.returncode == 130
    assert len(out.split()) == 2
    assert b"agentctl stop --group g ends those that started" in err


def test_a_second_ctrl_c_leaves_and_tells_how_to_end_what_has_started(
    stage: DemoStage, repo: Repository
) -> None:
    hook = f"touch {stage.root}/begun; until [ -e {stage.root}/go ]; do sleep 0.05; done"
    words = ("--adapter", "demo", "--adapter", "demo", "-p", "work 600", "--cwd", str(repo.path))
    with started(stage, "launch", *words, "--group", "g", "--on-create", hook) as child:
        until((stage.root / "begun").exists, "the hook of one of them")
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        while b"interrupted" not in (line := child.stderr.readline()):
            assert line
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=DEADLINE)
        assert child.returncode == 130
    (stage.root / "go").touch()
    assert b"agentctl: left; agentctl stop --group g ends what has started\n" in err


def test_a_group_and_a_slot_with_any_name_command_no_terminal(
    stage: DemoStage, repo: Repository
) -> None:
    evil = "g\x1b]0;owned\x07\x1b[2J"
    file = stage.root / "m.yaml"
    file.write_text(
        json.dumps(
            {
                "prompt": "work 600",
                "cwd": str(repo.path),
                "group": evil,
                "matrix": [
                    {"adapter": "demo", "name": f"good{evil}", "branch": "good"},
                    {"adapter": "demo", "name": f"bad{evil}", "branch": "bad", "prompt": "dance"},
                ],
            }
        )
    )
    ran = agentctl_of(stage, "launch", "--matrix", str(file))
    assert ran.code == 1, ran
    assert (harmful(ran.out), harmful(ran.err)) == ([], [])
    assert "agentctl compare g\\x1b]0;owned" in ran.err
    assert "agentctl: badg\\x1b]0;owned" in ran.err
