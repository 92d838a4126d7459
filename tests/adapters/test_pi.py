"""Pi's adapter keeps the contract, and finds which process runs which session though Pi hides it."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.pi import beside, binding
from agentctl.adapters.pi.adapter import Pi
from agentctl.adapters.pi.header_time import Birth, are_kin, read_sequence
from agentctl.adapters.pi.places import find_directory, slug
from agentctl.adapters.pi.transcript import read_facts, to_messages
from agentctl.adapters.registry import find_adapters
from agentctl.system import clock, files, proc
from agentctl.system.proc import Process
from agentctl.testing import AdapterContract, Puppet
from agentctl.truth.look import Look
from agentctl.truth.model import Facts, Session, Tokens
from agentctl.truth.survey import HistoryQuery, survey
from tests.fakes.container import unshare
from tests.fakes.pi import PiStage
from tests.sitting import sitting
from tests.waiting import until

CORPUS = Path(__file__).parent.parent / "corpus" / "pi"
OLD = {"PUPPET_PI": "0.73"}
WORDS = st.sampled_from(
    ["role", "content", "text", "type", "usage", "cost", "total", "input", "stopReason", "arguments"]
)
VISIBLE = {"PUPPET_PI": "visible"}


STAGE = PiStage


class TestPi(AdapterContract):
    pass


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Seconds by which a puppet seems older than it is, so that no test waits for a window to close."""
    shifts: dict[int, float] = {}
    real = Look.find_start_time

    def started_at(self: Look, process: Process) -> float:
        return real(self, process) - shifts.get(process.pid, 0.0)

    monkeypatch.setattr(Look, "find_start_time", started_at)
    return shifts


def start_agent(stage: PiStage, *steps: str, traits: str = "", cwd: Path | None = None) -> Puppet:
    puppet = stage.start(cwd, environ={"PUPPET_PI": traits})
    for step in steps:
        puppet.do(step)
    return puppet


def start_long_ago(stage: PiStage, earlier: dict[int, float], *steps: str, traits: str = "") -> Puppet:
    puppet = stage.start(environ={"PUPPET_PI": traits, "PUPPET_CLOCK": "-60"})
    earlier[puppet.pid] = 60.0
    for step in steps:
        puppet.do(step)
    return puppet


def prompt_and_kill(stage: PiStage, puppet: Puppet) -> None:
    """A process resumes the session, is prompted, and is killed."""
    again = stage.start(resume=puppet.session_id)
    again.do("work")
    again.kill()


def start_at_once(stage: PiStage, earlier: dict[int, float]) -> tuple[Puppet, Puppet]:
    """Two that began, as far as anyone can tell, at the same moment."""
    one, two = start_agent(stage, "work"), start_agent(stage, "work")
    later = _made_at(stage.records(two)[0]) - _made_at(stage.records(one)[0])
    earlier[one.pid] = -later
    _rewrite_born(stage.records(one)[0], later)
    return one, two


def row(stage: PiStage, puppet: Puppet) -> Session:
    session = stage.find_row(puppet)
    assert session is not None
    return session


def activity_of(session: Session) -> tuple[str, str]:
    return session.verdict.status, session.verdict.activity


def status(stage: PiStage, session_id: str | None) -> str:
    return stage.session(session_id or "").verdict.status


def method(session: Session) -> str:
    alive = next(e for e in session.verdict.used if e.claim == "alive")
    return alive.note.removeprefix("bound by ").partition(":")[0]


# whose process it is


def is_owned(stage: PiStage, *, traits: str = "visible") -> bool:
    puppet = start_agent(stage, traits=traits)
    return Pi().owns(proc.read_process(puppet.pid, proc.read_boot_id()))


def test_a_renamed_process_is_pi_though_its_arguments_are_gone(stage: PiStage) -> None:
    puppet = start_agent(stage, "work")
    process = proc.read_process(puppet.pid, proc.read_boot_id())
    assert (process.comm, process.argv) == ("pi", ("pi",))
    assert (process.exe or "").endswith("/node")
    session = row(stage, puppet)
    assert session.observation.session_id == puppet.session_id
    assert method(session) == "inferred"


def test_before_it_renames_itself_its_script_identifies_it(stage: PiStage) -> None:
    assert is_owned(stage)
    stage.script = ("lib", "pi-coding-agent", "dist", "cli.js")
    assert is_owned(stage)


