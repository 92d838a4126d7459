"""Adapters that fail or are late, and the labels of sessions."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from agentctl.errors import Forbidden, Gone, Malformed
from agentctl.system.proc import Process, ProcessIdentity, read_boot_id, read_process
from agentctl.truth import labels
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Exit, Facts, Launch, Observation, Tokens
from agentctl.truth.survey import AdapterEntry, HistoryQuery, Survey, survey
from tests.fakes.badly import Adapter, Bad, make_entry, observe_working
from tests.fakes.stranger import Stranger
from tests.truth.strategies import make_process
from tests.waiting import until

MARK = "SURVEYED"
INIT = make_process(1, parent=0, start=0)  # without it, others are hidden from us


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    mark = tmp_path.name
    return {"PATH": "/usr/bin:/bin", MARK: mark, "AGENTCTL_CONFINE": f"{MARK}={mark}"}


@pytest.fixture
def one(environ: dict[str, str], tmp_path: Path) -> Iterator[Stranger]:
    with Stranger("bad-agent", environ, tmp_path) as stranger:
        yield stranger


def ask(
    environ: dict[str, str],
    adapters: Iterable[Adapter | AdapterEntry],
    query: HistoryQuery | None = None,
    deadline: float = 20.0,
    notes: Sequence[Launch] = (),
) -> Survey:
    entries = [a if isinstance(a, AdapterEntry) else make_entry(a) for a in adapters]
    return survey(Look.take(environ), entries, query, deadline=deadline, notes=notes)


def test_a_process_without_a_session_is_listed(environ: dict[str, str], one: Stranger) -> None:
    class Silent(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            return ()

    (row,) = ask(environ, [Silent("silent", "bad-agent")]).sessions
    assert row.observation.session_id is None
    assert row.observation.owner is not None
    assert row.observation.owner.identity == one.identity
    assert row.observation.facts.cwd == row.observation.owner.cwd
    assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")


def test_an_excluded_process_is_not_listed(environ: dict[str, str], one: Stranger) -> None:
    class Helper(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            for process in look.own_processes:
                look.exclude_process(process, "runs no session")
            return ()

    assert ask(environ, [Helper("helper", "bad-agent")])[:2] == ([], [])


def test_observations_before_an_error_are_kept(
    environ: dict[str, str], one: Stranger, tmp_path: Path
) -> None:
    class Broken(Adapter):
        def live(self, look: Look) -> Iterator[Observation]:
            yield observe_working(look, look.own_processes[0])
            raise ValueError("and no more")

    with Stranger("bad-agent", environ, tmp_path) as two:
        result = ask(environ, [Broken("half", "bad-agent")], HistoryQuery())
        activities = {
            s.observation.owner.pid: s.verdict.activity for s in result.sessions if s.observation.owner
        }
        assert set(activities) == {one.pid, two.pid}
        assert sorted(activities.values()) == ["unknown", "working"]
        assert [(p.kind, p.message) for p in result.problems] == [("broken", "ValueError: and no more")]


def test_observations_before_the_deadline_are_kept(environ: dict[str, str], one: Stranger) -> None:
    class Slow(Bad):
        def live(self, look: Look) -> Iterator[Observation]:
            yield observe_working(look, look.own_processes[0])
            self.hang()

    slow = Slow("slow", "", "bad-agent")
    try:
        result = ask(environ, [slow], deadline=1.0)
        assert [s.verdict.activity for s in result.sessions] == ["working"]
        assert [p.kind for p in result.problems] == ["late"]
    finally:
        slow.release()


def test_an_unreadable_source_is_a_problem_of_its_kind(environ: dict[str, str], one: Stranger) -> None:
    class Denied(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            raise Forbidden("/secret", "permission denied")

    result = ask(environ, [Denied("denied", "bad-agent")])
    assert [tuple(p) for p in result.problems] == [
        ("denied", "forbidden", "permission denied", "/secret")
    ]
    assert len(result.sessions) == 1


def test_other_adapters_do_not_wait_for_a_slow_one(
    environ: dict[str, str], one: Stranger, tmp_path: Path
) -> None:
    """Events, not clocks: the quick one answers while the slow one is still stuck."""
    answered = threading.Event()

    class Quick(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            answered.set()
            return super().live(look)

    class Slow(Bad):
        waited = False

        def live(self, look: Look) -> Iterable[Observation]:
            Slow.waited = answered.wait(20.0)  # waits for ever if the survey waits for it first
            return ()

    with Stranger("quick-agent", environ, tmp_path) as quick:
        result = ask(environ, [Slow("slow", ""), Quick("quick", "quick-agent")])
        assert Slow.waited
        assert f"{quick.pid} of quick" in [s.observation.session_id for s in result.sessions]
        assert result.problems == []


def test_adapters_that_hang_share_one_deadline(environ: dict[str, str], one: Stranger) -> None:
    hung = [Bad(f"hung{number}", "hangs") for number in range(4)]
    try:
        result = ask(environ, [*hung, Adapter("good", "bad-agent")], deadline=2.0)
        assert [(p.adapter, p.kind) for p in result.problems] == [(f"hung{n}", "late") for n in range(4)]
        assert [s.observation.adapter for s in result.sessions if s.observation.session_id] == ["good"]
    finally:
        for each in hung:
            each.release()


def test_an_adapter_without_processes_is_not_loaded(environ: dict[str, str]) -> None:
    def load() -> Adapter:
        raise AssertionError("loaded for nothing")

    assert ask(environ, [AdapterEntry("absent", frozenset({"no-such-agent"}), load)]) == Survey([], [])
    result = ask(environ, [AdapterEntry("absent", frozenset({"no-such-agent"}), load)], HistoryQuery())
    assert [p.kind for p in result.problems] == ["broken"]


def test_an_adapter_that_cannot_be_loaded_is_a_problem(environ: dict[str, str]) -> None:
    def load() -> Adapter:
        raise ImportError("no module named rot")

    result = ask(environ, [AdapterEntry("rotten", None, load)])
    assert [(p.adapter, p.kind) for p in result.problems] == [("rotten", "broken")]


def test_an_adapter_that_exits_or_hangs_while_it_is_loaded_hides_no_other(
    environ: dict[str, str], one: Stranger
) -> None:
    hung = Bad("hung", "hangs")

    def load_and_exit() -> Adapter:
        raise SystemExit(3)

    def load_and_hang() -> Adapter:
        hung.hang()
        return hung

    try:
        entries = [
            AdapterEntry("exits", None, load_and_exit),
            AdapterEntry("hangs", None, load_and_hang),
        ]
        result = ask(environ, [*entries, Adapter("good", "bad-agent")], deadline=2.0)
        assert [(p.adapter, p.kind) for p in result.problems] == [("exits", "broken"), ("hangs", "late")]
        assert "hangs" not in result.durations
        assert result.durations["exits"] >= 0
        assert [s.observation.adapter for s in result.sessions] == ["good"]
    finally:
        hung.release()


def test_an_entry_without_names_has_those_of_its_adapter(environ: dict[str, str], one: Stranger) -> None:
    result = ask(environ, [AdapterEntry("own", None, lambda: Adapter("own", "bad-agent"))])
    assert [s.observation.owner.pid for s in result.sessions if s.observation.owner] == [one.pid]


def test_a_process_that_an_adapter_fails_on_is_a_suspect(environ: dict[str, str], one: Stranger) -> None:
    class Choking(Adapter):
        def owns(self, process: Process) -> bool:
            raise ValueError("cannot tell")

        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            yield Observation(
                look.adapter, "old", (look.find_evidence_without_owner(look.now, path="/x"),)
            )

    result = ask(environ, [Choking("choking", "bad-agent")], HistoryQuery())
    assert [s.verdict.status for s in result.sessions] == ["unknown"]


def test_an_error_about_a_process_outside_of_the_confinement_hides_no_session(
    environ: dict[str, str], tmp_path: Path
) -> None:
    class Choking(Adapter):
        def owns(self, process: Process) -> bool:
            raise ValueError("cannot tell")

        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            path = str(tmp_path / "old.jsonl")
            yield Observation(
                look.adapter, "old", (look.find_evidence_without_owner(look.now, path=path),)
            )

    with Stranger("bad-agent-out", {"PATH": environ["PATH"], "HOME": str(tmp_path)}, tmp_path):
        result = ask(environ, [Choking("choking", "bad-agent-out")], HistoryQuery())
    assert [s.verdict.status for s in result.sessions] == ["unknown"]
    assert [(p.kind, p.message) for p in result.problems] == [("broken", "ValueError: cannot tell")]


def test_candidates_for_a_session_are_no_suspects_for_others(
    environ: dict[str, str], one: Stranger
) -> None:
    class Torn(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            either = Evidence("ambiguous", "/", "derived", note="pid 1, pid 2")
            yield Observation(look.adapter, "mine", (either,), candidates=look.own_processes)

        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            yield Observation(
                look.adapter, "old", (look.find_evidence_without_owner(look.now, path="/x"),)
            )

    result = ask(environ, [Torn("torn", "bad-agent")], HistoryQuery())
    rows = {s.observation.session_id: s.verdict.status for s in result.sessions}
    assert rows == {"mine": "unknown", "old": "stopped", None: "running"}


def test_an_id_has_one_row(environ: dict[str, str], one: Stranger) -> None:
    class Stutter(Adapter):
        def history(self, look: Look, query: HistoryQuery) -> Iterator[Observation]:
            no_owner = Evidence("gone", "/proc", "kernel")
            for session_id in ("old", "old", f"{one.pid} of stutter"):
                yield Observation(look.adapter, session_id, (no_owner,))

    result = ask(environ, [Stutter("stutter", "bad-agent")], HistoryQuery())
    assert [(s.observation.session_id, s.verdict.status) for s in result.sessions] == [
        (f"{one.pid} of stutter", "running"),
        ("old", "stopped"),
    ]


def test_processes_without_a_session_are_unbound(
    environ: dict[str, str], one: Stranger, tmp_path: Path
) -> None:
    unbound: list[tuple[Process, ...]] = []

    class Partly(Adapter):
        def live(self, look: Look) -> Iterator[Observation]:
            yield observe_working(look, next(p for p in look.own_processes if p.pid == one.pid))

        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            unbound.append(look.unbound_processes)
            return ()

    with Stranger("bad-agent", environ, tmp_path) as two:
        ask(environ, [Partly("partly", "bad-agent")], HistoryQuery())
        assert [[p.pid for p in processes] for processes in unbound] == [[two.pid]]


def test_a_process_that_vanished_hides_no_other(environ: dict[str, str], tmp_path: Path) -> None:
    class ByName(Adapter):
        """Asks nothing of the kernel, so that a vanished process is noticed late."""

        def live(self, look: Look) -> Iterable[Observation]:
            return ()

    with (
        Stranger("bad-agent", environ, tmp_path) as stays,
        Stranger("bad-agent", environ, tmp_path) as goes,
    ):
        look = Look({p.pid: p for p in (goes.process, stays.process)}, environ, time.time())
        goes.end()
        result = survey(look, [make_entry(ByName("named", "bad-agent"))], deadline=20.0)
        assert [s.observation.owner.pid for s in result.sessions if s.observation.owner] == [stays.pid]
        assert result.problems == []


def test_an_adapter_that_fails_on_a_vanished_process_looks_again(
    environ: dict[str, str], tmp_path: Path
) -> None:
    class Thorough(Adapter):
        """Asks the kernel about each process in turn, and the first one goes away."""

        def live(self, look: Look) -> Iterator[Observation]:
            for process in look.own_processes:
                yield observe_working(look, process)
                goes.end()
                process.environ()

    with (
        Stranger("bad-agent", environ, tmp_path) as goes,
        Stranger("bad-agent", environ, tmp_path) as stays,
    ):
        look = Look({p.pid: p for p in (goes.process, stays.process)}, environ, time.time())
        result = survey(
            look, [make_entry(Thorough("thorough", "bad-agent"))], HistoryQuery(), deadline=20.0
        )
        names = [s.observation.session_id for s in result.sessions]
        assert names == [f"{stays.pid} of thorough", "an old one of thorough"]
        assert result.problems == []


def test_a_vanished_process_that_its_files_name_ends_the_retries(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """The files name it on each look: the retries must come to an end."""

    class Recognising(Adapter):
        def recognize(self, look: Look) -> Iterable[Process]:
            return [then]

        def live(self, look: Look) -> Iterator[Observation]:
            for process in look.own_processes:
                goes.end()
                process.environ()
                yield observe_working(look, process)

    with (
        Stranger("any-name", environ, tmp_path) as goes,
        Stranger("bad-agent", environ, tmp_path) as stays,
    ):
        then = goes.process
        look = Look({1: INIT, **{p.pid: p for p in (then, stays.process)}}, environ, time.time())
        result = survey(look, [make_entry(Recognising("r", "bad-agent"))], deadline=20.0)
        assert [s.observation.session_id for s in result.sessions] == [f"{stays.pid} of r"]
        assert result.problems == []


def test_a_live_process_that_shows_nothing_is_a_suspect(environ: dict[str, str], one: Stranger) -> None:
    """While the kernel frees a large process, for tens of milliseconds, it shows nothing of it."""

    class Emptied(Adapter):
        def owns(self, process: Process) -> bool:
            raise Gone(process.identity.address, "no such process")

        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            yield Observation("e", "s-1", (look.find_evidence_without_owner(look.now, path="/x"),))

    look = Look({1: INIT, one.pid: one.process}, environ, time.time())
    result = survey(look, [make_entry(Emptied("e", "bad-agent"))], HistoryQuery(), deadline=20.0)
    assert [s.verdict.status for s in result.sessions] == ["unknown"]


def test_a_suspect_that_vanished_has_ended(environ: dict[str, str], tmp_path: Path) -> None:
    """A process that could not be assigned may run an ended session, until it ends itself."""

    class Unsure(Adapter):
        def owns(self, process: Process) -> bool:
            raise Forbidden("exe", "withheld")

        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            for process in look.unbound_processes:
                goes.end()
                process.environ()
            yield Observation("u", "s-1", (look.find_evidence_without_owner(look.now - 60, path="/x"),))

    with Stranger("bad-agent", environ, tmp_path) as goes:
        look = Look({1: INIT, goes.pid: goes.process}, environ, time.time())
        result = survey(look, [make_entry(Unsure("u", "bad-agent"))], HistoryQuery(), deadline=20.0)
        assert [(s.observation.session_id, s.verdict.status) for s in result.sessions] == [
            ("s-1", "stopped")
        ]


def test_facts_of_the_wrong_type_are_left_out_and_reported(
    environ: dict[str, str], one: Stranger
) -> None:
    class Loose(Adapter):
        def live(self, look: Look) -> Iterator[Observation]:
            facts = Facts(
                cwd=7,  # type: ignore[arg-type]
                model="kept",
                started_at=float("nan"),
                cost_usd="a lot",  # type: ignore[arg-type]
                tokens=Tokens(input="many"),  # type: ignore[arg-type]
            )
            row = observe_working(look, look.own_processes[0])
            odd = Evidence("idle", "/x", "journal", at="noon", note=None)  # type: ignore[arg-type]
            yield row._replace(facts=facts, evidence=(*row.evidence, odd))

    result = ask(environ, [Loose("loose", "bad-agent")])
    (row,) = result.sessions
    assert row.observation.facts == Facts(model="kept")
    assert row.observation.evidence[-1].at is None
    assert isinstance(row.observation.evidence[-1].note, str)
    (problem,) = result.problems
    assert problem.kind == "malformed"
    assert "cwd, started_at, tokens, cost_usd" in problem.message


def test_notes_label_by_process_or_by_session(environ: dict[str, str], one: Stranger) -> None:
    never = ProcessIdentity(one.identity.boot, one.pid, one.identity.start - 1)
    by_process = Launch("l1", one.identity, name="mine")
    by_session = Launch("l2", never, f"{one.pid} of good", name="by id")
    ghost = Launch("l3", never, "no such session", name="ghost")
    adapters = [Adapter("good", "bad-agent")]
    for notes, expected in (
        ([ghost], None),
        ([ghost, by_process], by_process),
        ([ghost, by_session], by_session),
    ):
        (row,) = ask(environ, adapters, notes=notes).sessions
        assert row.launch == expected
    plain = ask(environ, adapters).sessions[0]
    labelled = ask(environ, adapters, notes=[by_process]).sessions[0]
    assert plain.verdict[:6] == labelled.verdict[:6]


def test_a_note_of_another_agent_labels_no_session_of_the_same_id(
    environ: dict[str, str], one: Stranger
) -> None:
    """With the wrong note, a stop would end processes of another agent."""
    never = ProcessIdentity(one.identity.boot, one.pid, one.identity.start - 1)
    other = Launch("l1", never, f"{one.pid} of good", adapter="other")
    own = Launch("l2", never, f"{one.pid} of good", adapter="good")
    for notes, expected in (([other], None), ([own, other], own), ([other, own], own)):
        (row,) = ask(environ, [Adapter("good", "bad-agent")], notes=notes).sessions
        assert row.launch == expected


def test_of_two_launches_of_a_session_the_running_one_labels_it(
    environ: dict[str, str], one: Stranger
) -> None:
    """The order and times of the notes do not matter."""
    never = ProcessIdentity(one.identity.boot, one.pid, one.identity.start - 1)
    runs = Launch("l1", one.identity, f"{one.pid} of good", adapter="good")
    before = Launch("l2", never, f"{one.pid} of good", adapter="good")
    (row,) = ask(environ, [Adapter("good", "bad-agent")], notes=[runs, before]).sessions
    assert row.launch == runs


@pytest.mark.parametrize(("whole", "status"), [(True, "unknown"), (False, "stopped")])
def test_a_launch_is_not_called_dead_where_its_source_was_not_read(
    environ: dict[str, str], whole: bool, status: str
) -> None:
    """A locked database is malformed, as is a bad record. But the database hides all sessions and the
    record none."""

    class Damaged(Adapter):
        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            if whole:
                look.report_unreadable(Malformed("/sessions.db", "database is locked"))
            else:
                look.report_problem("malformed", "2 records not readable", "/s.jsonl")
            return ()

    never = ProcessIdentity("another boot", 7, 1)
    note = Launch("l1", never, "s", adapter="d", created_at=900.0, exit=Exit(0, 1000.0, "/exit"))
    result = ask(environ, [Damaged("d", "no-such-agent")], HistoryQuery(), notes=[note])
    assert [p.kind for p in result.problems] == ["malformed"]
    (row,) = result.sessions
    assert row.verdict.status == status
    assert (row.verdict.reason == labels.UNREAD) is whole


def test_problems_of_the_look_are_in_the_survey(environ: dict[str, str]) -> None:
    look = Look.take(environ)
    look.report_unreadable(Malformed("/state.db", "not a database"))
    assert [p.source for p in survey(look, []).problems] == ["/state.db"]


@pytest.fixture
def parting() -> Iterator[subprocess.Popen[bytes]]:
    """A process that begins to end when its input is closed: while one of its threads goes on, it
    exists, but the kernel no longer shows what it was."""
    script = (
        "import ctypes, sys, threading, time\n"
        "open('/proc/self/comm', 'w').write('parting')\n"
        "threading.Thread(target=time.sleep, args=[600]).start()\n"
        "sys.stdin.read()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        until(lambda: read_process(child.pid, read_boot_id()).comm == "parting", "it has its name")
        yield child
    finally:
        child.kill()
        child.wait()


def close_input(child: subprocess.Popen[bytes]) -> Process:
    assert child.stdin is not None
    child.stdin.close()
    until(lambda: read_process(child.pid, read_boot_id()).is_ending, "it is ending")
    return read_process(child.pid, read_boot_id())


@pytest.fixture
def ending(parting: subprocess.Popen[bytes]) -> Process:
    return close_input(parting)


@pytest.mark.parametrize(("comm", "status"), [("", "unknown"), ("another", "stopped")])
def test_no_session_is_stopped_while_a_process_that_may_run_it_ends(
    ending: Process, comm: str, status: str
) -> None:
    class Ended(Adapter):
        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            yield Observation(
                "late", "s-1", (look.find_evidence_without_owner(look.now, lambda _: False, path="/x"),)
            )

    look = Look({1: INIT, ending.pid: ending}, {}, time.time())
    (row,) = survey(look, [make_entry(Ended("late", comm or ending.comm))], HistoryQuery()).sessions
    assert row.verdict.status == status


def test_a_session_is_unknown_if_its_process_began_to_end_during_the_look(
    parting: subprocess.Popen[bytes],
) -> None:
    class Late(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            for process in look.own_processes:
                close_input(parting)
                raise Gone(f"{process.identity.address}/fd", "it does not hold its log")
            return ()

        def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
            yield Observation(
                "late", "s-1", (look.find_evidence_without_owner(look.now, lambda _: False, path="/x"),)
            )

    process = read_process(parting.pid, read_boot_id())
    _ = process.cwd  # described while it lived
    look = Look({1: INIT, process.pid: process}, {}, time.time())
    result = survey(look, [make_entry(Late("late", process.comm))], HistoryQuery(), deadline=20.0)
    assert [row.verdict.status for row in result.sessions] == ["unknown"]
    assert result.problems == []


class Half(Adapter):
    """Finds one of two sessions of a process and calls the other ended: as OpenCode's server is bound
    only to its last session once its arguments are gone."""

    def live(self, look: Look) -> Iterable[Observation]:
        for process in look.own_processes:
            alive = Evidence("alive", process.identity.address, "kernel")
            yield Observation("half", "s-1", (alive,), owner=process)

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        for session_id in ("s-1", "s-2"):
            no_owner = look.find_evidence_without_owner(look.now, lambda _: False, path="/x")
            yield Observation("half", session_id, (no_owner,))


def test_half_an_answer_on_an_ending_process_leaves_all_unknown(
    parting: subprocess.Popen[bytes],
) -> None:
    class Late(Half):
        def live(self, look: Look) -> Iterable[Observation]:
            if look.own_processes:
                close_input(parting)
            yield from super().live(look)

    process = read_process(parting.pid, read_boot_id())
    _ = process.cwd  # described while it lived
    look = Look({1: INIT, process.pid: process}, {}, time.time())
    result = survey(look, [make_entry(Late("half", process.comm))], HistoryQuery(), deadline=20.0)
    assert [row.verdict.status for row in result.sessions] == ["unknown", "unknown"]


def test_half_an_answer_on_an_ending_process_with_locks_leaves_all_unknown(
    ending: Process,
) -> None:
    class Locked(Half):
        def recognize(self, look: Look) -> Iterable[Process]:
            return [ending]

    look = Look({1: INIT, ending.pid: ending}, {}, time.time())
    result = survey(look, [make_entry(Locked("half", "another"))], HistoryQuery())
    assert [row.verdict.status for row in result.sessions] == ["unknown", "unknown"]


@pytest.mark.parametrize("ends", [False, True])
def test_an_ending_process_outside_of_the_confinement_is_a_suspect(
    ending: Process, parting: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    if ends:
        parting.kill()
        parting.wait()
    else:
        monkeypatch.setattr("agentctl.truth.suspects.END_TIMEOUT", 0.05)
    look = Look({1: INIT, ending.pid: ending}, {}, time.time(), confine="NO=BODY")
    result = survey(look, [make_entry(Half("half", ending.comm))], HistoryQuery()).sessions
    status = "stopped" if ends else "unknown"
    assert [row.verdict.status for row in result] == [status, status]
