"""From a LaunchSpec to slots: which agents, in which worktrees, under which names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentctl.config import settings as config
from agentctl.errors import UsageError
from agentctl.launch.order import StartRequest
from agentctl.launch.plan import build_request, default_adapter, find_directory, plan_launch
from agentctl.launch.slots import Slot
from agentctl.launch.spec import LaunchSpec
from tests.fakes.demo import DemoStage
from tests.running import Ran, agentctl_of
from tests.worktrees.repository import Repository, repo

__all__ = ["repo"]
ASK = ("-p", "work 600", "--dry-run", "--json")


def read_plan(stage: DemoStage, *words: str) -> list[dict[str, Any]]:
    ran = agentctl_of(stage, "launch", *words, *ASK)
    assert ran.code == 0, ran.err
    launches: list[dict[str, Any]] = ran.json()["launches"]
    return launches


def expect_refusal(stage: DemoStage, *words: str) -> Ran:
    ran = agentctl_of(stage, "launch", *words, *ASK)
    assert (ran.code, ran.out) == (2, "")
    return ran


def list_branches(repository: Path) -> list[str]:
    listing = subprocess.run(
        ["git", "branch", "--format=%(refname:short)"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    return listing.stdout.split()


def test_one_needs_no_worktree_and_no_group(stage: DemoStage) -> None:
    (one,) = read_plan(stage, "demo", "--model", "m-1")
    assert one["worktree"] is None
    assert "--model" in one["command"]
    assert one["cwd"] == one["lock"]


def test_each_of_several_gets_a_branch_and_a_worktree(stage: DemoStage, repo: Repository) -> None:
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
    fast, slow = read_plan(stage, *words)
    assert [each["worktree"]["branch"] for each in (fast, slow)] == [
        "agentctl/g/fast",
        "agentctl/g/slow",
    ]
    assert fast["cwd"] == fast["lock"] == fast["worktree"]["path"] != slow["cwd"]
    assert list_branches(repo.path) == ["main"]  # a plan makes nothing
    assert not (repo.path.parent / f"{repo.path.name}-worktrees").exists()


def test_a_plan_shows_the_worktree_that_would_be_created(stage: DemoStage, repo: Repository) -> None:
    first = repo.git("rev-parse", "HEAD")
    repo.git("branch", "old")
    repo.commit(b_txt="b")
    (repo.path.parent / f"{repo.path.name}-worktrees" / "old").mkdir(parents=True)
    (one,) = read_plan(stage, "demo", "--worktree", str(repo.path), "--branch", "old")
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
    (one,) = read_plan(
        stage, "demo", "--worktree", str(repo.path), "--branch", "b", "--cwd", str(repo.path / "sub")
    )
    assert one["cwd"] == f"{one['worktree']['path']}/sub"


def test_a_flag_overrides_the_matrix(stage: DemoStage, repo: Repository) -> None:
    file = stage.root / "m.yaml"
    file.write_text(
        f"prompt: work 1\ncwd: {repo.path}\ngroup: g\n"
        "on_complete: make test\nenv: {A: file, B: file}\n"
        "matrix:\n  - {adapter: demo, models: [x, y]}\n"
        "  - {adapter: demo, branch: 'try/{slot}', name: z}\n"
    )
    words = ("launch", "--matrix", str(file), "--env", "A=flag", "--dry-run", "--json")
    launches = agentctl_of(stage, *words).json()["launches"]
    trees = [each["worktree"]["branch"] for each in launches]
    assert trees == ["agentctl/g/x", "agentctl/g/y", "try/z"]
    assert {each["on_complete"] for each in launches} == {"make test"}
    assert {each["environment"]["set"]["A"] for each in launches} == {"flag"}
    assert {each["environment"]["set"]["B"] for each in launches} == {"file"}
    overridden = agentctl_of(stage, *words, "--on-complete", "true").json()["launches"]
    assert {each["on_complete"] for each in overridden} == {"true"}


def test_variables_of_a_slot_override_those_of_all(stage: DemoStage, repo: Repository) -> None:
    file = stage.root / "m.yaml"
    file.write_text(
        f"prompt: work 1\ncwd: {repo.path}\nenv: {{A: all, B: all, C: all}}\n"
        "matrix:\n  - {adapter: demo, env: {B: slot, C: slot}}\n"
    )
    words = ("launch", "--matrix", str(file), "--env", "C=flag", "--dry-run", "--json")
    (one,) = agentctl_of(stage, *words).json()["launches"]
    environ = one["environment"]["set"]
    assert (environ["A"], environ["B"], environ["C"]) == ("all", "slot", "flag")


def test_an_issue_precedes_a_slots_own_prompt(stage: DemoStage, repo: Repository) -> None:
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
        (
            ("--model", "m", "--adapter", "demo", "--adapter", "pi"),
            "--model m has no --adapter before it",
        ),
        ((), "missing ADAPTER"),
    ],
)
def test_options_that_do_not_go_together(stage: DemoStage, words: tuple[str, ...], why: str) -> None:
    assert why in expect_refusal(stage, *words).err


def test_several_agents_need_a_repository(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "launch", "--adapter", "demo", "--adapter", "demo", "-p", "work 600")
    assert ran.code != 0
    assert "not in a git repository" in ran.err
    assert stage.processes() == []


# values


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Config:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return config.load({"AGENTCTL_HOME": f"{tmp_path}/state"})


def request(spec: LaunchSpec, settings: config.Config) -> StartRequest:
    """The only start of this spec."""
    plan = plan_launch(spec, settings)
    (slot,) = plan.slots
    return build_request(plan, slot, None)


DEMO = LaunchSpec(slots=(Slot("demo"),), prompt="do it")


def test_a_start_takes_the_values_of_the_spec(settings: config.Config, tmp_path: Path) -> None:
    (tmp_path / "s.md").write_text("the spec")
    start = request(
        DEMO._replace(
            cwd="~", name="n", group="g", spec="s.md", meta=(("a", "1"),), env=(("K", "v"),),
            timeout=10800.0, on_create="c", on_complete="d", force=True, system_prompt="be kind",
            permission_mode="plan", native=("--x",),
        ),
        settings,
    )  # fmt: skip
    assert (start.adapter, start.cwd) == ("demo", str(tmp_path))
    assert start.prompt == "do it\n\nSpec: s.md\n```\nthe spec\n```"
    assert (start.name, start.group, start.spec) == ("n", "g", f"{tmp_path}/s.md")
    assert (start.meta, start.environ) == ((("a", "1"),), (("K", "v"),))
    assert (start.timeout, start.on_create, start.on_complete, start.force) == (10800.0, "c", "d", True)
    assert (start.system_prompt, start.permission_mode, start.native) == ("be kind", "plan", ("--x",))


def test_settings_fill_what_the_spec_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        f'[defaults]\ncwd = "{tmp_path}"\nname = "n"\ntimeout = "1h"\non_complete = "make"\n'
        '[adapters.demo]\nargs = ["--late", "1"]\nbinary = "other"\nmodel = "m"\n'
    )
    settings = config.load({"AGENTCTL_HOME": str(tmp_path)})
    start = request(DEMO._replace(native=("--x",)), settings)
    assert (start.cwd, start.name, start.timeout) == (str(tmp_path), "n", 3600.0)
    assert (start.on_complete, start.binary, start.model) == ("make", "other", "m")
    assert start.native == ("--late", "1", "--x")
    overridden = request(DEMO._replace(timeout=0.0, name="o", cwd="/"), settings)
    assert (overridden.timeout, overridden.name, overridden.cwd) == (0.0, "o", "/")


def test_a_relative_directory_is_from_here(settings: config.Config, tmp_path: Path) -> None:
    assert find_directory(LaunchSpec(cwd="sub/.."), settings) == str(tmp_path)
    assert find_directory(LaunchSpec(), settings) == str(tmp_path)


def test_from_a_directory_that_was_deleted(
    settings: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for cwd in (None, "sub"):
        with pytest.raises(UsageError, match="the current directory was deleted"):
            find_directory(LaunchSpec(cwd=cwd), settings)
    assert find_directory(LaunchSpec(cwd="/tmp"), settings) == "/tmp"


def test_an_issue_is_read_where_the_agent_will_be(
    settings: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\nprintf \'{"number":1,"title":"%s","url":"u","body":"b"}\' "$PWD"\n')
    gh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    start = request(DEMO._replace(issue="1", cwd="~/shop"), settings)
    assert start.prompt == f"Issue #1: {tmp_path}/shop\nu\n\nb\n\ndo it"


def test_the_default_adapter(settings: config.Config, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="missing ADAPTER") as caught:
        default_adapter(settings)
    assert "demo" in caught.value.hint
    environ = {"AGENTCTL_HOME": f"{tmp_path}/state", "AGENTCTL_DEFAULT_ADAPTER": "demo"}
    assert default_adapter(config.load(environ)) == "demo"
