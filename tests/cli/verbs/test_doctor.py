"""`agentctl doctor`: 0 on a clean machine, 1 when something is wrong, and it changes nothing.

`--live` meets a fake Claude Code that talks to the built-in model, in a real sandbox.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.cli.verbs import doctor
from agentctl.errors import Gone, StartFailed
from agentctl.rehearsal import run as runner
from agentctl.rehearsal import sandbox
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from tests.cli import hostile
from tests.fakes.container import unshare
from tests.fakes.demo import DemoStage
from tests.fakes.talking_claude import TalkingStage
from tests.running import SOURCES, agentctl_of, read_until, started
from tests.waiting import DEADLINE, until

REASON = sandbox.find_obstacle(read_only=True)
needs_a_sandbox = pytest.mark.skipif(REASON is not None, reason=f"no sandbox can be made here: {REASON}")
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


def test_a_stale_record_is_reported_and_kept(stage: DemoStage) -> None:
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
    assert "  ok    no settings file: all defaults" in agentctl_of(stage, "doctor").lines
    file = stage.root / "state" / "config.toml"
    file.parent.mkdir(mode=0o700)
    file.write_text("[defaults]\n")
    assert f"  ok    {file}" in agentctl_of(stage, "doctor").lines
    file.write_text("[defaults]\nmodle = 1\n")
    ran = agentctl_of(stage, "doctor")
    assert ran.code == 1
    message = f"{file}:2: no setting 'defaults.modle' (did you mean defaults.model?)"
    assert f"  wrong {message}" in ran.lines


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


HEAD = {"adapter": "codex", "binary": "/bin/codex", "agent_version": "9.9", "measured_on": ["0.1"]}


def step(name: str, state: str = "as expected", **more: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {
        "act": "terminal", "step": name, "state": state, "expected": "idle", "blind": False,
        "told": "idle", "reason": "", "differs": [], "signals": [], "problems": [], "evidence": [],
        "said": [], "seconds": 0.1,
    }  # fmt: skip
    return {**blank, **more}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Play these lines as the rehearsal of every agent."""
    lines: list[dict[str, Any]] = [HEAD]

    def play(*_: object) -> Generator[dict[str, Any], None, None]:
        yield from lines

    monkeypatch.setattr(sandbox, "find_obstacle", lambda **_: None)
    monkeypatch.setattr(runner, "find_agent_program", lambda name, _: f"/bin/{name}")
    monkeypatch.setattr(runner, "rehearse", play)
    return lines


def run_live(*names: str) -> int:
    return doctor.run(doctor.parser().parse_args(["--live", *names]))