@pytest.mark.few(1)
@pytest.mark.parametrize("binary", ["pi", "pi-rust", "pi_agent_rust"])
def test_the_rust_port_is_a_binary_of_its_own(stage: PiStage, binary: str) -> None:
    stage.runtime = ("bin", binary)
    assert is_owned(stage)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("runtime", "script"),
    [
        ("pip", "pi"),
        ("python3", "pi"),
        ("bash", "pi"),
        ("node", "server.js"),
        ("node", "pip"),
        ("bun", "api"),
    ],
)
def test_strangers(stage: PiStage, runtime: str, script: str) -> None:
    stage.runtime, stage.script = ("bin", runtime), ("srv", script)
    assert not is_owned(stage)


def test_a_script_called_pi_that_is_run_by_python_is_a_stranger(stage: PiStage) -> None:
    stage.runtime = ("bin", "python3")
    assert not is_owned(stage, traits="")  # its comm is pi all the same


# when the file appears


def test_until_its_first_answer_an_old_pi_has_no_session(stage: PiStage) -> None:
    puppet = start_agent(stage, "work", traits="0.73")
    session = row(stage, puppet)
    assert session.observation.session_id is None
    assert (session.verdict.status, session.verdict.activity) == ("running", "unknown")
    puppet.do("rest")
    session = row(stage, puppet)
    assert session.observation.session_id == puppet.session_id
    assert session.verdict.status == "idle"
    puppet.do("work")
    assert row(stage, puppet).verdict.activity == "working"


def test_until_its_first_prompt_a_new_pi_has_no_session(stage: PiStage) -> None:
    puppet = start_agent(stage)
    assert row(stage, puppet).observation.session_id is None
    puppet.do("work")
    assert row(stage, puppet).observation.session_id == puppet.session_id


# several in one directory


def test_each_is_bound_by_the_time_in_its_header(stage: PiStage, earlier: dict[int, float]) -> None:
    one = start_long_ago(stage, earlier, "work", "rest")
    two = start_agent(stage, "work")
    assert row(stage, one).observation.session_id == one.session_id
    assert row(stage, one).verdict.status == "idle"
    assert row(stage, two).observation.session_id == two.session_id
    assert row(stage, two).verdict.activity == "working"
    two.kill()
    assert status(stage, one.session_id) == "idle"
    assert status(stage, two.session_id) == "stopped"


