"""From words to slots: which agents, in which worktrees, under which names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.cli import slotting
from agentctl.cli.verbs import launch
from agentctl.config import settings
from agentctl.errors import Unreachable
from agentctl.launch import arrival
from agentctl.worktrees import worktree
from tests.fakes.demo import DemoStage
from tests.running import Ran, agentctl_of
from tests.worktrees.repository import Repository, repo

__all__ = ["repo"]
ASK = ("-p", "work 600", "--dry-run", "--json")


def planned(stage: DemoStage, *words: str) -> list[dict[str, Any]]:
    ran = agentctl_of(stage, "launch", *words, *ASK)
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = ran.json()["launches"]
    return found


def refused(stage: DemoStage, *words: str) -> Ran:
    ran = agentctl_of(stage, "launch", *words, *ASK)
    assert (ran.code, ran.out) == (2, "")
    return ran


def branches(repository: Path) -> list[str]:
    done = subprocess.run(
        ["git", "branch", "--format=%(refname:short)"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_one_needs_no_worktree_and_no_group(stage: DemoStage) -> None:
    (one,) = planned(stage, "demo", "--model", "m-1")
    assert one["worktree"] is None
    assert "--model" in one["command"]
    assert one["cwd"] == one["lock"]


def test_each_of_several_gets_a_branch_and_a_place(stage: DemoStage, repo: Repository) -> None:
    words = (
        "--adapter",
        "demo",
        "--model",
        "fast",
        "--model",
        "slow",
        "--group",
        "g",
        "--cwd",
        str(repo.path),
    )
    fast, slow = planned(stage, *words)
    assert [each["worktree"]["branch"] for each in (fast, slow)] == [
        "agentctl/g/fast",
        "agentctl/g/slow",
    ]
    assert fast["cwd"] == fast["lock"] == fast["worktree"]["path"] != slow["cwd"]
    assert branches(repo.path) == ["main"]  # a plan makes nothing
    assert not (repo.path.parent / f"{repo.path.name}-worktrees").exists()


def test_a_plan_tells_the_worktree_that_would_be_made(stage: DemoStage, repo: Repository) -> None:
    first = repo.git("rev-parse", "HEAD")
    repo.git("branch", "old")
    repo.commit(b_txt="b")
    (repo.path.parent / f"{repo.path.name}-worktrees" / "old").mkdir(parents=True)
    (one,) = planned(stage, "demo", "--worktree", str(repo.path), "--branch", "old")
    assert (one["worktree"]["base"], one["worktree"]["repository"]) == (first, str(repo.path))
    assert one["worktree"]["path"].endswith("-worktrees/old-2")


@pytest.mark.parametrize(("branch", "code"), [("main", 4), ("a b", 2)])
def test_a_plan_is_refused_where_the_launch_would_be(
    stage: DemoStage, repo: Repository, branch: str, code: int
) -> None:
    words = ("demo", "-p", "work 1", "--worktree", str(repo.path), "--branch", branch)
    assert agentctl_of(stage, "launch", *words).code == code
    assert agentctl_of(stage, "launch", *words, "--dry-run").code == code


def test_a_directory_in_the_repository_is_the_same_in_the_worktree(
    stage: DemoStage, repo: Repository
) -> None:
    (repo.path / "sub").mkdir()
    (one,) = planned(
        stage, "demo", "--worktree", str(repo.path), "--branch", "b", "--cwd", str(repo.path / "sub")
    )
    assert one["cwd"] == f"{one['worktree']['path']}/sub"


def test_a_matrix_says_it_all_and_a_flag_says_it_louder(stage: DemoStage, repo: Repository) -> None:
    file = stage.root / "m.yaml"
    file.write_text(
        f"prompt: work 1\ncwd: {repo.path}\ngroup: g\n"
        "on_complete: make test\nenv: {A: file, B: file}\n"
        "matrix:\n  - {adapter: demo, models: [x, y]}\n"
        "  - {adapter: demo, branch: 'try/{slot}', name: z}\n"
    )
    words = ("launch", "--matrix", str(file), "--env", "A=flag", "--dry-run", "--json")
    found = agentctl_of(stage, *words).json()["launches"]
    trees = [each["worktree"]["branch"] for each in found]
    assert trees == ["agentctl/g/x", "agentctl/g/y", "try/z"]
    assert {each["on_complete"] for each in found} == {"make test"}
    assert {each["environment"]["set"]["A"] for each in found} == {"flag"}
    assert {each["environment"]["set"]["B"] for each in found} == {"file"}
    louder = agentctl_of(stage, *words, "--on-complete", "true").json()["launches"]
    assert {each["on_complete"] for each in louder} == {"true"}


def test_what_is_said_of_a_slot_is_stronger_than_what_is_said_of_all(
    stage: DemoStage, repo: Repository
) -> None:
    file = stage.root / "m.yaml"
    file.write_text(
        f"prompt: work 1\ncwd: {repo.path}\nenv: {{A: all, B: all, C: all}}\n"
        "matrix:\n  - {adapter: demo, env: {B: slot, C: slot}}\n"
    )
    words = ("launch", "--matrix", str(file), "--env", "C=flag", "--dry-run", "--json")
    (one,) = agentctl_of(stage, *words).json()["launches"]
    told = one["environment"]["set"]
    assert (told["A"], told["B"], told["C"]) == ("all", "slot", "flag")


def test_an_issue_is_for_slots_with_prompts_of_their_own_too(stage: DemoStage, repo: Repository) -> None:
    gh = stage.root / "gh"
    gh.write_text('#!/bin/sh\nprintf \'{"number":1,"title":"Broken","url":"u","body":"b"}\'\n')
    gh.chmod(0o755)
    stage.environ["PATH"] = f"{stage.root}:{stage.environ['PATH']}"
    file = stage.root / "m.yaml"
    file.write_text(f"cwd: {repo.path}\nmatrix:\n  - {{adapter: demo, prompt: fix it}}\n")
    words = ("launch", "--matrix", str(file), "--issue", "1", "--dry-run", "--json")
    (one,) = agentctl_of(stage, *words).json()["launches"]
    assert one["stdin_bytes"] == len("Issue #1: Broken\nu\n\nb\n\nfix it")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("demo", "--branch", "b"), "a branch is for a worktree"),
        (("demo", "--repo", "o/r"), "--repo is for an issue"),
        (("nosuch",), "no adapter named 'nosuch'"),
        (("demo", "fix the test"), "a prompt follows -p"),
        (("demo", "--matrix", "x.yaml"), "--matrix names the agents and models"),
        (("--model", "m", "--adapter", "demo", "--adapter", "pi"), "which agent is --model m for?"),
        ((), "which agent?"),
    ],
)
def test_words_that_do_not_go_together(stage: DemoStage, words: tuple[str, ...], why: str) -> None:
    assert why in refused(stage, *words).err


def test_several_outside_a_repository(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "launch", "--adapter", "demo", "--adapter", "demo", "-p", "work 600")
    assert ran.code != 0
    assert "not in a git repository" in ran.err
    assert stage.processes() == []


def test_the_ground_under_an_agent_that_runs_on_is_left(
    stage: DemoStage, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no session in time, so that the launch fails; it has not written anything yet."""
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setattr(arrival, "PATIENCE", 0.2)
    words = ["demo", "-p", "work 600", "--worktree", str(repo.path), "--", "--late", "600"]
    task = slotting.task(launch.parser().parse_words(words), settings.load(os.environ))
    with pytest.raises(Unreachable, match="it runs on"):
        task.start(stage.environ["AGENTCTL_HOME"], task.slots[0])
    (checkout,) = worktree.ours(str(repo.path))
    assert os.path.isdir(checkout.path)
    monkeypatch.delenv("AGENTCTL_STAGE")
