"""`agentctl prune`: it prints each removal with its reason, and exits with 1 if one failed."""

import os
import time

from agentctl.state import launch_writes, launches
from agentctl.system import proc
from agentctl.system.program import SHIM
from agentctl.truth.model import Exit, Launch
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity


def _notes(stage: DemoStage) -> str:
    return f"{stage.root}/state/state.db"


def _add_ended_launch(stage: DemoStage, launch_id: str, days: float) -> None:
    dead = ME._replace(start=ME.start - 1)
    launch_writes.begin_launch(_notes(stage), Launch(launch_id, dead, cwd=str(stage.work)))
    launch_writes.claim_end(_notes(stage), launch_id, Exit(0, time.time() - days * 86400, ""))


def test_without_notes_prune_creates_nothing(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "prune")
    assert (ran.code, ran.out, ran.err) == (0, "nothing to prune\n", "")
    assert agentctl_of(stage, "prune", "--dry-run", "--json").json() == {
        "dry_run": True,
        "version": 1,
        "pruned": [],
        "problems": [],
    }
    assert not (stage.root / "state").exists()


def test_each_removal_is_printed_with_its_reason(stage: DemoStage) -> None:
    _add_ended_launch(stage, "0123456789ab", 8)
    work = stage.work.resolve()
    dry = agentctl_of(stage, "prune", "--dry-run")
    assert dry.lines == [
        f"would remove the lock on {work}: launch 0123456789ab, pid {ME.pid} is gone",
        "would delete launch 0123456789ab: ended 8d ago",
    ]
    assert agentctl_of(stage, "prune").lines == [
        f"removed the lock on {work}: launch 0123456789ab, pid {ME.pid} is gone",
        "deleted launch 0123456789ab: ended 8d ago",
    ]
    assert agentctl_of(stage, "prune").lines == ["nothing to prune"]


def test_a_flag_wins_over_the_environment_and_that_over_the_file(stage: DemoStage) -> None:
    _add_ended_launch(stage, "0123456789ab", 2)
    (stage.root / "state" / "config.toml").write_text('[launches]\nttl = "1d"\n')

    def would(*words: str, **environ: str) -> list[str]:
        shape = agentctl_of(stage, "prune", "--dry-run", "--json", *words, **environ).json()
        return [each["kind"] for each in shape["pruned"]]

    assert would() == ["lock", "launch"]
    assert would(AGENTCTL_LAUNCH_TTL="3d") == ["lock"]
    assert would("--ttl", "1h", AGENTCTL_LAUNCH_TTL="3d") == ["lock", "launch"]


def test_unreadable_notes_are_an_error(stage: DemoStage) -> None:
    (stage.root / "state").mkdir()
    (stage.root / "state" / "state.db").write_text("rubbish\n" * 500)
    ran = agentctl_of(stage, "prune")
    assert (ran.code, ran.out) == (1, "")
    assert "not a database" in ran.err


def test_the_hook_of_a_killed_shim_runs(stage: DemoStage) -> None:
    """A real launch: its shim dies before its agent, so no process was left to run its hook."""
    hook = f"echo $AGENTCTL_OUTCOME >> {stage.root}/ran"
    ran = agentctl_of(
        stage, "launch", "demo", "-p", "work 600", "--cwd", str(stage.work), "--on-complete", hook
    )
    assert (ran.code, ran.err) == (0, "")
    shims = [p for p in stage.processes() if p.comm == SHIM]
    assert len(shims) == 1
    kill(shims[0].identity)
    assert agentctl_of(stage, "prune", "--ttl", "0s").lines == ["nothing to prune"]  # the agent lives
    assert [s.verdict.status for s in stage.survey().sessions] == ["running"]
    for process in stage.processes():
        kill(process.identity)
    [note] = launches.read_launches(_notes(stage))
    lines = agentctl_of(stage, "prune").lines
    assert f"finished launch {note.id}: its shim was killed: its on-complete hook was due" in lines
    assert (stage.root / "ran").read_text() == "killed\n"
    assert agentctl_of(stage, "prune").lines == ["nothing to prune"]
    assert [line.split(":")[0] for line in agentctl_of(stage, "prune", "--ttl", "0s").lines] == [
        f"deleted launch {note.id}"
    ]
    assert (stage.root / "ran").read_text() == "killed\n"