def test_no_process_has_moved_to_a_session_that_another_one_runs(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    one = start_long_ago(stage, earlier, "work", "rest", traits="0.73")
    two = start_agent(stage, "work", "rest", traits="0.73")
    assert row(stage, one).observation.session_id == one.session_id
    assert row(stage, two).observation.session_id == two.session_id


def test_two_started_at_once_are_unknown(stage: PiStage, earlier: dict[int, float]) -> None:
    one, two = start_at_once(stage, earlier)
    verdict = stage.session(two.session_id or "").verdict
    assert verdict.status == "unknown"
    assert f"pid {one.pid}" in verdict.reason
    assert f"pid {two.pid}" in verdict.reason
    assert status(stage, one.session_id) == "unknown"
    for puppet in (one, two):
        assert row(stage, puppet).verdict.status == "running"


def test_two_started_one_after_the_other_are_told_apart_by_their_pools(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    """One begins 2 s before the other: in the same window, each with its pool right after its header."""
    one = stage.start(environ={"PUPPET_CLOCK": "-2"})
    earlier[one.pid] = 2.0
    one.do("work")
    two = start_agent(stage, "work", "rest")
    assert row(stage, one).observation.session_id == one.session_id
    assert row(stage, two).observation.session_id == two.session_id
    two.finish()
    assert status(stage, one.session_id) == "running"
    assert status(stage, two.session_id) == "stopped"


def test_old_ones_started_one_after_the_other_are_unknown(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    one = stage.start(environ={"PUPPET_CLOCK": "-2", **OLD})
    earlier[one.pid] = 2.0
    for step in ("work", "rest"):
        one.do(step)
    two = start_agent(stage, "work", "rest", traits="0.73")
    assert status(stage, one.session_id) == "unknown"
    assert status(stage, two.session_id) == "unknown"


def test_a_session_of_a_killed_process_is_not_bound_to_a_silent_one(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    """It began in the window of one that sits at its prompt, and nowhere near the start of its pool."""
    silent = stage.start(environ={"PUPPET_CLOCK": "-2"})
    earlier[silent.pid] = 2.0
    killed = start_agent(stage, "work")
    killed.kill()
    assert row(stage, silent).observation.session_id is None
    assert status(stage, killed.session_id) == "unknown"  # it may have been resumed there


def test_a_slow_start_is_near_its_pool() -> None:
    """On a loaded machine: the pool decides, whenever the process began."""
    late = Birth(start=100.0, pool=130.0, on_node=True)
    assert late.is_near_pool(129.8)
    assert not late.is_near_pool(128.0)
    assert not late.is_near_pool(130.2)
    assert not late.is_in_window(129.8)


def test_directories_that_share_a_name_are_told_apart_by_the_header(stage: PiStage) -> None:
    one = start_agent(stage, "work", cwd=stage.work / "a-b")
    two = start_agent(stage, "work", cwd=stage.work / "a" / "b")
    assert slug(one.cwd) == slug(two.cwd)
    assert row(stage, one).observation.session_id == one.session_id
    assert row(stage, two).observation.session_id == two.session_id


def test_a_finished_run_leaves_the_idle_one_beside_it_alone(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    idle = start_long_ago(stage, earlier, "work", "rest")
    run = start_agent(stage, "work", "rest")
    run.finish()
    assert row(stage, idle).observation.session_id == idle.session_id
    assert status(stage, idle.session_id) == "idle"
    verdict = stage.session(run.session_id or "").verdict
    assert (verdict.status, verdict.outcome) == ("stopped", "completed")


def test_a_finished_run_is_not_bound_to_a_silent_one(stage: PiStage, earlier: dict[int, float]) -> None:
    silent = start_long_ago(stage, earlier)
    run = start_agent(stage, "work", "rest")
    run.finish()
    assert row(stage, silent).observation.session_id is None
    verdict = stage.session(run.session_id or "").verdict
    assert verdict.status == "unknown"  # it may have been resumed there
    assert f"pid {silent.pid}" in verdict.reason


# a command's environment


def test_a_command_names_the_session_exactly(stage: PiStage, earlier: dict[int, float]) -> None:
    one, two = start_at_once(stage, earlier)
    one.do("tool")
    assert method(row(stage, one)) == "child's environment"
    assert row(stage, one).observation.session_id == one.session_id
    assert row(stage, one).verdict.activity == "working"
    assert row(stage, two).observation.session_id == two.session_id  # the only one left for it
    one.do("result")
    assert status(stage, one.session_id) == "unknown"  # and the sign is gone with the command


def test_a_command_names_a_resumed_session(stage: PiStage) -> None:
    first, second = (start_agent(stage, "work", "rest") for _ in range(2))
    for puppet in (first, second):
        puppet.finish()
    again = stage.start(resume=first.session_id)
    again.do("work")
    prompt_and_kill(stage, second)
    assert status(stage, first.session_id) == "unknown"
    again.do("tool")
    session = row(stage, again)
    assert (session.observation.session_id, method(session)) == (first.session_id, "child's environment")
    assert status(stage, second.session_id) == "stopped"


def test_a_silent_one_may_have_any_session_of_its_directory_open(stage: PiStage) -> None:
    """`pi --session ID` at its prompt: nothing tells before its first prompt that it is no new one."""
    first, elsewhere = (
        start_agent(stage, "work", "rest"),
        start_agent(stage, "work", "rest", cwd=stage.root / "b"),
    )
    for puppet in (first, elsewhere):
        puppet.finish()
        (path,) = stage.records(puppet)
        os.utime(path, (0, path.stat().st_mtime - 60))  # long before the next one began
    again = stage.start(resume=first.session_id)
    verdict = stage.session(first.session_id or "").verdict
    assert verdict.status == "unknown"
    assert f"pid {again.pid}" in verdict.reason
    assert status(stage, elsewhere.session_id) == "stopped"
    again.do("work")
    assert status(stage, first.session_id) == "running"
    again.kill()
    assert status(stage, first.session_id) == "stopped"


def test_an_inherited_id_is_not_its_own(stage: PiStage) -> None:
    puppet = stage.start(environ={**OLD, "PI_SESSION_ID": "outer"})
    puppet.do("work")
    puppet.do("tool")  # its command inherits "outer", because 0.73 sets nothing
    assert row(stage, puppet).observation.session_id == puppet.session_id


def test_a_pi_below_another_owns_its_own_session(stage: PiStage) -> None:
    outer = start_agent(stage, "work", "subagent")
    sessions = {s.observation.session_id: s for s in stage.survey().sessions}
    mine = sessions.pop(outer.session_id)
    assert mine.observation.owner is not None
    assert mine.observation.owner.pid == outer.pid
    (inner,) = sessions.values()
    assert inner.observation.owner is not None
    assert inner.observation.owner.parent == outer.pid
    assert method(inner) == "child's environment"
    outer.do("result")


# arguments


def test_a_chosen_id_is_seen_before_there_is_a_file(stage: PiStage) -> None:
    stage.arguments = ["-p", "--session-id", "chosen-1", "a prompt"]
    puppet = stage.start(environ=VISIBLE)
    session = row(stage, puppet)
    assert (session.observation.session_id, method(session)) == ("chosen-1", "argument")
    assert (session.verdict.status, session.verdict.activity) == ("running", "unknown")
    assert session.observation.facts.entry_point == "headless"
    puppet.do("work")
    assert row(stage, puppet).verdict.activity == "working"


@pytest.mark.few(2)
@pytest.mark.parametrize("how", ["id", "prefix", "path"])
def test_a_session_named_by_argument(stage: PiStage, how: str) -> None:
    first = start_agent(stage, "work", "rest")
    first.finish()
    session_id = first.session_id or ""
    values = {"id": session_id, "prefix": session_id[:20], "path": str(stage.records(first)[0])}
    stage.arguments = ["--session", values[how]]
    puppet = stage.start(resume=session_id, environ=VISIBLE)
    session = row(stage, puppet)
    assert (session.observation.session_id, method(session)) == (session_id, "argument")
    assert session.verdict.status == "idle"


def test_a_turn_of_a_killed_process_is_not_open_after_a_resume(stage: PiStage) -> None:
    killed = start_agent(stage, "work")
    session_id = killed.session_id or ""
    killed.kill()
    (path,) = stage.records(killed)
    path.write_text(path.read_text().replace('"timestamp":"20', '"timestamp":"19'))  # long ago
    stage.arguments = ["--session", str(path)]
    puppet = stage.start(resume=session_id, environ=VISIBLE)
    verdict = row(stage, puppet).verdict
    assert (verdict.status, verdict.activity) == ("running", "unknown")
    assert [e.trusted for e in verdict.overruled if e.claim == "working"] == [False]
    puppet.do("work")
    assert row(stage, puppet).verdict.activity == "working"


# moving on


def test_new_makes_a_second_session_in_the_same_process(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    puppet = start_long_ago(stage, earlier, "work", "rest")
    first = puppet.session_id
    puppet.do("new")
    puppet.do("work")
    second = puppet.session_id
    assert first != second
    assert row(stage, puppet).observation.session_id == second
    assert row(stage, puppet).verdict.activity == "working"
    assert status(stage, first) == "stopped"
    puppet.do(f"resume {next(p.name for p in stage.files() if (first or '') in p.name)}")
    puppet.do("work")
    assert row(stage, puppet).observation.session_id == first
    assert status(stage, first) == "running"


def test_a_new_session_after_a_while_is_bound_by_its_number(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    """Born outside the window, and no other process could have counted on from there."""
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    path = stage.records(puppet)[0]
    _rewrite_born(path, -60.0)
    earlier[puppet.pid] = 60.0
    puppet.do("new")
    puppet.do("work")
    puppet.do("rest")
    assert row(stage, puppet).observation.session_id == puppet.session_id
    assert row(stage, puppet).verdict.status == "idle"


def test_a_new_session_in_an_old_version_is_unknown(stage: PiStage, earlier: dict[int, float]) -> None:
    puppet = stage.start(environ=OLD)
    puppet.do("work")
    puppet.do("rest")
    first = puppet.session_id
    _rewrite_born(stage.records(puppet)[0], -60.0)
    earlier[puppet.pid] = 60.0
    puppet.do("new")
    puppet.do("work")
    puppet.do("rest")
    for session in (first, puppet.session_id):
        verdict = stage.session(session or "").verdict
        assert verdict.status == "unknown"
        assert f"pid {puppet.pid}" in verdict.reason
    assert row(stage, puppet).verdict.status == "running"


def test_a_process_in_a_turn_has_not_moved(stage: PiStage, earlier: dict[int, float]) -> None:
    other = start_agent(stage, "work", "rest")
    other.finish()
    puppet = start_long_ago(stage, earlier, "work")
    _rewrite_born(stage.records(other)[0], -600.0)
    assert row(stage, puppet).observation.session_id == puppet.session_id
    puppet.do("rest")
    _touch_later(stage, other.session_id)
    assert status(stage, puppet.session_id) == "unknown"  # now it may have resumed the other


def test_a_resumed_session_with_two_candidates_is_unknown(stage: PiStage) -> None:
    first, second = (start_agent(stage, "work", "rest") for _ in range(2))
    for puppet in (first, second):
        puppet.finish()
    again = stage.start(resume=first.session_id)
    again.do("work")
    assert row(stage, again).observation.session_id == first.session_id
    assert method(row(stage, again)) == "inferred"
    prompt_and_kill(stage, second)
    assert status(stage, first.session_id) == "unknown"
    assert status(stage, second.session_id) == "unknown"
    assert row(stage, again).observation.session_id is None


def test_a_session_prompted_before_a_silent_one_began_is_not_bound_to_it(stage: PiStage) -> None:
    """It was prompted before the silent one began, got its answer since, and ended."""
    other = start_agent(stage, "work")
    silent = stage.start()
    other.do("rest")
    other.finish()
    assert row(stage, silent).observation.session_id is None
    verdict = stage.session(other.session_id or "").verdict
    assert verdict.status == "unknown"
    assert f"pid {silent.pid}" in verdict.reason


def test_an_old_process_without_a_terminal_did_not_send_a_new_prompt(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    """A process at its prompt for a minute, without a terminal, cannot have sent this prompt."""
    first = start_agent(stage, "work", "rest")
    first.finish()
    _rewrite_born(stage.records(first)[0], -600.0)
    silent = stage.start()
    earlier[silent.pid] = 60.0
    prompt_and_kill(stage, first)
    assert row(stage, silent).observation.session_id is None
    assert status(stage, first.session_id) == "unknown"
    earlier[silent.pid] = 0.0
    assert row(stage, silent).observation.session_id == first.session_id


def _made_at(path: Path) -> float:
    made_at = clock.parse_time(json.loads(path.read_text().partition("\n")[0])["timestamp"])
    assert made_at is not None
    return made_at


def _rewrite_born(path: Path, seconds: float) -> None:
    """As if the session had been start_agent that much later."""
    lines = path.read_text().splitlines(keepends=True)
    header = json.loads(lines[0])
    header["timestamp"] = clock.format_rfc3339((clock.parse_time(header["timestamp"]) or 0.0) + seconds)
    stamp = header["timestamp"].replace(":", "-").replace(".", "-")
    lines[0] = json.dumps(header, separators=(",", ":")) + "\n"
    path.unlink()
    path.with_name(f"{stamp}_{header['id']}.jsonl").write_text("".join(lines))


def _touch_later(stage: PiStage, session_id: str | None) -> None:
    newest = max(path.stat().st_mtime for path in stage.files())
    (path,) = (p for p in stage.files() if (session_id or "") in p.name)
    os.utime(path, (newest + 0.01, newest + 0.01))


# what the last message says


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["tool"], ("running", "working")),
        (["tool", "result"], ("running", "working")),
        (["abort"], ("idle", "idle")),
        (["word length"], ("idle", "idle")),
        (["rest", "label", "name Shed"], ("idle", "idle")),
        (["rest", "bang"], ("idle", "idle")),
        (["fail"], ("idle", "idle")),
        (["retry"], ("running", "unknown")),
        (["retry", "rest"], ("idle", "idle")),
    ],
)
def test_status_by_the_last_message(stage: PiStage, steps: list[str], expected: tuple[str, str]) -> None:
    puppet = start_agent(stage, "work", *steps)
    until(lambda: activity_of(row(stage, puppet)) == expected, f"it is {expected}")
    assert stage.survey().problems == []


def test_a_failure_is_not_believed_in_its_first_second(stage: PiStage) -> None:
    """1.x writes a moment later that it tries again."""
    puppet = start_agent(stage, "work", "fail")
    look = Look.take(stage.environ)
    failed_at = max(path.stat().st_mtime for path in stage.files())
    for later, expected in ((0.5, ("running", "unknown")), (1.5, ("idle", "idle"))):
        look.now = failed_at + later
        (session,) = survey(look, find_adapters(["pi"]), deadline=20.0).sessions
        assert activity_of(session) == expected
    assert session.observation.owner is not None
    assert session.observation.owner.pid == puppet.pid


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("steps", "outcome"),
    [
        (["rest"], "completed"),
        (["abort"], "interrupted"),
        (["fail"], "failed"),
        (["retry"], "failed"),
        (["tool"], "killed"),
        ([], "killed"),
    ],
)
def test_outcome_by_the_last_message(stage: PiStage, steps: list[str], outcome: str) -> None:
    puppet = start_agent(stage, "work", *steps)
    session = puppet.session_id
    puppet.kill()
    verdict = stage.session(session or "").verdict
    assert (verdict.status, verdict.outcome) == ("stopped", outcome)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["fail"], ("idle", "idle")),  # a 400: the request is at fault
        (["retry"], ("running", "unknown")),  # the file is the same after the last try
        (["retry", "rest"], ("idle", "idle")),
    ],
)
def test_an_old_one_retries_without_a_mark(
    stage: PiStage, steps: list[str], expected: tuple[str, str]
) -> None:
    puppet = start_agent(stage, "work", "rest", "work", *steps, traits="0.73")
    until(lambda: activity_of(row(stage, puppet)) == expected, f"it is {expected}")


@pytest.mark.parametrize("traits", ["", "0.73"])
def test_a_retry_is_shown_and_not_believed(stage: PiStage, traits: str) -> None:
    puppet = start_agent(stage, "work", "retry", traits=traits)
    (doubtful,) = (e for e in row(stage, puppet).verdict.overruled if e.claim == "idle")
    assert not doubtful.trusted
    assert "retr" in doubtful.note


def test_a_command_outside_a_turn_is_work(stage: PiStage) -> None:
    puppet = start_agent(stage, "work", "rest", "server")
    assert activity_of(row(stage, puppet)) == ("idle", "idle"), "what an extension keeps is no work"
    puppet.do("command")
    assert activity_of(row(stage, puppet)) == ("running", "working")
    (used,) = [e for e in row(stage, puppet).verdict.used if e.claim == "working"]
    assert "outside a turn: cat" in used.note


def test_a_command_right_after_a_turn_is_work(stage: PiStage) -> None:
    """By the clock of its file the turn ended in the tick in which the command began."""
    puppet = start_agent(stage, "work", "rest", "command")
    look = Look.take(stage.environ).scope_to("pi")
    (process,) = (p for p in look.table.values() if p.pid == puppet.pid)
    (child,) = look.find_children(process)
    facts = Facts(last_activity_at=look.find_start_time(child) + 0.009)
    used = beside.find_work(process, facts, look)
    assert used is not None
    assert used.address == child.identity.address


@pytest.mark.parametrize(
    ("typed", "drawn", "connected", "note"),
    [
        (-60, -60, False, None),  # long ago
        (-60, -60, True, None),  # a connection that is kept open
        (0, 0, False, None),  # the user types
        (-60, 0, False, "without any input"),  # a spinner
        (0, 0, True, "a connection is open"),  # /compact: the model is asked
    ],
)
def test_its_terminal_shows_work_outside_a_turn(
    typed: float, drawn: float, connected: bool, note: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Look.take({}).scope_to("pi")
    monkeypatch.setattr(beside, "is_connected", lambda _: connected)
    with sitting() as one:
        os.utime(one.terminal, (look.now + typed, look.now + drawn))
        process = proc.read_process(one.identity.pid, proc.read_boot_id())
        work = beside.find_work(process, Facts(last_activity_at=look.now - 30), look)
    assert (work is not None and not work.trusted and note in work.note) if note else work is None


def test_its_terminal_shows_nothing_right_after_a_turn() -> None:
    look = Look.take({}).scope_to("pi")
    with sitting() as one:
        os.utime(one.terminal, (look.now - 60, look.now))
        process = proc.read_process(one.identity.pid, proc.read_boot_id())
        assert beside.find_work(process, Facts(last_activity_at=look.now - 0.5), look) is None


@pytest.mark.parametrize("steps", [("work",), ("work", "rest")])
def test_a_line_that_stays_torn_leaves_it_unknown(stage: PiStage, steps: tuple[str, ...]) -> None:
    puppet = start_agent(stage, *steps)
    (path,) = stage.files()
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"ab')
    assert activity_of(row(stage, puppet)) == ("running", "unknown")
    os.utime(path, (0, time.time() - 60))
    assert "its last line is not complete" in {p.message for p in stage.survey().problems}


def test_an_unknown_stop_reason_is_drift(stage: PiStage) -> None:
    puppet = start_agent(stage, "work", "word parked")
    verdict = row(stage, puppet).verdict
    assert (verdict.status, verdict.activity) == ("running", "unknown")
    (problem,) = stage.survey().problems
    assert problem.kind == "drift"
    assert "parked" in problem.message


def test_an_unknown_format_is_drift(stage: PiStage) -> None:
    puppet = start_agent(stage, "work")
    (path,) = stage.records(puppet)
    path.write_text(path.read_text().replace('"version":3', '"version":4', 1))
    assert row(stage, puppet).verdict.activity == "unknown"
    assert [problem.kind for problem in stage.survey().problems] == ["drift"]


# where the files are


def test_the_directories_of_the_observed_process_are_honoured(stage: PiStage) -> None:
    flat = str(stage.root / "flat")
    one = stage.start(environ={"PI_CODING_AGENT_DIR": str(stage.root / "elsewhere")})
    two = stage.start(stage.root / "two", environ={"PI_CODING_AGENT_SESSION_DIR": flat})
    for puppet in (one, two):
        puppet.do("work")
        assert row(stage, puppet).observation.session_id == puppet.session_id


def test_a_flat_directory_holds_sessions_of_several_directories(stage: PiStage) -> None:
    flat = {"PI_CODING_AGENT_SESSION_DIR": str(stage.root / "flat")}
    one, two = (stage.start(stage.root / name, environ=flat) for name in "ab")
    for puppet in (one, two):
        puppet.do("work")
    for puppet in (one, two):
        assert row(stage, puppet).observation.session_id == puppet.session_id
    one.do("rest")
    one.finish()
    stage.environ.update(flat)
    assert status(stage, one.session_id) == "stopped"


def test_a_configured_directory_is_honoured(stage: PiStage) -> None:
    settings = stage.home / ".pi" / "agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"sessionDir": "~/kept"}')
    folder = str(stage.home / "kept")
    puppet = stage.start(environ={"PI_CODING_AGENT_SESSION_DIR": folder})  # where the fake puts it
    puppet.do("work")
    puppet.do("rest")
    puppet.finish()
    assert status(stage, puppet.session_id) == "stopped"


def test_a_directory_configured_in_a_container(stage: PiStage) -> None:
    """By the settings in its own home, not by those at the same path outside."""
    settings = stage.home / ".pi" / "agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"sessionDir": "~/ours"}')
    script = (
        f"mount -t tmpfs none {stage.home}; mkdir -p {settings.parent} {stage.home}/theirs\n"
        f"""echo '{{"sessionDir": "~/theirs"}}' > {settings}; echo ready; exec cat"""
    )
    inside = subprocess.Popen(
        [*unshare(pids=False), "sh", "-ec", script],
        env=stage.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert inside.stdout is not None
        assert inside.stdout.readline() == b"ready\n"
        look = Look.take(stage.environ).scope_to("pi")
        process = proc.read_process(inside.pid, proc.read_boot_id())
        assert find_directory(process, look) == f"/proc/{inside.pid}/root{stage.home}/theirs"
    finally:
        inside.communicate()


def test_the_rust_port_has_its_own_variable(stage: PiStage) -> None:
    stage.runtime = ("bin", "pi")
    stage.environ["PI_SESSIONS_DIR"] = str(stage.root / "rust")
    puppet = start_agent(stage, "work", traits="visible")
    assert row(stage, puppet).observation.session_id == puppet.session_id
    folder = stage.records_in(stage.root / "rust")[0].parent
    (folder / "session-index.sqlite").write_bytes(b"SQLite format 3\0")
    (folder / f"{puppet.session_id}.v2").mkdir()
    (folder / f"{stage.records_in(folder.parent)[0].name}.blobs").mkdir()
    puppet.do("rest")
    puppet.finish()
    result = stage.survey(HistoryQuery())
    assert [s.observation.session_id for s in result.sessions] == [puppet.session_id]
    assert result.problems == []


def test_a_long_history_is_not_opened(stage: PiStage, monkeypatch: pytest.MonkeyPatch) -> None:
    puppet = start_agent(stage, "work")
    (path,) = stage.records(puppet)
    for number in range(100):
        name = f"2026-01-01T00-00-00-{number:03d}Z_01a1ddb8-18e5-77e6-b0da-{number:012d}.jsonl"
        shutil.copy(path, path.with_name(name))
        os.utime(path.with_name(name), (0, 0))
    opened: list[str] = []
    real = files._open

    def counting(name: str) -> int:
        opened.append(name)
        return real(name)

    monkeypatch.setattr(files, "_open", counting)
    assert row(stage, puppet).verdict.activity == "working"
    puppet.do("rest")
    assert row(stage, puppet).verdict.status == "idle"
    assert {name for name in opened if name.endswith(".jsonl")} == {str(path)}


def test_a_long_transcript_is_read_at_both_ends(stage: PiStage) -> None:
    puppet = stage.start(prompt="paint the shed")
    puppet.do("work")
    (path,) = stage.records(puppet)
    noise = {"type": "message", "id": "0", "parentId": None, "timestamp": "2026-11-15T05:40:00.000Z"}
    block = [{"type": "text", "text": "x" * 50_000}]
    message = {"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": block}
    with path.open("a") as file:
        for _ in range(40):
            file.write(json.dumps({**noise, "message": message}, separators=(",", ":")) + "\n")
    puppet.do("rest")
    facts = row(stage, puppet).observation.facts
    assert (facts.prompt, facts.model) == ("paint the shed", "fake-1")
    assert facts.tokens is None  # a part is not a total
    assert facts.turn is not None
    assert facts.turn.claim == "idle"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["user", "error", "2026"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
RECORDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["session", "message", "usage", "session_info", "context_edit"]) | ANY},
    optional={"message": st.dictionaries(WORDS, ANY, max_size=5) | ANY, "usage": ANY, "id": ANY,
              "name": ANY, "timestamp": ANY, "version": ANY, "parentSession": ANY, "targetId": ANY},
)  # fmt: skip


@given(st.lists(RECORDS, max_size=6))
def test_any_record_is_read(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    read_facts(str(path), Look({}, {}, 0.0))
    for record in records:
        list(to_messages(0, record))


# ids


def test_ids_of_one_process_are_kin() -> None:
    assert are_kin("01a1de2f-5b58-71b2-9d47-5296570d7513", "01a1de2f-9865-71b2-9d47-5298043ff2b5")
    assert not are_kin("01a1de2f-5e56-73a8-89e5-bea8cd2d0cc7", "01a1de2f-9865-758f-b972-8a064ca01c3d")
    assert not are_kin("agentctl-0001", "agentctl-0002")
    assert read_sequence("1b4e28ba-2fa1-41d2-883f-0016d3cca427") is None  # a UUIDv4 has no number


# native files


CASES = [
    ("0.73.1/2026-11-15T05-40-08-720Z", "completed", "hello", Tokens(4265, 21, 9, 0)),
    ("0.73.1/2026-11-15T05-40-09-973Z", "completed", "[[tool=bash:echo hi]]", Tokens(2851, 14, 6, 0)),
    ("0.73.1/2026-11-15T05-40-11-282Z", "failed", "[[error=400]]", Tokens(0, 0, 0, 0)),
    ("0.73.1/2026-11-15T05-40-17-500Z", "killed", None, None),
    ("1.5.0/2026-11-15T05-39-52-166Z", "completed", "hello", Tokens(4045, 21, 9, 0)),
    ("1.5.0/2026-11-15T05-39-53-136Z", "failed", "[[error=400]]", Tokens(0, 0, 0, 0)),
    ("1.5.0/2026-11-15T05-39-53-509Z", "completed", "[[error=500x1]] retry", None),
    ("1.5.0/2026-11-15T05-40-02-522Z", "killed", "[[sleep=40]] killed in first turn", None),
    ("1.5.0/2026-11-15T05-40-27-965Z", "interrupted", "[[sleep=20]] esc", None),
]


@pytest.fixture
def archive(stage: PiStage) -> PiStage:
    folder = stage.home / ".pi" / "agent" / "sessions" / "--home-user-sample--"
    folder.mkdir(parents=True)
    for path in CORPUS.glob("*/*.jsonl"):
        shutil.copy(path, folder)
    return stage


def _native(stage: PiStage, name: str) -> Session:
    (path,) = CORPUS.glob(f"{name}*.jsonl")
    return stage.session(path.stem.partition("_")[2])


@pytest.mark.parametrize(("name", "outcome", "prompt", "tokens"), CASES)
def test_native_files(
    archive: PiStage, name: str, outcome: str, prompt: str | None, tokens: Tokens | None
) -> None:
    session = _native(archive, name)
    facts = session.observation.facts
    assert (session.verdict.status, session.verdict.outcome) == ("stopped", outcome)
    assert facts.cwd == "/home/user/sample"
    assert facts.model in ("fake-1", "fake-2")
    assert prompt in (None, facts.prompt)
    assert tokens in (None, facts.tokens)
    assert facts.started_at is not None
    assert facts.garbled == 0


def test_no_native_file_is_a_problem(archive: PiStage) -> None:
    result = archive.survey(HistoryQuery())
    assert result.problems == []
    assert len(result.sessions) == len(list(CORPUS.glob("*/*.jsonl")))


def test_a_native_fork_names_its_parent(archive: PiStage) -> None:
    fork = _native(archive, "1.5.0/2026-11-15T05-39-56-702Z")
    assert fork.observation.facts.parent_id == "01a1ddb8-18e5-77e6-b0da-a05989806e32"
    titled = _native(archive, "1.5.0/2026-11-15T05-39-57-065Z")
    assert (titled.observation.session_id, titled.observation.facts.title) == ("agentctl-0001", "Named")


def test_native_messages(archive: PiStage) -> None:
    session = _native(archive, "0.73.1/2026-11-15T05-40-09-973Z")
    messages = list(Pi().messages(session.observation, Look.take(archive.environ)))
    assert [(m.role, m.tool) for m in messages] == [
        ("assistant", None), ("tool", "bash"), ("tool", "bash"), ("user", None),
    ]  # fmt: skip
    assert [m.text for m in messages][1:] == ["hi\n", "echo hi", "[[tool=bash:echo hi]]"]
    assert len({m.key for m in messages}) == len(messages)


def test_a_pi_that_ends_while_we_look_hides_no_other_session(tmp_path: Path) -> None:
    """It was in the table, but its directory was not read yet."""
    child = subprocess.Popen(["/bin/sleep", "600"])
    process = proc.read_process(child.pid, proc.read_boot_id())
    child.kill()
    child.wait()
    look = Look({process.pid: process}, {"HOME": str(tmp_path)}, time.time()).scope_to("pi")
    look.unbound_processes = (process,)
    assert binding.find_silent(look) == {}
