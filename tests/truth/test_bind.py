"""Which process runs which session."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.truth.bind import METHODS, Method, Tie, bind, gone, suspected, twins
from tests.truth.strategies import process, ties

ONE, TWO = process(10), process(20)
CHILD = process(11, parent=10)
ZOMBIE = process(30, state="Z")


def tie(session: str, to: Process, method: Method = "inferred", *, shared: bool = False) -> Tie:
    return Tie(session, to, method, f"/{session}/{to.pid}", shared)


@pytest.mark.parametrize(("stronger", "weaker"), list(pairwise(METHODS)))
def test_the_better_method_wins_whatever_the_order(stronger: Method, weaker: Method) -> None:
    found = [tie("a", TWO, weaker), tie("a", ONE, stronger)]
    for given_ties in (found, found[::-1]):
        bound = bind(given_ties)["a"]
        assert (bound.owner, bound.method) == (ONE, stronger)
        assert bound.candidates == (ONE,)


def test_two_processes_may_run_one_session_by_their_own_word() -> None:
    bound = bind([tie("a", ONE, "pid record"), tie("a", TWO, "pid record")])["a"]
    assert bound.owner is ONE
    assert bound.candidates == (ONE, TWO)
    assert "pid 10, pid 20 run it at the same time" in bound.evidence().note
    assert bound.evidence().claim == "alive"


def test_a_forked_child_that_holds_the_same_lock_is_not_the_owner() -> None:
    for found in (
        [tie("a", CHILD, "held open"), tie("a", ONE, "held open")],
        [tie("a", ONE, "held open"), tie("a", CHILD, "held open")],
    ):
        bound = bind(found)["a"]
        assert bound.owner is ONE
        assert bound.candidates == (ONE,)


def test_a_server_owns_all_its_sessions() -> None:
    strong = bind([tie("a", ONE, "held open"), tie("b", ONE, "held open")])
    assert {bound.owner for bound in strong.values()} == {ONE}
    weak = bind([tie("a", ONE, shared=True), tie("b", ONE, shared=True)])
    assert {bound.owner for bound in weak.values()} == {ONE}


def test_an_inference_needs_one_candidate_on_both_sides() -> None:
    assert bind([tie("a", ONE)])["a"].owner is ONE
    two_processes = bind([tie("a", ONE), tie("a", TWO)])["a"]
    assert two_processes.owner is None
    assert two_processes.candidates == (ONE, TWO)
    two_sessions = bind([tie("a", ONE), tie("b", ONE)])
    assert [bound.owner for bound in two_sessions.values()] == [None, None]
    assert two_processes.evidence().claim == "ambiguous"
    assert "pid 10, pid 20" in two_processes.evidence().note


def test_a_strong_tie_takes_its_process_out_of_the_guessing() -> None:
    bound = bind([tie("a", ONE, "pid record"), tie("b", ONE), tie("b", TWO)])
    assert bound["b"].owner is TWO
    assert "b" not in bind([tie("a", ONE, "pid record"), tie("b", ONE)])


def test_a_dead_process_is_tied_to_nothing() -> None:
    assert bind([tie("a", ZOMBIE, "pid record")]) == {}
    assert bind([tie("a", ZOMBIE, "pid record"), tie("a", ONE)])["a"].owner is ONE


@given(st.lists(ties, max_size=10))
def test_at_most_one_owner_and_it_is_alive(found: list[Tie]) -> None:
    for session_id, bound in bind(found).items():
        assert bound.session_id == session_id
        assert bound.candidates
        assert all(candidate.alive for candidate in bound.candidates)
        if bound.owner is None:
            assert bound.method == "inferred"
            assert bound.evidence().claim == "ambiguous"
        else:
            assert bound.candidates[0] is bound.owner
            assert bound.evidence().claim == "alive"
            assert bound.evidence().authority == "kernel"


@given(st.lists(ties, max_size=10))
def test_an_inferred_tie_with_two_candidates_never_has_an_owner(found: list[Tie]) -> None:
    for bound in bind(found).values():
        if bound.method == "inferred" and len(bound.candidates) > 1:
            assert bound.owner is None


@given(st.lists(ties, max_size=10))
def test_an_inferred_owner_runs_no_other_session_unless_it_is_a_server(found: list[Tie]) -> None:
    bound = bind(found)
    for one in bound.values():
        if one.method != "inferred" or one.owner is None:
            continue
        mine = [t for t in found if t.session_id == one.session_id and t.process is one.owner]
        if not any(t.shared for t in mine):
            others = [b for b in bound.values() if b.owner is one.owner and b is not one]
            assert others == []


@given(st.lists(ties, max_size=10))
def test_every_session_with_a_live_strong_tie_has_an_owner(found: list[Tie]) -> None:
    bound = bind(found)
    for each in found:
        if each.process.alive and each.method != "inferred":
            assert bound[each.session_id].owner is not None


class Placed(Process):
    """A process with a directory, in no process table."""

    __slots__ = ("place",)

    def __init__(self, pid: int, start: int, place: str | None) -> None:
        made = process(pid, start=start)
        super().__init__(made.identity, 1, "S", "agent")
        self.place = place

    @property
    def cwd(self) -> str | None:
        return self.place


@pytest.mark.parametrize(("started", "suspect"), [(90, True), (110, False)])
def test_a_loose_process_that_was_there_may_be_the_writer(started: int, suspect: bool) -> None:
    loose = Placed(10, started * 100, "/elsewhere")
    found = suspected([loose], boot_time=0.0, written_at=100.0)
    assert (found is not None) == suspect
    if found is not None:
        assert found.claim == "ambiguous"
        assert "pid 10" in found.note


@pytest.mark.parametrize("may", [True, False])
def test_an_adapter_may_know_who_cannot_be_the_writer(may: bool) -> None:
    loose = Placed(10, 9_000, "/w")
    found = suspected([loose], boot_time=0.0, written_at=100.0, may=lambda _: may)
    assert (found is not None) == may


def test_who_wrote_at_an_unknown_time_may_be_anyone() -> None:
    loose = Placed(10, 99_999, "/elsewhere")
    assert suspected([loose], boot_time=0.0, written_at=None) is not None


def test_nobody_left_is_the_kernel_s_word() -> None:
    assert suspected([], boot_time=0.0, written_at=5.0) is None
    found = gone(0)
    assert (found.claim, found.authority, found.address) == ("gone", "kernel", "/proc")


class Shown(Process):
    """A process as others are shown it, in no process table."""

    __slots__ = ()

    def __init__(
        self, pid: int, parent: int, argv: tuple[str, ...], exe: str | None, layout: int
    ) -> None:
        super().__init__(process(pid).identity, parent, "S", "agent", layout=layout)
        self._argv, self._exe, self._described = argv, exe, True


def test_a_child_between_fork_and_exec_is_a_twin() -> None:
    parent = Shown(10, 1, ("agent", "x"), "/bin/agent", 5)
    forked = Shown(11, 10, ("agent", "x"), "/bin/agent", 5)
    again = Shown(12, 10, ("agent", "x"), "/bin/agent", 6)  # executed the same once more
    words = Shown(13, 10, ("agent", "y"), "/bin/agent", 5)
    other = Shown(14, 10, ("agent", "x"), "/bin/sh", 5)
    apart = Shown(15, 1, ("agent", "x"), "/bin/agent", 5)
    assert twins([parent, forked, again, words, other, apart]) == {11}
    assert twins([forked]) == set()


def test_a_real_fork_is_a_twin_and_a_real_exec_is_none(tmp_path: Path) -> None:
    program = (
        "import os, sys, subprocess\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "words = [sys.executable, '-c', 'import sys; sys.stdin.read()']\n"
        "again = subprocess.Popen(words)\n"
        "print(child, again.pid, flush=True)\n"
        "sys.stdin.read()\n"
        "os.waitpid(child, 0)\n"
        "again.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        forked, again = map(int, parent.stdout.readline().split())
        family = [proc.read_process(pid, proc.boot_id()) for pid in (parent.pid, forked, again)]
        assert twins(family) == {forked}
        parent.stdin.close()
