"""`agentctl doctor`: 0 on a clean machine, 1 when something is wrong, and nothing is ever changed.

`--live` meets a fake Claude Code that talks to the built-in model, in a real room.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.errors import Gone
from agentctl.rehearsal import sandbox
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from tests.cli import hostile
from tests.fakes.container import unshare
from tests.fakes.demo import DemoStage
from tests.fakes.talking_claude import TalkingStage
from tests.running import SOURCES, agentctl_of, read_until, started
from tests.waiting import DEADLINE, until

REASON = sandbox.obstacle(read_only=True)
needs_a_room = pytest.mark.skipif(REASON is not None, reason=f"no room can be had here: {REASON}")
STEPS = ["start", "work", "permission", "tool", "idle", "end", "work", "end"]


def test_a_clean_home(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "doctor")
    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.lines[-1] == "nothing is wrong"
    for subject in ("agentctl", "kernel", "state", "claude-code", "codex", "opencode", "pi", "demo"):
        assert subject in ran.lines


def test_live_agents_are_counted(stage: DemoStage) -> None:
    stage.start()
    stage.start()
    assert "  ok    2 live, versions 1.0.0" in agentctl_of(stage, "doctor").lines


def test_a_corrupt_record_is_wrong(stage: DemoStage) -> None:
    puppet = stage.start()
    live = stage.records(puppet)[0]
    live.write_text("rubbish")
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 1
    assert f"  wrong malformed: not a record of a live process ({live})" in ran.lines
    assert ran.lines[-1] == "1 wrong"
    assert live.read_text() == "rubbish"


def test_a_stale_record_is_told_and_kept(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.kill()
    live = stage.records(puppet)[0]
    before = live.read_bytes()
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 0  # harmless by itself
    assert f"stale: names a process that is gone; session {puppet.session_id}" in ran.out
    assert live.read_bytes() == before


def test_settings_that_make_no_sense_are_wrong(stage: DemoStage) -> None:
    assert "  ok    none made: all is as built in" in agentctl_of(stage, "doctor").lines
    file = stage.root / "state" / "config.toml"
    file.parent.mkdir(mode=0o700)
    file.write_text("[defaults]\n")
    assert f"  ok    {file}" in agentctl_of(stage, "doctor").lines
    file.write_text("[defaults]\nmodle = 1\n")
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 1
    told = f"{file}:2: no setting 'defaults.modle' (did you mean defaults.model?)"
    assert f"  wrong {told}" in ran.lines


def test_json(stage: DemoStage) -> None:
    puppet = stage.start()
    stage.records(puppet)[0].write_text(f"rubbish {hostile.WIDE}")
    ran = agentctl_of(stage, "doctor", "--json")
    assert ran.code == 1
    shape = ran.json()
    assert list(shape) == ["version", "wrong", "findings"]
    assert shape["wrong"] == 1 == sum(f["level"] == "wrong" for f in shape["findings"])
    assert {tuple(finding) for finding in shape["findings"]} == {("subject", "level", "text")}


def test_hostile_names_are_harmless(stage: DemoStage) -> None:
    sessions = stage.home / ".demo-agent" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "\x1b[31m\n\u202e漢.jsonl").write_text("rubbish\n")
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 1
    assert hostile.harmful(ran.out) == []


def test_it_changes_nothing(stage: DemoStage) -> None:
    stage.start().kill()
    files = sorted(p for p in stage.home.rglob("*") if p.is_file())
    before = [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in files]
    agentctl_of(stage, "doctor")
    after = sorted(p for p in stage.home.rglob("*") if p.is_file())
    assert [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in after] == before


# --live


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[TalkingStage]:
    made = TalkingStage(tmp_path)
    made.install()
    yield made
    made.close()


def live(stage: TalkingStage, *, fault: str = "", patience: str = "20s") -> tuple[int, dict[str, Any]]:
    stage.fault = fault
    stage.install()
    ran = agentctl_of(stage, "doctor", "--live", "claude-code", "--patience", patience, "--json")
    assert ran.err == "", ran
    (agent,) = ran.json()["agents"]
    return ran.code, agent


@needs_a_room
def test_live_as_expected(installed: TalkingStage) -> None:
    code, agent = live(installed)
    assert code == 0, agent
    assert (agent["state"], agent["agent_version"]) == ("as expected", "2.1.325")
    assert [step["step"] for step in agent["steps"]] == STEPS
    assert [step["told"] for step in agent["steps"][:4]] == ["idle", "running", "waiting", "running"]


@needs_a_room
def test_live_a_status_word_that_changed_is_drift(installed: TalkingStage) -> None:
    code, agent = live(installed, fault="renamed", patience="5s")
    assert (code, agent["state"]) == (1, "drifted")
    states = {(step["act"], step["step"]): step["state"] for step in agent["steps"]}
    assert states["terminal", "work"] == states["headless", "work"] == "drifted"
    assert states["terminal", "idle"] == "as expected"
    work = agent["steps"][1]
    assert work["told"] == "running"  # the transcript tells, still
    assert [signal["state"] for signal in work["signals"]] == ["as expected", "untrusted", "as expected"]
    assert [problem["kind"] for problem in work["problems"]] == ["drift"]


@needs_a_room
@pytest.mark.parametrize("fault", ["silent", "deaf"])
def test_live_one_that_hangs_is_told_and_ended(installed: TalkingStage, fault: str) -> None:
    code, agent = live(installed, fault=fault, patience="2s")
    assert (code, agent["state"]) == (1, "failed")
    assert "was not reached" in agent["reason"]
    (lost,) = [step for step in agent["steps"] if step["act"] == "terminal"][-1:]
    assert lost["state"] == "not reached"
    assert bool(lost["said"]) == (fault == "deaf")  # its screen; the silent one has none


@needs_a_room
def test_live_one_that_dies_at_its_start_is_told_in_its_own_words(installed: TalkingStage) -> None:
    code, agent = live(installed, fault="dying")
    assert (code, agent["state"]) == (1, "failed")
    terminal, launched = agent["steps"]
    assert terminal["said"] == ["cannot read my settings: out of cheese", "(it has ended, exit code 3)"]
    assert "exit code 3" in launched["said"][0]


@needs_a_room
def test_live_no_file_of_the_person_is_touched(installed: TalkingStage) -> None:
    for name in (".claude.json", ".claude/settings.json", ".claude/projects/x/one.jsonl", "notes"):
        path = installed.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"a canary in {name}")
    before = _everything(installed.home)
    assert live(installed)[0] == 0
    assert _everything(installed.home) == before


@needs_a_room
def test_live_the_agent_gets_no_variable_of_the_person_but_path(installed: TalkingStage) -> None:
    installed.environ |= {"ANTHROPIC_API_KEY": "of the person", "A_SECRET": "of the person"}
    _, agent = live(installed, fault="telling")
    assert len(agent["steps"]) == 2
    for step in agent["steps"]:
        said = "".join(step["said"])
        assert "A_SECRET is None" in said
        assert "ANTHROPIC_API_KEY is none" in said
        assert f"HOME is {installed.home}" not in said
        assert f"PATH is {installed.environ['PATH']}" in said


@needs_a_room
def test_live_ctrl_c_ends_all_that_was_started(installed: TalkingStage) -> None:
    installed.fault = "silent"
    installed.install()
    with started(installed, "doctor", "--live", "claude-code") as asked:
        read_until(asked, b"claude-code 2.1.325")
        until(lambda: len(_below(asked.pid)) >= 4, "the room, its first process, the walk, the agent")
        handles = [Handle(identity) for identity in _below(asked.pid)]
        asked.send_signal(signal.SIGINT)
        assert asked.wait(DEADLINE) == 130
        assert asked.stderr is not None
        assert asked.stderr.read() == b""
    for handle in handles:
        assert handle.wait(DEADLINE), f"{handle.identity.address} goes on"
        handle.close()


@needs_a_room
def test_live_leaves_no_trace_with_those_who_look_on(tmp_path: Path) -> None:
    """No row, no event, no notification, while a daemon runs outside the room."""
    done = subprocess.run(
        [*unshare(), sys.executable, "-m", "tests.cli.rehearse_beside_a_daemon", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((SOURCES, os.getcwd()))},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "told to nobody"


@needs_a_room
@pytest.mark.parametrize("alive", [True, False])
def test_a_rehearsal_that_goes_on_is_told(stage: DemoStage, alive: bool) -> None:
    """In no list, but here: most of all one that outlived whoever made it."""
    maker = proc.read_process(os.getpid(), proc.boot_id()).identity
    address = maker.address if alive else maker._replace(start=1).address
    program = [sys.executable, "-c", "print('ready', flush=True); input()"]
    room_of_it = subprocess.Popen(
        sandbox.words(program, maker=address), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert room_of_it.stdout is not None
    try:
        assert room_of_it.stdout.readline() == b"ready\n"
        keeper, inside = _below(room_of_it.pid)
        ran = agentctl_of(stage, "doctor", "--json")
        told = [
            f for f in ran.json()["findings"] if f["subject"] == "rehearsal" and address in f["text"]
        ]
        assert [f["level"] for f in told] == ["note" if alive else "wrong"], ran
        assert f"pid {inside.pid} (" in told[0]["text"]
        assert alive or f"kill -9 {keeper.pid}" in told[0]["text"]
        assert alive or ran.code == 1
    finally:
        room_of_it.communicate(b"\n")


def test_live_what_is_not_installed_is_said(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "doctor", "--live", "claude-code")
    assert ran.code == 5
    assert ran.lines[0].startswith("claude-code not checked: claude is not installed")


def test_live_what_cannot_be_rehearsed_is_said(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "doctor", "--live", "demo")
    assert ran.code == 5
    assert ran.lines[0] == "demo not checked: demo: nobody has written down how to rehearse it"


def test_patience_is_for_live(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "doctor", "--patience", "1s")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "agentctl: --patience is for --live")


def _everything(directory: Path) -> dict[str, tuple[object, ...]]:
    """Each file and directory: what it is, when it was changed, what is in it."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(directory.rglob("*")):
        status = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (
            status.st_ino,
            status.st_mode,
            status.st_mtime_ns,
            status.st_ctime_ns,
            content,
        )
    return found


def _below(pid: int) -> list[ProcessIdentity]:
    """Whatever that process has started, by asking each for its children: nobody else is looked at."""
    found: list[ProcessIdentity] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            found += [proc.read_process(int(child), proc.boot_id()).identity, *_below(int(child))]
        except (Gone, FileNotFoundError, ProcessLookupError):  # ended meanwhile
            continue
    return found
