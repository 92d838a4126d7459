"""Several slots at once: what starts goes on, what fails leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Lock, Thread

import pytest

from agentctl import paths
from agentctl.config import settings
from agentctl.errors import Refused, Unreachable
from agentctl.launch import arrival
from agentctl.launch.group import Result, run_slots
from agentctl.launch.plan import plan_launch
from agentctl.launch.slots import Slot
from agentctl.launch.spec import LaunchSpec
from agentctl.launch.start import start_slot
from agentctl.state import launches, locks
from agentctl.worktrees import worktree
from tests.cli.hostile import harmful
from tests.fakes.demo import DemoStage
from tests.launch.test_plan import list_branches
from tests.running import SOURCES, agentctl_of, agentctl_on_a_terminal, read_until, started
from tests.waiting import DEADLINE, until
from tests.worktrees.repository import Repository, repo

__all__ = ["repo"]

SLOTS = [Slot(name=str(number)) for number in range(12)]


def test_results_come_in_the_order_of_the_slots() -> None:
    results = run_slots(SLOTS, lambda slot: f"got {slot.name}")
    assert [(r.slot, r.state, r.value) for r in results] == [
        (slot, "started", f"got {slot.name}") for slot in SLOTS
    ]


def test_slots_run_at_the_same_time() -> None:
    """Each waits for all the others."""
    barrier = Barrier(4, timeout=20)
    results = run_slots(SLOTS[:4], lambda _: barrier.wait(), parallel=4)
    assert {result.state for result in results} == {"started"}


def test_no_more_slots_run_than_allowed() -> None:
    lock, now, most = Lock(), 0, 0
    barrier = Barrier(3, timeout=20)

    def start(_: Slot) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        barrier.wait()
        with lock:
            now -= 1

    run_slots(SLOTS, start, parallel=3)
    assert most == 3


def test_one_that_fails_does_not_stop_the_others() -> None:
    def start(slot: Slot) -> str:
        if slot.name == "3":
            raise Refused("locked")
        if slot.name == "4":
            raise ZeroDivisionError
        return "fine"

    results = run_slots(SLOTS, start)
    assert [r.state for r in results].count("started") == 10
    assert (results[3].state, str(results[3].error)) == ("failed", "locked")
    assert isinstance(results[4].error, ZeroDivisionError)


def test_each_step_is_reported() -> None:
    steps: list[tuple[int, str]] = []

    def progress(index: int, result: Result[None]) -> None:
        steps.append((index, result.state))

    run_slots(SLOTS[:2], lambda _: None, progress, parallel=1)
    assert steps == [(0, "starting"), (0, "started"), (1, "starting"), (1, "started")]


def test_in_another_thread() -> None:
    results: list[Result[int]] = []
    thread = Thread(target=lambda: results.extend(run_slots(SLOTS, lambda _: 1)))
    thread.start()
    thread.join()
    assert len(results) == 12


PROGRAM = """
import sys, threading
from agentctl.launch.group import run_slots
from agentctl.launch.slots import Slot

go = threading.Event()
def start(slot):
    go.wait()
    return slot.name
def progress(index, result):
    print(index, result.state, flush=True)
    if result.state == "not started":
        go.set()  # what is under way comes to its end