def test_live_prints_each_step(lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    lines += [step("start"), step("end", act="headless")]
    assert run_live("codex") == 0
    assert capsys.readouterr().out == (
        "codex 9.9, never measured: compared with 0.1: /bin/codex\n"
        "  at its terminal start       idle     as expected\n"
        "  launched        end         idle     as expected\n"
        "codex as expected: 2 of 2 steps as expected\n"
        "\nnothing drifted\n"
    )


def test_live_prints_each_signal_that_drifted(
    lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"what": "a lock", "state": "missing", "found": None, "address": None}
    changed = {
        "what": "it says idle", "state": "untrusted", "found": "parked\x1b[2J",
        "address": "/tmp/rabc/home/.codex/x",
    }  # fmt: skip
    problem = {"kind": "drift", "message": "says 'parked'", "source": "/x", "adapter": "codex"}
    differs = ["status running, not idle"]
    lines += [step("idle", "drifted", signals=[missing, changed], problems=[problem], differs=differs)]
    assert run_live("codex") == 1
    out = capsys.readouterr().out.splitlines()
    assert out[2:6] == [
        "      status running, not idle",
        "      missing: a lock",
        "      untrusted: it says idle: parked\\x1b[2J (~/.codex/x)",
        "      drift: says 'parked' (/x)",
    ]
    assert out[-1] == "not as expected: codex"


def test_live_prints_the_last_output_before_a_step_that_was_not_reached(
    lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines += [step("start", "not reached", said=["boom"], seconds=30.0)]
    assert run_live("codex") == 1
    out = capsys.readouterr().out
    assert "      waited 30.0 s; its last output:\n      | boom\n" in out
    assert "codex failed: 0 of 1 steps as expected: start (at its terminal) was not reached" in out


def test_live_a_rehearsal_that_breaks_fails(
    lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines[:] = [{"broken": ["no such thing"]}]
    assert run_live("codex") == 1
    assert "codex failed: no such thing" in capsys.readouterr().out


def test_live_prints_where_no_source_says_more(
    lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines += [step("start", blind=True, told="running")]
    assert run_live("codex") == 0
    assert "as expected (agentctl shows running: no source says more)" in capsys.readouterr().out


def test_live_without_a_sandbox_prints_why(
    lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "find_obstacle", lambda **_: "unshare: Operation not permitted")
    assert run_live("codex", "pi") == 5
    assert capsys.readouterr().out == (
        "codex not checked: cannot make a sandbox: unshare: Operation not permitted\n"
        "pi not checked: cannot make a sandbox: unshare: Operation not permitted\n"
        "\ncould not be checked: codex, pi\n"
    )


def test_live_drift_weighs_more_than_an_unchecked_agent(
    lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines += [step("idle", "drifted")]
    monkeypatch.setattr(runner, "find_agent_program", _find_codex)
    assert run_live("codex", "pi") == 1
    assert run_live("pi") == 5


def test_live_without_any_installed_agent_fails(
    lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "find_agent_program", _find_none)
    assert run_live() == 5
    assert capsys.readouterr().out == "\nno installed agent can be rehearsed\n"


def _find_codex(name: str, _: object) -> str:
    return "/bin/codex" if name == "codex" else _find_none(name, _)


def _find_none(name: str, _: object) -> str:
    raise StartFailed(f"{name} is not installed", "looked in /bin")


# --live, with a fake agent in a real sandbox


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[TalkingStage]:
    stage = TalkingStage(tmp_path)
    stage.install()
    yield stage
    stage.close()


def live(stage: TalkingStage, *, fault: str = "", patience: str = "20s") -> tuple[int, dict[str, Any]]:
    stage.fault = fault
    stage.install()
    ran = agentctl_of(stage, "doctor", "--live", "claude-code", "--patience", patience, "--json")
    assert ran.err == "", ran
    (agent,) = ran.json()["agents"]
    return ran.code, agent


@needs_a_sandbox
def test_live_as_expected(claude: TalkingStage) -> None:
    code, agent = live(claude)
    assert code == 0, agent
    assert (agent["state"], agent["agent_version"]) == ("as expected", "2.1.325")
    assert [step["step"] for step in agent["steps"]] == STEPS
    assert [step["told"] for step in agent["steps"][:4]] == ["idle", "running", "waiting", "running"]


@needs_a_sandbox
@pytest.mark.slow
def test_live_a_status_word_that_changed_is_drift(claude: TalkingStage) -> None:
    code, agent = live(claude, fault="renamed", patience="5s")
    assert (code, agent["state"]) == (1, "drifted")
    states = {(step["act"], step["step"]): step["state"] for step in agent["steps"]}
    assert states["terminal", "work"] == states["headless", "work"] == "drifted"
    assert states["terminal", "idle"] == "as expected"
    work = agent["steps"][1]
    assert work["told"] == "running"  # the transcript still shows it
    assert [signal["state"] for signal in work["signals"]] == ["as expected", "untrusted", "as expected"]
    assert [problem["kind"] for problem in work["problems"]] == ["drift"]


@needs_a_sandbox
@pytest.mark.parametrize("fault", ["silent", "deaf"])
@pytest.mark.slow
def test_live_an_agent_that_hangs_is_reported_and_ended(claude: TalkingStage, fault: str) -> None:
    code, agent = live(claude, fault=fault, patience="2s")
    assert (code, agent["state"]) == (1, "failed")
    assert "was not reached" in agent["reason"]
    (lost,) = [step for step in agent["steps"] if step["act"] == "terminal"][-1:]
    assert lost["state"] == "not reached"
    assert bool(lost["said"]) == (fault == "deaf")  # its screen; the silent one has none


@needs_a_sandbox
def test_live_an_agent_that_dies_at_its_start_is_reported_in_its_own_words(
    claude: TalkingStage,
) -> None:
    code, agent = live(claude, fault="dying")
    assert (code, agent["state"]) == (1, "failed")
    terminal, launched = agent["steps"]
    assert terminal["said"] == ["cannot read my settings: out of cheese", "(it has ended, exit code 3)"]
    assert "exit code 3" in launched["said"][0]


@needs_a_sandbox
@pytest.mark.slow
def test_live_no_file_of_the_person_is_touched(claude: TalkingStage) -> None:
    for name in (".claude.json", ".claude/settings.json", ".claude/projects/x/one.jsonl", "notes"):
        path = claude.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"a canary in {name}")
    before = _read_tree(claude.home)
    assert live(claude)[0] == 0
    assert _read_tree(claude.home) == before


@needs_a_sandbox
def test_live_the_agent_gets_no_variable_of_the_person_but_path(claude: TalkingStage) -> None:
    claude.environ |= {"ANTHROPIC_API_KEY": "of the person", "A_SECRET": "of the person"}
    _, agent = live(claude, fault="telling")
    assert len(agent["steps"]) == 2
    for step in agent["steps"]:
        output = "".join(step["said"])
        assert "A_SECRET is None" in output
        assert "ANTHROPIC_API_KEY is none" in output
        assert f"HOME is {claude.home}" not in output
        assert f"PATH is {claude.environ['PATH']}" in output


@needs_a_sandbox
def test_live_ctrl_c_ends_all_that_was_started(claude: TalkingStage) -> None:
    claude.fault = "silent"
    claude.install()
    with started(claude, "doctor", "--live", "claude-code") as child:
        read_until(child, b"claude-code 2.1.325")
        until(
            lambda: len(_list_descendants(child.pid)) >= 4,
            "the sandbox, its first process, the walk, the agent",
        )
        handles = [Handle(identity) for identity in _list_descendants(child.pid)]
        child.send_signal(signal.SIGINT)
        assert child.wait(DEADLINE) == 130
        assert child.stderr is not None
        assert child.stderr.read() == b""
    for handle in handles:
        assert handle.wait(DEADLINE), f"{handle.identity.address} goes on"
        handle.close()


@needs_a_sandbox
@pytest.mark.slow
def test_live_is_not_reported_by_a_daemon_outside(tmp_path: Path) -> None:
    """No row, no event and no notification, while a daemon runs outside the sandbox."""
    child = subprocess.run(
        [*unshare(), sys.executable, "-m", "tests.cli.rehearse_beside_a_daemon", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((SOURCES, os.getcwd()))},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[-1] == "the rehearsal stayed private"


@needs_a_sandbox
@pytest.mark.parametrize("alive", [True, False])
def test_a_rehearsal_that_goes_on_is_reported(stage: DemoStage, alive: bool) -> None:
    """Only doctor lists rehearsals. One that outlived its maker is wrong."""
    maker = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    address = maker.address if alive else maker._replace(start=1).address
    program = [sys.executable, "-c", "print('ready', flush=True); input()"]
    rehearsal = subprocess.Popen(
        sandbox.command_line(program, maker=address), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert rehearsal.stdout is not None
    try:
        assert rehearsal.stdout.readline() == b"ready\n"
        keeper, inside = _list_descendants(rehearsal.pid)
        ran = agentctl_of(stage, "doctor", "--json")
        findings = [
            f for f in ran.json()["findings"] if f["subject"] == "rehearsal" and address in f["text"]
        ]
        assert [f["level"] for f in findings] == ["note" if alive else "wrong"], ran
        assert f"pid {inside.pid} (" in findings[0]["text"]
        assert alive or f"kill -9 {keeper.pid}" in findings[0]["text"]
        assert alive or ran.code == 1
    finally:
        rehearsal.communicate(b"\n")


def test_live_an_agent_that_is_not_installed_is_reported(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "doctor", "--live", "claude-code")
    assert ran.code == 5
    assert ran.lines[0].startswith("claude-code not checked: claude is not installed")


def test_live_an_agent_without_a_recipe_is_reported(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "doctor", "--live", "demo")
    assert ran.code == 5
    assert ran.lines[0] == "demo not checked: demo: there is no recipe to rehearse it"


def test_patience_is_for_live(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "doctor", "--patience", "1s")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "agentctl: --patience needs --live")


def _read_tree(directory: Path) -> dict[str, tuple[object, ...]]:
    """Return the kind, times and content of each file and directory."""
    files: dict[str, tuple[object, ...]] = {}
    for path in sorted(directory.rglob("*")):
        status = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        files[str(path)] = (
            status.st_ino,
            status.st_mode,
            status.st_mtime_ns,
            status.st_ctime_ns,
            content,
        )
    return files


def _list_descendants(pid: int) -> list[ProcessIdentity]:
    """Return all that a process has started. Only lists of children are read, no other process."""
    identities: list[ProcessIdentity] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            identities += [
                proc.read_process(int(child), proc.read_boot_id()).identity,
                *_list_descendants(int(child)),
            ]
        except (Gone, FileNotFoundError, ProcessLookupError):  # ended meanwhile
            continue
    return identities
