"""Pi's adapter keeps the contract, and tells who runs what though Pi hides it."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.pi import Pi, beside, binding
from agentctl.adapters.pi.header_time import Birth, kin, sequence
from agentctl.adapters.pi.places import directory, slug
from agentctl.adapters.pi.transcript import read, said
from agentctl.adapters.registry import registered
from agentctl.system import clock, files, proc
from agentctl.system.proc import Process
from agentctl.testing import AdapterContract, Puppet
from agentctl.truth.look import Look
from agentctl.truth.model import Facts, Session, Tokens
from agentctl.truth.survey import Wanted, survey
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
    """Seconds by which a puppet is older than it is: nobody wants to wait for a window to close."""
    shifts: dict[int, float] = {}
    real = Look.started_at

    def started_at(self: Look, process: Process) -> float:
        return real(self, process) - shifts.get(process.pid, 0.0)

    monkeypatch.setattr(Look, "started_at", started_at)
    return shifts


def begun(stage: PiStage, *steps: str, traits: str = "", cwd: Path | None = None) -> Puppet:
    puppet = stage.start(cwd, environ={"PUPPET_PI": traits})
    for step in steps:
        puppet.do(step)
    return puppet


def begun_long_ago(stage: PiStage, earlier: dict[int, float], *steps: str, traits: str = "") -> Puppet:
    puppet = stage.start(environ={"PUPPET_PI": traits, "PUPPET_CLOCK": "-60"})
    earlier[puppet.pid] = 60.0
    for step in steps:
        puppet.do(step)
    return puppet


def prompted_and_killed(stage: PiStage, ended: Puppet) -> None:
    """Somebody goes on with it, and is gone."""
    again = stage.start(resume=ended.session_id)
    again.do("work")
    again.kill()


def at_once(stage: PiStage, earlier: dict[int, float]) -> tuple[Puppet, Puppet]:
    """Two that began, as far as anybody can tell, in the same moment."""
    one, two = begun(stage, "work"), begun(stage, "work")
    later = _made_at(stage.records(two)[0]) - _made_at(stage.records(one)[0])
    earlier[one.pid] = -later
    _rewrite_born(stage.records(one)[0], later)
    return one, two


def row(stage: PiStage, puppet: Puppet) -> Session:
    found = stage.row_of(puppet)
    assert found is not None
    return found


def doing(session: Session) -> tuple[str, str]:
    return session.verdict.status, session.verdict.activity


def status(stage: PiStage, session_id: str | None) -> str:
    return stage.session(session_id or "").verdict.status


def method(session: Session) -> str:
    alive = next(e for e in session.verdict.used if e.claim == "alive")
    return alive.note.removeprefix("bound by ").partition(":")[0]


# whose process it is


def owned(stage: PiStage, *, traits: str = "visible") -> bool:
    puppet = begun(stage, traits=traits)
    return Pi().owns(proc.read_process(puppet.pid, proc.boot_id()))


def test_a_renamed_process_is_pi_though_its_arguments_are_gone(stage: PiStage) -> None:
    puppet = begun(stage, "work")
    process = proc.read_process(puppet.pid, proc.boot_id())
    assert (process.comm, process.argv) == ("pi", ("pi",))
    assert (process.exe or "").endswith("/node")
    found = row(stage, puppet)
    assert found.seen.session_id == puppet.session_id
    assert method(found) == "inferred"


def test_before_it_renames_itself_its_script_tells(stage: PiStage) -> None:
    assert owned(stage)
    stage.script = ("lib", "pi-coding-agent", "dist", "cli.js")
    assert owned(stage)


@pytest.mark.parametrize("binary", ["pi", "pi-rust", "pi_agent_rust"])
def test_the_rust_port_is_a_binary_of_its_own(stage: PiStage, binary: str) -> None:
    stage.runtime = ("bin", binary)
    assert owned(stage)


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
    assert not owned(stage)


def test_a_script_called_pi_that_is_run_by_python_is_a_stranger(stage: PiStage) -> None:
    stage.runtime = ("bin", "python3")
    assert not owned(stage, traits="")  # its comm is pi all the same


# when the file appears


def test_until_its_first_answer_an_old_pi_has_no_session(stage: PiStage) -> None:
    puppet = begun(stage, "work", traits="0.73")
    found = row(stage, puppet)
    assert found.seen.session_id is None
    assert (found.verdict.status, found.verdict.activity) == ("running", "unknown")
    puppet.do("rest")
    found = row(stage, puppet)
    assert found.seen.session_id == puppet.session_id
    assert found.verdict.status == "idle"
    puppet.do("work")
    assert row(stage, puppet).verdict.activity == "working"


def test_until_its_first_prompt_a_new_pi_has_no_session(stage: PiStage) -> None:
    puppet = begun(stage)
    assert row(stage, puppet).seen.session_id is None
    puppet.do("work")
    assert row(stage, puppet).seen.session_id == puppet.session_id


# several in one directory


def test_each_is_bound_by_the_time_in_its_header(stage: PiStage, earlier: dict[int, float]) -> None:
    one = begun_long_ago(stage, earlier, "work", "rest")
    two = begun(stage, "work")
    assert row(stage, one).seen.session_id == one.session_id
    assert row(stage, one).verdict.status == "idle"
    assert row(stage, two).seen.session_id == two.session_id
    assert row(stage, two).verdict.activity == "working"
    two.kill()
    assert status(stage, one.session_id) == "idle"
    assert status(stage, two.session_id) == "stopped"


def test_nobody_has_moved_to_what_another_one_runs(stage: PiStage, earlier: dict[int, float]) -> None:
    one = begun_long_ago(stage, earlier, "work", "rest", traits="0.73")
    two = begun(stage, "work", "rest", traits="0.73")
    assert row(stage, one).seen.session_id == one.session_id
    assert row(stage, two).seen.session_id == two.session_id


def test_two_started_at_once_are_not_told_apart(stage: PiStage, earlier: dict[int, float]) -> None:
    one, two = at_once(stage, earlier)
    verdict = stage.session(two.session_id or "").verdict
    assert verdict.status == "unknown"
    assert f"pid {one.pid}" in verdict.reason
    assert f"pid {two.pid}" in verdict.reason
    assert status(stage, one.session_id) == "unknown"
    for puppet in (one, two):
        assert row(stage, puppet).verdict.status == "running"


def test_two_started_one_after_the_other_are_told_by_their_pools(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    """One begins 2 s before the other: in the same window, each with its pool right after its header."""
    one = stage.start(environ={"PUPPET_CLOCK": "-2"})
    earlier[one.pid] = 2.0
    one.do("work")
    two = begun(stage, "work", "rest")
    assert row(stage, one).seen.session_id == one.session_id
    assert row(stage, two).seen.session_id == two.session_id
    two.finish()
    assert status(stage, one.session_id) == "running"
    assert status(stage, two.session_id) == "stopped"


def test_old_ones_started_one_after_the_other_are_not_told_apart(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    one = stage.start(environ={"PUPPET_CLOCK": "-2", **OLD})
    earlier[one.pid] = 2.0
    for step in ("work", "rest"):
        one.do(step)
    two = begun(stage, "work", "rest", traits="0.73")
    assert status(stage, one.session_id) == "unknown"
    assert status(stage, two.session_id) == "unknown"


def test_what_a_dead_one_made_meanwhile_is_not_pinned_on_a_silent_one(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    """It was in the window of one that sits at its prompt, and nowhere near its pool."""
    silent = stage.start(environ={"PUPPET_CLOCK": "-2"})
    earlier[silent.pid] = 2.0
    killed = begun(stage, "work")
    killed.kill()
    assert row(stage, silent).seen.session_id is None
    assert status(stage, killed.session_id) == "unknown"  # it may have been resumed there


def test_a_start_may_take_as_long_as_it_likes() -> None:
    """On a loaded machine: the pool tells, whenever the process began."""
    late = Birth(start=100.0, pool=130.0, on_node=True)
    assert late.near_pool(129.8)
    assert not late.near_pool(128.0)
    assert not late.near_pool(130.2)
    assert not late.in_window(129.8)


def test_directories_that_share_a_name_are_told_apart_by_the_header(stage: PiStage) -> None:
    one = begun(stage, "work", cwd=stage.work / "a-b")
    two = begun(stage, "work", cwd=stage.work / "a" / "b")
    assert slug(one.cwd) == slug(two.cwd)
    assert row(stage, one).seen.session_id == one.session_id
    assert row(stage, two).seen.session_id == two.session_id


def test_a_finished_run_leaves_the_idle_one_beside_it_alone(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    idle = begun_long_ago(stage, earlier, "work", "rest")
    done = begun(stage, "work", "rest")
    done.finish()
    assert row(stage, idle).seen.session_id == idle.session_id
    assert status(stage, idle.session_id) == "idle"
    verdict = stage.session(done.session_id or "").verdict
    assert (verdict.status, verdict.outcome) == ("stopped", "completed")


def test_a_finished_run_is_not_pinned_on_one_that_has_said_nothing(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    silent = begun_long_ago(stage, earlier)
    done = begun(stage, "work", "rest")
    done.finish()
    assert row(stage, silent).seen.session_id is None
    verdict = stage.session(done.session_id or "").verdict
    assert verdict.status == "unknown"  # it may have been resumed there
    assert f"pid {silent.pid}" in verdict.reason


# a command's environment


def test_a_command_tells_the_session_exactly(stage: PiStage, earlier: dict[int, float]) -> None:
    one, two = at_once(stage, earlier)
    one.do("tool")
    assert method(row(stage, one)) == "child's environment"
    assert row(stage, one).seen.session_id == one.session_id
    assert row(stage, one).verdict.activity == "working"
    assert row(stage, two).seen.session_id == two.session_id  # the only one left for it
    one.do("result")
    assert status(stage, one.session_id) == "unknown"  # and the sign is gone with the command


def test_a_command_tells_a_resumed_session(stage: PiStage) -> None:
    first, second = (begun(stage, "work", "rest") for _ in range(2))
    for puppet in (first, second):
        puppet.finish()
    again = stage.start(resume=first.session_id)
    again.do("work")
    prompted_and_killed(stage, second)
    assert status(stage, first.session_id) == "unknown"
    again.do("tool")
    found = row(stage, again)
    assert (found.seen.session_id, method(found)) == (first.session_id, "child's environment")
    assert status(stage, second.session_id) == "stopped"


def test_a_silent_one_may_have_any_session_of_its_directory_open(stage: PiStage) -> None:
    """`pi --session ID` at its prompt: nothing tells before its first prompt that it is no new one."""
    ended, elsewhere = begun(stage, "work", "rest"), begun(stage, "work", "rest", cwd=stage.root / "b")
    for puppet in (ended, elsewhere):
        puppet.finish()
        (path,) = stage.records(puppet)
        os.utime(path, (0, path.stat().st_mtime - 60))  # long before the next one began
    again = stage.start(resume=ended.session_id)
    verdict = stage.session(ended.session_id or "").verdict
    assert verdict.status == "unknown"
    assert f"pid {again.pid}" in verdict.reason
    assert status(stage, elsewhere.session_id) == "stopped"
    again.do("work")
    assert status(stage, ended.session_id) == "running"
    again.kill()
    assert status(stage, ended.session_id) == "stopped"


def test_an_inherited_id_is_not_its_own(stage: PiStage) -> None:
    puppet = stage.start(environ={**OLD, "PI_SESSION_ID": "outer"})
    puppet.do("work")
    puppet.do("tool")  # its command inherits "outer", because 0.73 sets nothing
    assert row(stage, puppet).seen.session_id == puppet.session_id


def test_what_a_pi_below_runs_is_its_own_business(stage: PiStage) -> None:
    outer = begun(stage, "work", "subagent")
    sessions = {s.seen.session_id: s for s in stage.survey().sessions}
    mine = sessions.pop(outer.session_id)
    assert mine.seen.owner is not None
    assert mine.seen.owner.pid == outer.pid
    (inner,) = sessions.values()
    assert inner.seen.owner is not None
    assert inner.seen.owner.parent == outer.pid
    assert method(inner) == "child's environment"
    outer.do("result")


# arguments


def test_a_chosen_id_is_seen_before_there_is_a_file(stage: PiStage) -> None:
    stage.arguments = ["-p", "--session-id", "chosen-1", "a prompt"]
    puppet = stage.start(environ=VISIBLE)
    found = row(stage, puppet)
    assert (found.seen.session_id, method(found)) == ("chosen-1", "argument")
    assert (found.verdict.status, found.verdict.activity) == ("running", "unknown")
    assert found.seen.facts.entry_point == "headless"
    puppet.do("work")
    assert row(stage, puppet).verdict.activity == "working"


@pytest.mark.parametrize("how", ["id", "prefix", "path"])
def test_a_session_named_by_argument(stage: PiStage, how: str) -> None:
    ended = begun(stage, "work", "rest")
    ended.finish()
    known = ended.session_id or ""
    given = {"id": known, "prefix": known[:20], "path": str(stage.records(ended)[0])}
    stage.arguments = ["--session", given[how]]
    puppet = stage.start(resume=known, environ=VISIBLE)
    found = row(stage, puppet)
    assert (found.seen.session_id, method(found)) == (known, "argument")
    assert found.verdict.status == "idle"


def test_a_turn_that_was_left_open_is_not_open_in_who_resumes_it(stage: PiStage) -> None:
    killed = begun(stage, "work")
    known = killed.session_id or ""
    killed.kill()
    (path,) = stage.records(killed)
    path.write_text(path.read_text().replace('"timestamp":"20', '"timestamp":"19'))  # long ago
    stage.arguments = ["--session", str(path)]
    puppet = stage.start(resume=known, environ=VISIBLE)
    verdict = row(stage, puppet).verdict
    assert (verdict.status, verdict.activity) == ("running", "unknown")
    assert [e.trusted for e in verdict.overruled if e.claim == "working"] == [False]
    puppet.do("work")
    assert row(stage, puppet).verdict.activity == "working"


# moving on


def test_new_makes_a_second_session_in_the_same_process(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    puppet = begun_long_ago(stage, earlier, "work", "rest")
    first = puppet.session_id
    puppet.do("new")
    puppet.do("work")
    second = puppet.session_id
    assert first != second
    assert row(stage, puppet).seen.session_id == second
    assert row(stage, puppet).verdict.activity == "working"
    assert status(stage, first) == "stopped"
    puppet.do(f"resume {next(p.name for p in stage.files() if (first or '') in p.name)}")
    puppet.do("work")
    assert row(stage, puppet).seen.session_id == first
    assert status(stage, first) == "running"


def test_new_after_a_while_is_still_known_by_its_number(
    stage: PiStage, earlier: dict[int, float]
) -> None:
    """Born outside the window, and nobody else could have counted on from there."""
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    path = stage.records(puppet)[0]
    _rewrite_born(path, -60.0)
    earlier[puppet.pid] = 60.0
    puppet.do("new")
    puppet.do("work")
    puppet.do("rest")
    assert row(stage, puppet).seen.session_id == puppet.session_id
    assert row(stage, puppet).verdict.status == "idle"


def test_new_in_an_old_version_is_not_told_apart(stage: PiStage, earlier: dict[int, float]) -> None:
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


def test_whoever_is_in_a_turn_has_not_moved(stage: PiStage, earlier: dict[int, float]) -> None:
    other = begun(stage, "work", "rest")
    other.finish()
    puppet = begun_long_ago(stage, earlier, "work")
    _rewrite_born(stage.records(other)[0], -600.0)
    assert row(stage, puppet).seen.session_id == puppet.session_id
    puppet.do("rest")
    _touch_later(stage, other.session_id)
    assert status(stage, puppet.session_id) == "unknown"  # now it may have resumed the other


def test_a_resumed_session_with_two_candidates_is_unknown(stage: PiStage) -> None:
    first, second = (begun(stage, "work", "rest") for _ in range(2))
    for puppet in (first, second):
        puppet.finish()
    again = stage.start(resume=first.session_id)
    again.do("work")
    assert row(stage, again).seen.session_id == first.session_id
    assert method(row(stage, again)) == "inferred"
    prompted_and_killed(stage, second)
    assert status(stage, first.session_id) == "unknown"
    assert status(stage, second.session_id) == "unknown"
    assert row(stage, again).seen.session_id is None


def test_what_another_one_goes_on_with_is_not_pinned_on_a_silent_one(stage: PiStage) -> None:
    """It was prompted before this one began, got its answer since, and ended."""
    other = begun(stage, "work")
    silent = stage.start()
    other.do("rest")
    other.finish()
    assert row(stage, silent).seen.session_id is None
    verdict = stage.session(other.session_id or "").verdict
    assert verdict.status == "unknown"
    assert f"pid {silent.pid}" in verdict.reason


def test_a_prompt_comes_with_a_start_or_from_a_hand(stage: PiStage, earlier: dict[int, float]) -> None:
    """One at its prompt for a minute, without a terminal: what is prompted now is not of its doing."""
    ended = begun(stage, "work", "rest")
    ended.finish()
    _rewrite_born(stage.records(ended)[0], -600.0)
    silent = stage.start()
    earlier[silent.pid] = 60.0
    prompted_and_killed(stage, ended)
    assert row(stage, silent).seen.session_id is None
    assert status(stage, ended.session_id) == "unknown"
    earlier[silent.pid] = 0.0
    assert row(stage, silent).seen.session_id == ended.session_id


def _made_at(path: Path) -> float:
    made_at = clock.parse(json.loads(path.read_text().partition("\n")[0])["timestamp"])
    assert made_at is not None
    return made_at


def _rewrite_born(path: Path, seconds: float) -> None:
    """As if the session had been begun that much later."""
    lines = path.read_text().splitlines(keepends=True)
    header = json.loads(lines[0])
    header["timestamp"] = clock.rfc3339((clock.parse(header["timestamp"]) or 0.0) + seconds)
    stamp = header["timestamp"].replace(":", "-").replace(".", "-")
    lines[0] = json.dumps(header, separators=(",", ":")) + "\n"
    path.unlink()
    path.with_name(f"{stamp}_{header['id']}.jsonl").write_text("".join(lines))


def _touch_later(stage: PiStage, session_id: str | None) -> None:
    newest = max(path.stat().st_mtime for path in stage.files())
    (path,) = (p for p in stage.files() if (session_id or "") in p.name)
    os.utime(path, (newest + 0.01, newest + 0.01))


# what the last message says


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
    puppet = begun(stage, "work", *steps)
    until(lambda: doing(row(stage, puppet)) == expected, f"it is {expected}")
    assert stage.survey().problems == []


def test_a_failure_is_not_believed_in_its_first_second(stage: PiStage) -> None:
    """1.x writes a moment later that it tries again."""
    puppet = begun(stage, "work", "fail")
    look = Look.take(stage.environ)
    failed_at = max(path.stat().st_mtime for path in stage.files())
    for later, expected in ((0.5, ("running", "unknown")), (1.5, ("idle", "idle"))):
        look.now = failed_at + later
        (found,) = survey(look, registered(["pi"]), deadline=20.0).sessions
        assert doing(found) == expected
    assert found.seen.owner is not None
    assert found.seen.owner.pid == puppet.pid


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
    puppet = begun(stage, "work", *steps)
    session = puppet.session_id
    puppet.kill()
    verdict = stage.session(session or "").verdict
    assert (verdict.status, verdict.outcome) == ("stopped", outcome)


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
    puppet = begun(stage, "work", "rest", "work", *steps, traits="0.73")
    until(lambda: doing(row(stage, puppet)) == expected, f"it is {expected}")


@pytest.mark.parametrize("traits", ["", "0.73"])
def test_a_retry_is_shown_and_not_believed(stage: PiStage, traits: str) -> None:
    puppet = begun(stage, "work", "retry", traits=traits)
    (doubtful,) = (e for e in row(stage, puppet).verdict.overruled if e.claim == "idle")
    assert not doubtful.trusted
    assert "retr" in doubtful.note


def test_a_command_outside_a_turn_is_work(stage: PiStage) -> None:
    puppet = begun(stage, "work", "rest", "server")
    assert doing(row(stage, puppet)) == ("idle", "idle"), "what an extension keeps is no work"
    puppet.do("command")
    assert doing(row(stage, puppet)) == ("running", "working")
    (used,) = [e for e in row(stage, puppet).verdict.used if e.claim == "working"]
    assert "outside a turn: cat" in used.note


def test_a_command_right_after_a_turn_is_work(stage: PiStage) -> None:
    """By the clock of its file the turn ended in the tick in which the command began."""
    puppet = begun(stage, "work", "rest", "command")
    look = Look.take(stage.environ).scoped("pi")
    (process,) = (p for p in look.table.values() if p.pid == puppet.pid)
    (child,) = look.children(process)
    ended = Facts(last_activity_at=look.started_at(child) + 0.009)
    used = beside.work(process, ended, look)
    assert used is not None
    assert used.address == child.identity.address


@pytest.mark.parametrize(
    ("typed", "drawn", "connected", "told"),
    [
        (-60, -60, False, None),  # long ago
        (-60, -60, True, None),  # a connection that is kept open
        (0, 0, False, None),  # somebody types
        (-60, 0, False, "nobody types"),  # a spinner
        (0, 0, True, "a connection is open"),  # /compact: the model is asked
    ],
)
def test_what_its_terminal_tells_outside_a_turn(
    typed: float, drawn: float, connected: bool, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Look.take({}).scoped("pi")
    monkeypatch.setattr(beside, "is_connected", lambda _: connected)
    with sitting() as one:
        os.utime(one.terminal, (look.now + typed, look.now + drawn))
        process = proc.read_process(one.identity.pid, proc.boot_id())
        found = beside.work(process, Facts(last_activity_at=look.now - 30), look)
    assert (found is not None and not found.trusted and told in found.note) if told else found is None


def test_right_after_a_turn_its_terminal_tells_nothing() -> None:
    look = Look.take({}).scoped("pi")
    with sitting() as one:
        os.utime(one.terminal, (look.now - 60, look.now))
        process = proc.read_process(one.identity.pid, proc.boot_id())
        assert beside.work(process, Facts(last_activity_at=look.now - 0.5), look) is None


@pytest.mark.parametrize("steps", [("work",), ("work", "rest")])
def test_a_line_that_stays_torn_leaves_it_unknown(stage: PiStage, steps: tuple[str, ...]) -> None:
    puppet = begun(stage, *steps)
    (path,) = stage.files()
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"ab')
    assert doing(row(stage, puppet)) == ("running", "unknown")
    os.utime(path, (0, time.time() - 60))
    assert "its last line is not complete" in {p.message for p in stage.survey().problems}


def test_an_unknown_stop_reason_is_drift(stage: PiStage) -> None:
    puppet = begun(stage, "work", "word parked")
    verdict = row(stage, puppet).verdict
    assert (verdict.status, verdict.activity) == ("running", "unknown")
    (problem,) = stage.survey().problems
    assert problem.kind == "drift"
    assert "parked" in problem.message


def test_an_unknown_format_is_drift(stage: PiStage) -> None:
    puppet = begun(stage, "work")
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
        assert row(stage, puppet).seen.session_id == puppet.session_id


def test_a_flat_directory_holds_sessions_of_several_directories(stage: PiStage) -> None:
    flat = {"PI_CODING_AGENT_SESSION_DIR": str(stage.root / "flat")}
    one, two = (stage.start(stage.root / name, environ=flat) for name in "ab")
    for puppet in (one, two):
        puppet.do("work")
    for puppet in (one, two):
        assert row(stage, puppet).seen.session_id == puppet.session_id
    one.do("rest")
    one.finish()
    stage.environ.update(flat)
    assert status(stage, one.session_id) == "stopped"


def test_a_configured_directory_is_honoured(stage: PiStage) -> None:
    settings = stage.home / ".pi" / "agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"sessionDir": "~/kept"}')
    kept = str(stage.home / "kept")
    puppet = stage.start(environ={"PI_CODING_AGENT_SESSION_DIR": kept})  # where the fake puts it
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
        look = Look.take(stage.environ).scoped("pi")
        process = proc.read_process(inside.pid, proc.boot_id())
        assert directory(process, look) == f"/proc/{inside.pid}/root{stage.home}/theirs"
    finally:
        inside.communicate()


def test_the_rust_port_has_its_own_variable(stage: PiStage) -> None:
    stage.runtime = ("bin", "pi")
    stage.environ["PI_SESSIONS_DIR"] = str(stage.root / "rust")
    puppet = begun(stage, "work", traits="visible")
    assert row(stage, puppet).seen.session_id == puppet.session_id
    folder = stage.records_in(stage.root / "rust")[0].parent
    (folder / "session-index.sqlite").write_bytes(b"SQLite format 3\0")
    (folder / f"{puppet.session_id}.v2").mkdir()
    (folder / f"{stage.records_in(folder.parent)[0].name}.blobs").mkdir()
    puppet.do("rest")
    puppet.finish()
    found = stage.survey(Wanted())
    assert [s.seen.session_id for s in found.sessions] == [puppet.session_id]
    assert found.problems == []


def test_a_long_history_is_not_opened(stage: PiStage, monkeypatch: pytest.MonkeyPatch) -> None:
    puppet = begun(stage, "work")
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
    facts = row(stage, puppet).seen.facts
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
def test_no_record_is_a_fault(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    read(str(path), Look({}, {}, 0.0))
    for record in records:
        list(said(0, record))


# ids


def test_ids_of_one_process_are_kin() -> None:
    assert kin("01a1de2f-5b58-71b2-9d47-5296570d7513", "01a1de2f-9865-71b2-9d47-5298043ff2b5")
    assert not kin("01a1de2f-5e56-73a8-89e5-bea8cd2d0cc7", "01a1de2f-9865-758f-b972-8a064ca01c3d")
    assert not kin("agentctl-0001", "agentctl-0002")
    assert sequence("1b4e28ba-2fa1-41d2-883f-0016d3cca427") is None  # a UUIDv4 is nobody's number


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
    facts = session.seen.facts
    assert (session.verdict.status, session.verdict.outcome) == ("stopped", outcome)
    assert (facts.cwd, facts.model) == ("/home/user/sample", "fake-1") or facts.model == "fake-2"
    assert prompt in (None, facts.prompt)
    assert tokens in (None, facts.tokens)
    assert facts.started_at is not None
    assert facts.garbled == 0


def test_no_native_file_is_a_problem(archive: PiStage) -> None:
    found = archive.survey(Wanted())
    assert found.problems == []
    assert len(found.sessions) == len(list(CORPUS.glob("*/*.jsonl")))


def test_a_native_fork_names_its_parent(archive: PiStage) -> None:
    fork = _native(archive, "1.5.0/2026-11-15T05-39-56-702Z")
    assert fork.seen.facts.parent_id == "01a1ddb8-18e5-77e6-b0da-a05989806e32"
    named = _native(archive, "1.5.0/2026-11-15T05-39-57-065Z")
    assert (named.seen.session_id, named.seen.facts.title) == ("agentctl-0001", "Named")


def test_native_messages(archive: PiStage) -> None:
    session = _native(archive, "0.73.1/2026-11-15T05-40-09-973Z")
    said = list(Pi().messages(session.seen, Look.take(archive.environ)))
    assert [(m.role, m.tool) for m in said] == [
        ("assistant", None), ("tool", "bash"), ("tool", "bash"), ("user", None),
    ]  # fmt: skip
    assert [m.text for m in said][1:] == ["hi\n", "echo hi", "[[tool=bash:echo hi]]"]
    assert len({m.key for m in said}) == len(said)


def test_a_pi_that_ends_while_we_look_hides_no_other_session(tmp_path: Path) -> None:
    """It was in the table, and nobody had asked yet where it works."""
    child = subprocess.Popen(["/bin/sleep", "600"])
    process = proc.read_process(child.pid, proc.boot_id())
    child.kill()
    child.wait()
    look = Look({process.pid: process}, {"HOME": str(tmp_path)}, time.time()).scoped("pi")
    look.loose = (process,)
    assert binding.silent(look) == {}