try:
    results = run_slots([Slot(name=str(n)) for n in range(4)], start, progress, parallel=2)
    print("end", [r.value for r in results], flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@contextmanager
def _run_program(program: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def test_ctrl_c_starts_no_more_and_reports() -> None:
    with _run_program(PROGRAM) as child:
        read_until(child, b"1 starting")
        child.send_signal(signal.SIGINT)
        output = read_until(child, b"end").decode() + (
            child.stdout.read().decode() if child.stdout else ""
        )
    assert "2 not started\n3 not started\n" in output
    assert "end ['0', '1', None, None]" in output


ELSEWHERE = """
import signal, sys, threading
from agentctl.launch.group import run_slots
from agentctl.launch.slots import Slot

go = threading.Event()
def start(slot):
    if slot.name == "0":
        sys.stdin.readline()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        go.wait()
def progress(index, result):
    print(index, result.state, flush=True)
run_slots([Slot(name="0"), Slot(name="1")], start, progress, go.set)
"""


def test_ctrl_c_is_noticed_in_any_thread() -> None:
    """Such a signal does not end the main thread's wait."""
    with _run_program(ELSEWHERE) as child:
        read_until(child, b"1 started")  # and now it waits for the other
        assert child.stdin is not None
        child.stdin.write(b"now\n")
        child.stdin.flush()
        read_until(child, b"0 started")


def test_a_second_ctrl_c_does_not_wait() -> None:
    with _run_program(PROGRAM.replace("        go.set()", "        pass")) as child:
        read_until(child, b"1 starting")
        child.send_signal(signal.SIGINT)
        read_until(child, b"3 not started")
        child.send_signal(signal.SIGINT)
        read_until(child, b"interrupted")


# agents in worktrees


def count_worktrees(repository: Path) -> int:
    words = ["git", "worktree", "list", "--porcelain"]
    listing = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=True)
    return listing.stdout.count("worktree ")


def test_all_slots_start_in_worktrees(stage: DemoStage, repo: Repository) -> None:
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
    assert len(list_branches(repo.path)) == count_worktrees(repo.path) == 4


def test_a_slot_that_fails_stops_no_other_and_leaves_nothing(stage: DemoStage, repo: Repository) -> None:
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
    assert sorted(list_branches(repo.path)) == ["agentctl/g/good", "main"]
    assert count_worktrees(repo.path) == 2
    notes = paths.database_file(stage.environ["AGENTCTL_HOME"])
    assert len(launches.read_launches(notes)) == len(locks.list_held(notes)) == 1


def test_nothing_is_left_when_no_slot_starts(stage: DemoStage, repo: Repository) -> None:
    words = ("--adapter", "demo", "--adapter", "demo", "-p", "dance", "--cwd", str(repo.path))
    ran = agentctl_of(stage, "launch", *words)
    assert (ran.code, ran.out) == (1, "")
    assert list_branches(repo.path) == ["main"]
    assert count_worktrees(repo.path) == 1


def test_the_exit_code_of_waiting_is_the_worst(stage: DemoStage, repo: Repository) -> None:
    file = stage.root / "m.yaml"
    file.write_text(
        f"cwd: {repo.path}\nmatrix:\n  - {{adapter: demo, name: good, prompt: 'work 0.2'}}\n"
        "  - {adapter: demo, name: bad, prompt: 'work 2, exit 3'}\n"
    )
    ran = agentctl_of(stage, "launch", "--matrix", str(file), "--wait")
    assert ran.code == 1
    assert len(ran.lines) == 2, ran.err
    assert "stopped (completed, exit code 0)" in ran.err
    assert "stopped (failed, exit code 3)" in ran.err


def test_failures_are_listed_after_waiting(stage: DemoStage, repo: Repository) -> None:
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


def test_a_launch_forgets_old_launches(stage: DemoStage, repo: Repository) -> None:
    assert agentctl_of(stage, "launch", "demo", "-p", "exit 0", "--name", "old", "--wait").code == 0
    stage.environ["AGENTCTL_LAUNCH_TTL"] = "0s"
    words = ("--adapter", "demo", "--adapter", "demo", "-p", "work 600", "--cwd", str(repo.path))
    assert agentctl_of(stage, "launch", *words).code == 0
    notes = launches.read_launches(paths.database_file(stage.environ["AGENTCTL_HOME"]))
    assert sorted(note.name or "" for note in notes) == ["demo-1", "demo-2"]


def test_a_terminal_shows_each_id_once(stage: DemoStage, repo: Repository) -> None:
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
    ran = agentctl_on_a_terminal(stage, "launch", *words, "--group", "g")
    assert ran.code == 0
    last = ran.out[ran.out.rindex("\x1b[2A") :]
    listed = agentctl_of(stage, "list", "--group", "g", "--json").json()["sessions"]
    assert [last.count(session["id"]) for session in listed] == [1, 1]


def test_ctrl_c_prints_what_started_and_how_to_end_it(stage: DemoStage, repo: Repository) -> None:
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


def test_a_second_ctrl_c_exits_and_prints_how_to_end_what_started(
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
    assert b"agentctl: interrupted; agentctl stop --group g ends what has started\n" in err


def test_names_of_groups_and_slots_are_escaped(stage: DemoStage, repo: Repository) -> None:
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


def test_the_worktree_of_an_agent_that_runs_on_is_kept(
    stage: DemoStage, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch fails because no session came in time; the agent has not written anything yet."""
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setattr(arrival, "PATIENCE", 0.2)
    spec = LaunchSpec(
        slots=(Slot("demo"),), prompt="work 600", worktree=str(repo.path), native=("--late", "600")
    )
    plan = plan_launch(spec, settings.load(os.environ))
    with pytest.raises(Unreachable, match="it runs on"):
        start_slot(stage.environ["AGENTCTL_HOME"], plan, plan.slots[0])
    (checkout,) = worktree.list_worktrees(str(repo.path))
    assert os.path.isdir(checkout.path)
    monkeypatch.delenv("AGENTCTL_STAGE")
