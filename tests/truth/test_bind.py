"""Which process runs which session."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.truth.bind import METHODS, Method, Tie, bind, find_forks
from tests.truth.strategies import make_process, ties

ONE, TWO = make_process(10), make_process(20)
CHILD = make_process(11, parent=10)
ZOMBIE = make_process(30, state="Z")


def make_tie(session: str, to: Process, method: Method = "inferred", *, shared: bool = False) -> Tie:
    return Tie(session, to, method, f"/{session}/{to.pid}", shared)


@pytest.mark.parametrize(("stronger", "weaker"), list(pairwise(METHODS)))
def test_the_stronger_method_wins_in_any_order(stronger: Method, weaker: Method) -> None:
    pair = [make_tie("a", TWO, weaker), make_tie("a", ONE, stronger)]
    for ordered in (pair, pair[::-1]):
        bound = bind(ordered)["a"]
        assert (bound.owner, bound.method) == (ONE, stronger)
        assert bound.candidates == (ONE,)


def test_two_processes_may_run_one_session_by_their_records() -> None:
    bound = bind([make_tie("a", ONE, "pid record"), make_tie("a", TWO, "pid record")])["a"]
    assert bound.owner is ONE
    assert bound.candidates == (ONE, TWO)
    assert "pid 10, pid 20 run it at the same time" in bound.to_evidence().note
    assert bound.to_evidence().claim == "alive"


def test_a_forked_child_that_holds_the_same_lock_is_not_the_owner() -> None:
    for pair in (
        [make_tie("a", CHILD, "held open"), make_tie("a", ONE, "held open")],
        [make_tie("a", ONE, "held open"), make_tie("a", CHILD, "held open")],
    ):
        bound = bind(pair)["a"]
        assert bound.owner is ONE
        assert bound.candidates == (ONE,)


def test_a_server_owns_all_its_sessions() -> None:
    strong = bind([make_tie("a", ONE, "held open"), make_tie("b", ONE, "held open")])
    assert {bound.owner for bound in strong.values()} == {ONE}
    weak = bind([make_tie("a", ONE, shared=True), make_tie("b", ONE, shared=True)])
    assert {bound.owner for bound in weak.values()} == {ONE}


def test_an_inference_needs_one_candidate_on_both_sides() -> None:
    assert bind([make_tie("a", ONE)])["a"].owner is ONE
    two_processes = bind([make_tie("a", ONE), make_tie("a", TWO)])["a"]
    assert two_processes.owner is None
    assert two_processes.candidates == (ONE, TWO)
    two_sessions = bind([make_tie("a", ONE), make_tie("b", ONE)])
    assert [bound.owner for bound in two_sessions.values()] == [None, None]
    assert two_processes.to_evidence().claim == "ambiguous"
    assert "pid 10, pid 20" in two_processes.to_evidence().note


def test_a_process_with_a_strong_tie_is_inferred_for_no_other_session() -> None:
    bound = bind([make_tie("a", ONE, "pid record"), make_tie("b", ONE), make_tie("b", TWO)])
    assert bound["b"].owner is TWO
    assert "b" not in bind([make_tie("a", ONE, "pid record"), make_tie("b", ONE)])


def test_a_dead_process_is_tied_to_nothing() -> None:
    assert bind([make_tie("a", ZOMBIE, "pid record")]) == {}
    assert bind([make_tie("a", ZOMBIE, "pid record"), make_tie("a", ONE)])["a"].owner is ONE


@given(st.lists(ties, max_size=10))
def test_a_session_has_at_most_one_owner_which_is_alive(tie_list: list[Tie]) -> None:
    for session_id, bound in bind(tie_list).items():
        assert bound.session_id == session_id
        assert bound.candidates
        assert all(candidate.is_alive for candidate in bound.candidates)
        if bound.owner is None:
            assert bound.method == "inferred"
            assert bound.to_evidence().claim == "ambiguous"
        else:
            assert bound.candidates[0] is bound.owner
            assert bound.to_evidence().claim == "alive"
            assert bound.to_evidence().authority == "kernel"


@given(st.lists(ties, max_size=10))
def test_an_inferred_tie_with_two_candidates_never_has_an_owner(tie_list: list[Tie]) -> None:
    for bound in bind(tie_list).values():
        if bound.method == "inferred" and len(bound.candidates) > 1:
            assert bound.owner is None


@example([make_tie("a", ONE), make_tie("b", ONE)])
@given(st.lists(ties, max_size=10))
def test_an_inferred_owner_runs_no_other_session_unless_it_is_a_server(tie_list: list[Tie]) -> None:
    bound = bind(tie_list)
    for one in bound.values():
        if one.method != "inferred" or one.owner is None:
            continue
        if not any(t.shared for t in tie_list if t.process is one.owner):
            others = [b for b in bound.values() if b.owner is one.owner and b is not one]
            assert others == []


@given(st.lists(ties, max_size=10))
def test_every_session_with_a_live_strong_tie_has_an_owner(tie_list: list[Tie]) -> None:
    bound = bind(tie_list)
    for each in tie_list:
        if each.process.is_alive and each.method != "inferred":
            assert bound[each.session_id].owner is not None


class DescribedProcess(Process):
    """A process with its arguments and binary, in no process table."""

    __slots__ = ()

    def __init__(
        self, pid: int, parent: int, argv: tuple[str, ...], exe: str | None, layout: int
    ) -> None:
        super().__init__(make_process(pid).identity, parent, "S", "agent", layout=layout)
        self._argv, self._exe, self._described = argv, exe, True


def test_a_child_between_fork_and_exec_is_a_twin() -> None:
    parent = DescribedProcess(10, 1, ("agent", "x"), "/bin/agent", 5)
    forked = DescribedProcess(11, 10, ("agent", "x"), "/bin/agent", 5)
    again = DescribedProcess(12, 10, ("agent", "x"), "/bin/agent", 6)  # after an exec of the same
    words = DescribedProcess(13, 10, ("agent", "y"), "/bin/agent", 5)
    other = DescribedProcess(14, 10, ("agent", "x"), "/bin/sh", 5)
    apart = DescribedProcess(15, 1, ("agent", "x"), "/bin/agent", 5)
    assert find_forks([parent, forked, again, words, other, apart]) == {11}
    assert find_forks([forked]) == set()


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
        family = [proc.read_process(pid, proc.read_boot_id()) for pid in (parent.pid, forked, again)]
        assert find_forks(family) == {forked}
        parent.stdin.close()
