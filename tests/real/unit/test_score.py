"""The benchmark's own judgement: what counts as right, as a lie, as missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.system.proc import ProcessIdentity
from tests.real.accuracy.sampler import Sample
from tests.real.accuracy.score import Finding, Judge
from tests.real.accuracy.timeline import Census, Timeline
from tests.real.accuracy.tools import Row
from tests.real.accuracy.tools.ours import Agentctl
from tests.real.book import State, Who

ME = Who("one", "codex", ProcessIdentity("boot", 7, 70), "id-1")
OTHER = Who("two", "codex", ProcessIdentity("boot", 8, 80), "id-1")


class Story:
    """A short history, in seconds."""

    def __init__(self) -> None:
        self.timeline = Timeline(hold=0.0)
        self.samples: list[Sample] = []

    def declare(self, at: float, status: str, who: Who = ME, **more: str) -> None:
        self.timeline.declare(who, State(status, **more), at)

    def ask(self, at: float, *rows: Row, took: float = 0.1) -> None:
        self.samples.append(Sample(at, at + took, rows, self._census(at), self._census(at + took)))

    def _census(self, at: float) -> Census:
        """As the kernel would have answered at that time."""
        actors = [actor for actor in self.timeline.actors.values() if actor.entries]
        return {a.name: a.died_at is None or at < a.died_at for a in actors if a.entries[0].at <= at}

    def kinds(self) -> list[str]:
        return [finding.kind for finding in self.findings() if finding.kind not in ("noticed", "missed")]

    def findings(self) -> list[Finding]:
        return Judge(Agentctl(), "a play", self.timeline.actors).findings(self.samples)


def make_row(status: str, session_id: str | None = "id-1", pid: int | None = 7) -> Row:
    return Row(pid, session_id, status, status)


@pytest.mark.parametrize(
    ("status", "kind"), [("running", "right"), ("idle", "wrong"), ("unknown", "unknown")]
)
def test_a_settled_answer_is_compared_with_the_truth(status: str, kind: str) -> None:
    story = Story()
    story.declare(10.0, "running")
    story.ask(11.0, make_row(status))
    assert story.kinds() == [kind]


def test_an_answer_counts_only_half_a_second_after_the_change() -> None:
    story = Story()
    story.declare(10.0, "running")
    story.ask(10.4, make_row("idle"))
    assert story.kinds() == []


def test_an_answer_during_which_something_happened_does_not_count() -> None:
    story = Story()
    story.declare(10.0, "running")
    story.timeline.unsettled(ME, 11.05)
    story.ask(11.0, make_row("idle"))
    story.ask(12.0, make_row("idle"))
    assert story.kinds() == []


def test_a_living_session_that_is_not_listed_is_wrong() -> None:
    story = Story()
    story.declare(10.0, "idle")
    story.ask(11.0)
    assert story.kinds() == ["wrong"]


def test_a_dead_session_without_a_record_need_not_be_listed() -> None:
    story = Story()
    nameless = ME._replace(session_id=None)
    story.declare(10.0, "stopped", nameless)
    story.timeline.record_end(nameless, 10.0)
    story.ask(11.0)
    assert story.kinds() == []


def test_stopped_is_a_lie_while_the_process_lives_even_if_unsettled() -> None:
    story = Story()
    story.declare(9.0, "running")
    story.timeline.unsettled(ME, 10.0)
    story.timeline.record_end(ME, 10.5)
    story.ask(10.3, make_row("stopped"))
    assert story.kinds() == ["wrong-stopped"]


def test_stopped_is_no_lie_if_the_process_ended_while_the_answer_was_made() -> None:
    story = Story()
    story.timeline.unsettled(ME, 10.0)
    story.timeline.record_end(ME, 10.35)
    story.ask(10.3, make_row("stopped"))
    assert story.kinds() == []


def test_alive_is_a_lie_if_the_process_ended_before_the_question() -> None:
    story = Story()
    story.declare(9.0, "running")
    story.timeline.record_end(ME, 10.0)
    story.timeline.unsettled(ME, 10.0)
    story.ask(10.001, make_row("running"))
    assert story.kinds() == ["said-alive"]


def test_a_session_that_another_process_resumed_may_be_alive() -> None:
    story = Story()
    story.declare(9.0, "running")
    story.timeline.record_end(ME, 10.0)
    story.declare(10.0, "stopped")
    story.timeline.unsettled(ME, 10.5)
    story.declare(11.0, "running", OTHER)
    story.ask(12.0, make_row("running", pid=8))
    assert story.kinds() == ["right"]


def test_a_session_is_not_yet_alive_while_its_new_process_loads_it() -> None:
    story = Story()
    story.timeline.unsettled(ME, 10.0)
    story.declare(11.0, "idle")
    story.ask(10.5, make_row("stopped", pid=None))
    assert story.kinds() == []


def test_a_session_that_its_process_has_left_is_stopped() -> None:
    story = Story()
    story.declare(9.0, "idle")
    story.timeline.unsettled(ME, 10.0)
    story.declare(10.5, "stopped")
    story.ask(10.2, make_row("stopped", pid=None))
    story.ask(11.5, make_row("stopped", pid=None))
    assert story.kinds() == ["right"]


def test_a_row_under_another_id_is_not_its_own() -> None:
    story = Story()
    story.declare(10.0, "idle")
    story.ask(11.0, make_row("idle", session_id="id-9"))
    assert story.kinds() == ["wrong"]


def test_a_change_is_noticed_when_the_answer_is_in_hand() -> None:
    story = Story()
    story.declare(10.0, "running")
    story.ask(10.2, make_row("idle"))
    story.ask(10.4, make_row("running"))
    noticed = [finding for finding in story.findings() if finding.kind == "noticed"]
    assert [(f.truth, round(f.at, 3)) for f in noticed] == [("start → running", 0.5)]


def test_a_change_is_missed_only_if_the_tool_was_asked_in_time() -> None:
    story = Story()
    story.declare(10.0, "running")
    story.timeline.unsettled(ME, 11.0)
    story.declare(12.0, "idle")
    story.ask(10.6, make_row("idle"))
    missed = [finding.truth for finding in story.findings() if finding.kind == "missed"]
    assert missed == ["start → running"]


def test_a_blind_answer_is_marked_as_blind() -> None:
    story = Story()
    story.declare(10.0, "waiting", blind="nothing is written")
    story.ask(11.0, make_row("running"))
    assert [(f.kind, f.blind) for f in story.findings()] == [("wrong", "nothing is written")]


@given(st.lists(st.floats(0, 60), max_size=20))
def test_true_answers_are_never_wrong(moments: list[float]) -> None:
    story = Story()
    story.declare(0.0, "running")
    story.timeline.unsettled(ME, 20.0)
    story.declare(21.0, "idle")
    story.timeline.unsettled(ME, 40.0)
    story.timeline.record_end(ME, 41.0)
    story.declare(41.0, "stopped")
    for at in moments:
        truth = "running" if at < 20.5 else "idle" if at < 41.0 else "stopped"
        story.ask(at, make_row(truth, pid=None if truth == "stopped" else 7), took=0.0)
    assert set(story.kinds()) <= {"right"}
