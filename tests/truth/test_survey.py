"""The fence, the deadline, and what decorates."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from agentctl.errors import Forbidden, Gone, Malformed
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process, boot_id, read_process
from agentctl.truth import labels
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Exit, Facts, Launch, Observation, Tokens
from agentctl.truth.survey import Registered, Survey, Wanted, survey
from tests.fakes.badly import Adapter, Bad, registered, told
from tests.fakes.stranger import Stranger
from tests.truth.strategies import process as made
from tests.waiting import until

MARK = "SURVEYED"
INIT = made(1, parent=0, start=0)  # without it, others are hidden from us


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    mark = tmp_path.name
    return {"PATH": "/usr/bin:/bin", MARK: mark, "AGENTCTL_CONFINE": f"{MARK}={mark}"}


@pytest.fixture
def one(environ: dict[str, str], tmp_path: Path) -> Iterator[Stranger]:
    with Stranger("bad-agent", environ, tmp_path) as made:
        yield made


def ask(
    environ: dict[str, str],
    adapters: Iterable[Adapter | Registered],
    wanted: Wanted | None = None,
    deadline: float = 20.0,
    notes: Sequence[Launch] = (),
) -> Survey:
    known = [a if isinstance(a, Registered) else registered(a) for a in adapters]
    return survey(Look.take(environ), known, wanted, deadline=deadline, notes=notes)


def test_a_process_nobody_tells_of_is_listed_as_what_it_is(
    environ: dict[str, str], one: Stranger
) -> None:
    class Silent(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            return ()

    (row,) = ask(environ, [Silent("silent", "bad-agent")]).sessions
    assert row.seen.session_id is None
    assert row.seen.owner is not None
    assert row.seen.owner.identity == one.identity
    assert row.seen.facts.cwd == row.seen.owner.cwd
    assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")


def test_a_process_set_aside_is_not_listed(environ: dict[str, str], one: Stranger) -> None:
    class Helper(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            for process in look.owned:
                look.set_aside(process, "runs no session")
            return ()

    assert ask(environ, [Helper("helper", "bad-agent")])[:2] == ([], [])


def test_what_a_generator_gave_before_it_raised_is_kept(
    environ: dict[str, str], one: Stranger, tmp_path: Path
) -> None:
    class Half(Adapter):
        def live(self, look: Look) -> Iterator[Observation]:
            yield told(look, look.owned[0])
            raise ValueError("and no more")

    with Stranger("bad-agent", environ, tmp_path) as two:
        found = ask(environ, [Half("half", "bad-agent")], Wanted())
        activities = {s.seen.owner.pid: s.verdict.activity for s in found.sessions if s.seen.owner}
        assert set(activities) == {one.pid, two.pid}
        assert sorted(activities.values()) == ["unknown", "working"]
        assert [(p.kind, p.message) for p in found.problems] == [("broken", "ValueError: and no more")]


def test_what_a_late_one_gave_in_time_is_kept(environ: dict[str, str], one: Stranger) -> None:
    class Slow(Bad):
        def live(self, look: Look) -> Iterator[Observation]:
            yield told(look, look.owned[0])
            self.hang()

    slow = Slow("slow", "", "bad-agent")
    try:
        found = ask(environ, [slow], deadline=1.0)
        assert [s.verdict.activity for s in found.sessions] == ["working"]
        assert [p.kind for p in found.problems] == ["late"]
    finally:
        slow.release()


def test_an_unreadable_source_is_told_by_its_kind(environ: dict[str, str], one: Stranger) -> None:
    class Denied(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            raise Forbidden("/secret", "permission denied")

    found = ask(environ, [Denied("denied", "bad-agent")])
    assert [tuple(p) for p in found.problems] == [
        ("denied", "forbidden", "permission denied", "/secret")
    ]
    assert len(found.sessions) == 1


def test_the_others_do_not_wait_for_the_slow(
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
            Slow.waited = answered.wait(20.0)  # it would wait for ever if it were waited for
            return ()

    with Stranger("quick-agent", environ, tmp_path) as quick:
        found = ask(environ, [Slow("slow", ""), Quick("quick", "quick-agent")])
        assert Slow.waited
        assert f"{quick.pid} of quick" in [s.seen.session_id for s in found.sessions]
        assert found.problems == []


def test_many_that_hang_share_the_time(environ: dict[str, str], one: Stranger) -> None:
    hung = [Bad(f"hung{number}", "hangs") for number in range(4)]
    try:
        found = ask(environ, [*hung, Adapter("good", "bad-agent")], deadline=2.0)
        assert [(p.adapter, p.kind) for p in found.problems] == [(f"hung{n}", "late") for n in range(4)]
        assert [s.seen.adapter for s in found.sessions if s.seen.session_id] == ["good"]
    finally:
        for each in hung:
            each.release()


def test_an_adapter_without_processes_is_not_even_loaded(environ: dict[str, str]) -> None:
    def load() -> Adapter:
        raise AssertionError("loaded for nothing")

    assert ask(environ, [Registered("absent", frozenset({"no-such-agent"}), load)]) == Survey([], [])
    found = ask(environ, [Registered("absent", frozenset({"no-such-agent"}), load)], Wanted())
    assert [p.kind for p in found.problems] == ["broken"]


def test_an_adapter_that_cannot_be_loaded_is_told(environ: dict[str, str]) -> None:
    def load() -> Adapter:
        raise ImportError("no module named rot")

    found = ask(environ, [Registered("rotten", None, load)])
    assert [(p.adapter, p.kind) for p in found.problems] == [("rotten", "broken")]


def test_one_that_exits_or_hangs_while_it_is_loaded_hides_nobody(
    environ: dict[str, str], one: Stranger
) -> None:
    hung = Bad("hung", "bad-agent", "hangs")

    def exits() -> Adapter:
        raise SystemExit(3)

    def hangs() -> Adapter:
        hung.hang()
        return hung

    try:
        known = [Registered("exits", None, exits), Registered("hangs", None, hangs)]
        found = ask(environ, [*known, Adapter("good", "bad-agent")], deadline=2.0)
        assert [(p.adapter, p.kind) for p in found.problems] == [("exits", "broken"), ("hangs", "late")]
        assert "hangs" not in found.took
        assert found.took["exits"] >= 0
        assert [s.seen.adapter for s in found.sessions] == ["good"]
    finally:
        hung.release()


def test_an_adapter_alone_knows_its_process_names(environ: dict[str, str], one: Stranger) -> None:
    found = ask(environ, [Registered("own", None, lambda: Adapter("own", "bad-agent"))])
    assert [s.seen.owner.pid for s in found.sessions if s.seen.owner] == [one.pid]


def test_whose_it_is_could_not_be_told_leaves_it_a_suspect(
    environ: dict[str, str], one: Stranger
) -> None:
    class Choking(Adapter):
        def owns(self, process: Process) -> bool:
            raise ValueError("cannot tell")

        def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
            yield Observation(look.adapter, "old", (look.unowned(look.now, path="/x"),))

    found = ask(environ, [Choking("choking", "bad-agent")], Wanted())
    assert [s.verdict.status for s in found.sessions] == ["unknown"]


def test_candidates_for_a_session_are_no_suspects_for_others(
    environ: dict[str, str], one: Stranger
) -> None:
    class Torn(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            either = Evidence("ambiguous", "/", "derived", note="pid 1, pid 2")
            yield Observation(look.adapter, "mine", (either,), candidates=look.owned)

        def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
            yield Observation(look.adapter, "old", (look.unowned(look.now, path="/x"),))

    found = ask(environ, [Torn("torn", "bad-agent")], Wanted())
    rows = {s.seen.session_id: s.verdict.status for s in found.sessions}
    assert rows == {"mine": "unknown", "old": "stopped", None: "running"}


def test_one_id_is_one_row(environ: dict[str, str], one: Stranger) -> None:
    class Stutter(Adapter):
        def history(self, look: Look, wanted: Wanted) -> Iterator[Observation]:
            gone = Evidence("gone", "/proc", "kernel")
            for session_id in ("old", "old", f"{one.pid} of stutter"):
                yield Observation(look.adapter, session_id, (gone,))

    found = ask(environ, [Stutter("stutter", "bad-agent")], Wanted())
    assert [(s.seen.session_id, s.verdict.status) for s in found.sessions] == [
        (f"{one.pid} of stutter", "running"),
        ("old", "stopped"),
    ]


def test_loose_are_those_bound_to_nothing(
    environ: dict[str, str], one: Stranger, tmp_path: Path
) -> None:
    seen: list[tuple[Process, ...]] = []

    class Partly(Adapter):
        def live(self, look: Look) -> Iterator[Observation]:
            yield told(look, next(p for p in look.owned if p.pid == one.pid))

        def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
            seen.append(look.loose)
            return ()

    with Stranger("bad-agent", environ, tmp_path) as two:
        ask(environ, [Partly("partly", "bad-agent")], Wanted())
        assert [[p.pid for p in loose] for loose in seen] == [[two.pid]]


def test_a_process_that_vanished_meanwhile_hides_nobody(environ: dict[str, str], tmp_path: Path) -> None:
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
        found = survey(look, [registered(ByName("named", "bad-agent"))], deadline=20.0)
        assert [s.seen.owner.pid for s in found.sessions if s.seen.owner] == [stays.pid]
        assert found.problems == []


def test_an_adapter_that_falls_over_a_vanished_process_looks_anew(
    environ: dict[str, str], tmp_path: Path
) -> None:
    class Thorough(Adapter):
        """Asks the kernel about each process in turn, and the first one goes away."""

        def live(self, look: Look) -> Iterator[Observation]:
            for process in look.owned:
                yield told(look, process)
                goes.end()
                process.environ()

    with (
        Stranger("bad-agent", environ, tmp_path) as goes,
        Stranger("bad-agent", environ, tmp_path) as stays,
    ):
        look = Look({p.pid: p for p in (goes.process, stays.process)}, environ, time.time())
        found = survey(look, [registered(Thorough("thorough", "bad-agent"))], Wanted(), deadline=20.0)
        names = [s.seen.session_id for s in found.sessions]
        assert names == [f"{stays.pid} of thorough", "an old one of thorough"]
        assert found.problems == []


def test_nor_over_one_that_its_files_name_and_that_vanished(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """It is named anew each time: looking anew must come to an end."""

    class Recognising(Adapter):
        def recognised(self, look: Look) -> Iterable[Process]:
            return [then]

        def live(self, look: Look) -> Iterator[Observation]:
            for process in look.owned:
                goes.end()
                process.environ()
                yield told(look, process)

    with (
        Stranger("any-name", environ, tmp_path) as goes,
        Stranger("bad-agent", environ, tmp_path) as stays,
    ):
        then = goes.process
        look = Look({1: INIT, **{p.pid: p for p in (then, stays.process)}}, environ, time.time())
        found = survey(look, [registered(Recognising("r", "bad-agent"))], deadline=20.0)
        assert [s.seen.session_id for s in found.sessions] == [f"{stays.pid} of r"]
        assert found.problems == []


def test_one_that_tells_nothing_any_more_and_lives_is_a_suspect(
    environ: dict[str, str], one: Stranger
) -> None:
    """The kernel takes a large process down for tens of milliseconds, and shows nothing of it then."""

    class Emptied(Adapter):
        def owns(self, process: Process) -> bool:
            raise Gone(process.identity.address, "no such process")

        def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
            yield Observation("e", "s-1", (look.unowned(look.now, path="/x"),))

    look = Look({1: INIT, one.pid: one.process}, environ, time.time())
    found = survey(look, [registered(Emptied("e", "bad-agent"))], Wanted(), deadline=20.0)
    assert [s.verdict.status for s in found.sessions] == ["unknown"]


def test_nor_over_a_suspect_that_vanished(environ: dict[str, str], tmp_path: Path) -> None:
    """One of which nobody could tell whose it is may run what has ended; then it has ended itself."""

    class Unsure(Adapter):
        def owns(self, process: Process) -> bool:
            raise Forbidden("exe", "withheld")

        def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
            for process in look.loose:
                goes.end()
                process.environ()
            yield Observation("u", "s-1", (look.unowned(look.now - 60, path="/x"),))

    with Stranger("bad-agent", environ, tmp_path) as goes:
        look = Look({1: INIT, goes.pid: goes.process}, environ, time.time())
        found = survey(look, [registered(Unsure("u", "bad-agent"))], Wanted(), deadline=20.0)
        assert [(s.seen.session_id, s.verdict.status) for s in found.sessions] == [("s-1", "stopped")]


def test_facts_of_the_wrong_type_are_left_out_and_told(environ: dict[str, str], one: Stranger) -> None:
    class Loose(Adapter):
        def live(self, look: Look) -> Iterator[Observation]:
            facts = Facts(
                cwd=7,  # type: ignore[arg-type]
                model="kept",
                started_at=float("nan"),
                cost_usd="a lot",  # type: ignore[arg-type]
                tokens=Tokens(input="many"),  # type: ignore[arg-type]
            )
            row = told(look, look.owned[0])
            odd = Evidence("idle", "/x", "journal", at="noon", note=None)  # type: ignore[arg-type]
            yield row._replace(facts=facts, evidence=(*row.evidence, odd))

    found = ask(environ, [Loose("loose", "bad-agent")])
    (row,) = found.sessions
    assert row.seen.facts == Facts(model="kept")
    assert row.seen.evidence[-1].at is None
    assert isinstance(row.seen.evidence[-1].note, str)
    (problem,) = found.problems
    assert problem.kind == "malformed"
    assert "cwd, started_at, tokens, cost_usd" in problem.message


def test_notes_decorate_by_identity_or_by_session(environ: dict[str, str], one: Stranger) -> None:
    never = ProcessIdentity(one.identity.boot, one.pid, one.identity.start - 1)
    by_process = Launch("l1", one.identity, name="mine")
    by_session = Launch("l2", never, f"{one.pid} of good", name="by id")
    nobody = Launch("l3", never, "no such session", name="ghost")
    adapters = [Adapter("good", "bad-agent")]
    for notes, expected in (
        ([nobody], None),
        ([nobody, by_process], by_process),
        ([nobody, by_session], by_session),
    ):
        (row,) = ask(environ, adapters, notes=notes).sessions
        assert row.launch == expected
    plain = ask(environ, adapters).sessions[0]
    labelled = ask(environ, adapters, notes=[by_process]).sessions[0]
    assert plain.verdict[:6] == labelled.verdict[:6]


def test_an_id_that_two_agents_use(environ: dict[str, str], one: Stranger) -> None:
    """To take another's note for its own would end the other's processes with it."""
    never = ProcessIdentity(one.identity.boot, one.pid, one.identity.start - 1)
    other = Launch("l1", never, f"{one.pid} of good", adapter="other")
    own = Launch("l2", never, f"{one.pid} of good", adapter="good")
    for notes, expected in (([other], None), ([own, other], own), ([other, own], own)):
        (row,) = ask(environ, [Adapter("good", "bad-agent")], notes=notes).sessions
        assert row.launch == expected


def test_of_two_launches_of_a_session_the_one_that_runs(environ: dict[str, str], one: Stranger) -> None:
    """Whatever the clock said when they were noted."""
    never = ProcessIdentity(one.identity.boot, one.pid, one.identity.start - 1)
    runs = Launch("l1", one.identity, f"{one.pid} of good", adapter="good")
    before = Launch("l2", never, f"{one.pid} of good", adapter="good")
    (row,) = ask(environ, [Adapter("good", "bad-agent")], notes=[runs, before]).sessions
    assert row.launch == runs


@pytest.mark.parametrize(("whole", "status"), [(True, "unknown"), (False, "stopped")])
def test_a_launch_is_not_called_dead_where_its_source_was_not_read(
    environ: dict[str, str], whole: bool, status: str
) -> None:
    """A database that is locked is malformed, as is a record that makes no sense. But the one hides all
    sessions, the other none."""

    class Damaged(Adapter):
        def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
            if whole:
                look.unreadable(Malformed("/sessions.db", "database is locked"))
            else:
                look.problem("malformed", "2 records not readable", "/s.jsonl")
            return ()

    never = ProcessIdentity("another boot", 7, 1)
    note = Launch("l1", never, "s", adapter="d", created_at=900.0, ended=Exit(0, 1000.0, "/exit"))
    found = ask(environ, [Damaged("d", "no-such-agent")], Wanted(), notes=[note])
    assert [p.kind for p in found.problems] == ["malformed"]
    (row,) = found.sessions
    assert row.verdict.status == status
    assert (row.verdict.reason == labels.UNREAD) is whole


def test_the_look_s_own_problems_travel_along(environ: dict[str, str]) -> None:
    look = Look.take(environ)
    look.unreadable(Malformed("/state.db", "not a database"))
    assert [p.source for p in survey(look, []).problems] == ["/state.db"]


@pytest.fixture
def parting() -> Iterator[subprocess.Popen[bytes]]:
    """A process that the kernel begins to take down when its input is closed: as long as a thread of it
    goes on, it is there, and nothing tells any more what it was."""
    script = (
        "import ctypes, sys, threading, time\n"
        "open('/proc/self/comm', 'w').write('parting')\n"
        "threading.Thread(target=time.sleep, args=[600]).start()\n"
        "sys.stdin.read()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        until(lambda: read_process(child.pid, boot_id()).comm == "parting", "it is called that")
        yield child
    finally:
        child.kill()
        child.wait()


def part(child: subprocess.Popen[bytes]) -> Process:
    assert child.stdin is not None
    child.stdin.close()
    until(lambda: read_process(child.pid, boot_id()).ending, "it is being taken down")
    return read_process(child.pid, boot_id())


@pytest.fixture
def ending(parting: subprocess.Popen[bytes]) -> Process:
    return part(parting)


@pytest.mark.parametrize(("known_as", "status"), [("", "unknown"), ("another", "stopped")])
def test_no_session_is_stopped_while_a_process_that_may_run_it_is_being_taken_down(
    ending: Process, known_as: str, status: str
) -> None:
    class Ended(Adapter):
        def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
            yield Observation("late", "s-1", (look.unowned(look.now, lambda _: False, path="/x"),))

    look = Look({1: INIT, ending.pid: ending}, {}, time.time())
    (row,) = survey(look, [registered(Ended("late", known_as or ending.comm))], Wanted()).sessions
    assert row.verdict.status == status


def test_nor_if_it_began_to_end_while_its_adapter_looked(parting: subprocess.Popen[bytes]) -> None:
    class Late(Adapter):
        def live(self, look: Look) -> Iterable[Observation]:
            for process in look.owned:
                part(parting)
                raise Gone(f"{process.identity.address}/fd", "it does not hold its log")
            return ()

        def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
            yield Observation("late", "s-1", (look.unowned(look.now, lambda _: False, path="/x"),))

    process = read_process(parting.pid, boot_id())
    _ = process.cwd  # described while it lived
    look = Look({1: INIT, process.pid: process}, {}, time.time())
    found = survey(look, [registered(Late("late", process.comm))], Wanted(), deadline=20.0)
    assert [row.verdict.status for row in found.sessions] == ["unknown"]
    assert found.problems == []


class Half(Adapter):
    """Finds one session of a process, and takes the other for an ended one: as OpenCode's server is
    bound to its last session alone once its arguments are gone."""

    def live(self, look: Look) -> Iterable[Observation]:
        for process in look.owned:
            alive = Evidence("alive", process.identity.address, "kernel")
            yield Observation("half", "s-1", (alive,), owner=process)

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        for session_id in ("s-1", "s-2"):
            gone = look.unowned(look.now, lambda _: False, path="/x")
            yield Observation("half", session_id, (gone,))


def test_half_an_answer_on_one_that_began_to_end_is_none(parting: subprocess.Popen[bytes]) -> None:
    class Late(Half):
        def live(self, look: Look) -> Iterable[Observation]:
            if look.owned:
                part(parting)
            yield from super().live(look)

    process = read_process(parting.pid, boot_id())
    _ = process.cwd  # described while it lived
    look = Look({1: INIT, process.pid: process}, {}, time.time())
    found = survey(look, [registered(Late("half", process.comm))], Wanted(), deadline=20.0)
    assert [row.verdict.status for row in found.sessions] == ["unknown", "unknown"]


def test_nor_is_one_on_a_process_that_its_locks_give_away_while_it_is_taken_down(
    ending: Process,
) -> None:
    class Locked(Half):
        def recognised(self, look: Look) -> Iterable[Process]:
            return [ending]

    look = Look({1: INIT, ending.pid: ending}, {}, time.time())
    found = survey(look, [registered(Locked("half", "another"))], Wanted())
    assert [row.verdict.status for row in found.sessions] == ["unknown", "unknown"]


@pytest.mark.parametrize("ends", [False, True])
def test_one_outside_of_the_confinement_may_be_what_is_being_taken_down(
    ending: Process, parting: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    if ends:
        parting.kill()
        parting.wait()
    else:
        monkeypatch.setattr("agentctl.truth.look.TAKEN_DOWN", 0.05)
    look = Look({1: INIT, ending.pid: ending}, {}, time.time(), confine="NO=BODY")
    found = survey(look, [registered(Half("half", ending.comm))], Wanted()).sessions
    status = "stopped" if ends else "unknown"
    assert [row.verdict.status for row in found] == [status, status]
