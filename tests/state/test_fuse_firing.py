"""One claims, each action is confirmed, one settles; who dies in between leaves the rest to the next."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentctl.errors import AgentctlError
from agentctl.state import db, fuse_firing, fuses, journal
from agentctl.state.fuse import Action, Fuse, Moment
from tests.running import SOURCES
from tests.state.racing import race

ACTIONS = (
    Action("emit", "first"),
    Action("run", "true"),
    Action("webhook", "https://example.org/"),
    Action("emit", "last"),
)
FINE = {"do": "run", "ok": True}
NOON = Moment("boot", 100.0, 1e9)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def overdue(path: str) -> Fuse:
    return fuses.light(path, ACTIONS, 0.0, directory="/work", label="l")


def claimed(path: str) -> Fuse:
    taken = fuse_firing.claim(path, overdue(path).id, fuse_firing.ourselves())
    assert taken is not None
    return taken


def told(path: str) -> list[str]:
    return [event.type for event in journal.after(path, 0)]


def outbox(path: str) -> list[Any]:
    with db.transaction(path) as connection:
        return connection.execute("select id, kind, target, url, seq from outbox").fetchall()


def test_from_claim_to_settled(path: str) -> None:
    known = claimed(path)
    assert fuse_firing.emit(path, known, 0)
    assert fuse_firing.confirm(path, known, 1, FINE)
    assert fuse_firing.emit(path, known, 3)
    done = fuse_firing.settle(path, known)
    assert done is not None
    assert (done.state, [r and r["ok"] for r in done.results]) == ("fired", [True] * 4)
    assert told(path) == ["fuse.set", "user.first", "user.last", "fuse.fired"]
    ((delivery, *rest),) = outbox(path)
    fired = journal.after(path, 0)[-1]
    assert rest == ["webhook", "fuse", "https://example.org/", fired.seq]
    assert fired.body["data"]["results"][2]["delivery"] == delivery
    assert fuses.recorded(path)[0]._replace(claimed_at=None) == done._replace(claimed_at=None)


def test_one_action_that_failed_is_a_failure_that_is_still_sent(path: str) -> None:
    known = claimed(path)
    fuse_firing.emit(path, known, 0)
    fuse_firing.confirm(path, known, 1, {"do": "run", "ok": False, "code": 3})
    fuse_firing.emit(path, known, 3)
    done = fuse_firing.settle(path, known)
    assert done is not None
    assert done.state == "failed"
    assert told(path)[-1] == "fuse.failed"
    assert len(outbox(path)) == 1


def test_not_before_its_time(path: str) -> None:
    made = fuses.light(path, ACTIONS, 60, moment=NOON)
    assert (
        fuse_firing.claim(path, made.id, fuse_firing.ourselves(), NOON._replace(elapsed=159, at=1e12))
        is None
    )
    assert fuse_firing.claim(path, made.id, fuse_firing.ourselves(), NOON._replace(elapsed=160))
    assert fuse_firing.claim(path, "nosuch", fuse_firing.ourselves()) is None


def test_what_is_settled_or_cancelled_is_not_claimed(path: str) -> None:
    known = claimed(path)
    assert fuse_firing.settle(path, known) is not None
    assert fuse_firing.claim(path, known.id, fuse_firing.ourselves()) is None
    other = overdue(path)
    fuses.cancel(path, other.id, "")
    assert fuse_firing.claim(path, other.id, fuse_firing.ourselves()) is None


def test_of_ten_one_claims_it(path: str) -> None:
    made = overdue(path)
    deed = (
        "from agentctl.state import fuse_firing as firing; "
        "assert firing.claim(sys.argv[1], sys.argv[2], firing.ourselves()) or sys.stdout.write('not ')"
    )
    assert sorted(race(10, deed, path, made.id)) == ["not won"] * 9 + ["won"]


KILLED = """
import os, signal, sys
from agentctl.state import fuse_firing as firing
path, fuse_id, steps = sys.argv[1:]
known = firing.claim(path, fuse_id, firing.ourselves())
assert known
for step in range(int(steps)):
    if step == 1:
        firing.confirm(path, known, 1, {"do": "run", "ok": True})
    elif step < 4:
        step == 2 or firing.emit(path, known, step)
    else:
        firing.settle(path, known)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("steps", range(6))
def test_killed_between_any_two_steps_nothing_is_lost_and_nothing_confirmed_is_done_twice(
    path: str, steps: int
) -> None:
    made = overdue(path)
    environ = {"PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-S", "-c", KILLED, path, made.id, str(steps)]
    assert subprocess.run(words, env=environ, check=False).returncode == -9
    done_before = [each for each in told(path) if each.startswith("user.")]
    again = fuse_firing.claim(path, made.id, fuse_firing.ourselves())
    if steps == 5:
        assert again is None
    else:
        assert again is not None
        confirmed = [result is not None for result in again.results]
        assert confirmed == [steps > 0, steps > 1, False, steps > 3]
        for index in (0, 1, 3):
            if not confirmed[index]:
                fuse_firing.confirm(path, again, 1, FINE) if index == 1 else fuse_firing.emit(
                    path, again, index
                )
        assert fuse_firing.settle(path, again)
    kinds = told(path)
    assert kinds == ["fuse.set", "user.first", "user.last", "fuse.fired"]
    assert kinds[1 : 1 + len(done_before)] == done_before
    assert len(outbox(path)) == 1


def test_one_that_lives_keeps_its_claim_and_who_lost_it_does_no_more(path: str) -> None:
    known = claimed(path)
    me = fuse_firing.ourselves()
    other = me._replace(identity=me.identity._replace(pid=1))
    assert fuse_firing.claim(path, known.id, other) is None
    assert fuse_firing.claim(path, known.id, me) is not None  # again, as after an error of our own
    lost = known._replace(claim=other)
    assert fuse_firing.confirm(path, lost, 1, FINE) is None
    assert fuse_firing.emit(path, lost, 0) is None
    assert fuse_firing.settle(path, lost) is None
    assert told(path) == ["fuse.set"]


class Machine(RuleBasedStateMachine):
    """Any order of deeds, at any time, against a model of four lines."""

    @initialize()
    def begin(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/state.db"
        self.moment = NOON
        self.model: dict[str, tuple[str, float]] = {}  # state, due
        self.claims: dict[str, Fuse] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(seconds=st.floats(0, 100))
    def light(self, seconds: float) -> None:
        made = fuses.light(self.path, (Action("emit", "x"),), seconds, moment=self.moment)
        self.model[made.id] = ("burning", self.moment.elapsed + seconds)

    @rule(seconds=st.floats(0, 100), wall=st.floats(-1e4, 1e4))
    def time_passes(self, seconds: float, wall: float) -> None:
        self.moment = self.moment._replace(
            elapsed=self.moment.elapsed + seconds, at=self.moment.at + wall
        )

    @precondition(lambda self: self.model)
    @rule(data=st.data(), seconds=st.floats(0, 100), anew=st.booleans())
    def extend(self, data: st.DataObject, seconds: float, anew: bool) -> None:
        chosen = data.draw(st.sampled_from(list(self.model)))
        state, due = self.model[chosen]
        before = self.moment.elapsed if anew else max(due, self.moment.elapsed)
        try:
            fuses.extend(self.path, chosen, seconds, anew=anew, moment=self.moment)
        except AgentctlError:
            assert state != "burning"
        else:
            assert state == "burning"
            self.model[chosen] = (state, before + seconds)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(list(self.model)))
        state, due = self.model[chosen]
        try:
            fuses.cancel(self.path, chosen, "", self.moment)
        except AgentctlError:
            assert state != "burning"
        else:
            assert state == "burning"
            self.model[chosen] = ("cancelled", due)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def claim(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(list(self.model)))
        state, due = self.model[chosen]
        won = fuse_firing.claim(self.path, chosen, fuse_firing.ourselves(), self.moment)
        close = abs(due - self.moment.elapsed) < 1e-6
        expected = state == "firing" or (state == "burning" and due <= self.moment.elapsed)
        assert close or (won is not None) == expected
        if won is not None:
            self.model[chosen] = ("firing", due)
            self.claims[chosen] = won

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(list(self.claims)))
        state, due = self.model[chosen]
        known = self.claims.pop(chosen)
        fuse_firing.emit(self.path, known, 0)
        assert (fuse_firing.settle(self.path, known) is not None) == (state == "firing")
        if state == "firing":
            self.model[chosen] = ("fired", due)

    @invariant()
    def the_rows_are_as_the_model_says(self) -> None:
        found = {each.id: each.state for each in fuses.recorded(self.path)}
        assert found == {fuse_id: state for fuse_id, (state, _) in self.model.items()}
        fired = [e.body["data"]["fuse"] for e in journal.after(self.path, 0) if e.type == "fuse.fired"]
        assert sorted(fired) == sorted(k for k, (state, _) in self.model.items() if state == "fired")


Machine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestMachine = Machine.TestCase


def test_ourselves() -> None:
    assert fuse_firing.ourselves().identity.pid == os.getpid()
    assert fuse_firing.ourselves().may_live


def test_a_webhook_by_its_name_is_looked_up_when_it_is_sent(path: str) -> None:
    """And a target that is told of all fuses anyway is told of this one once."""
    with db.transaction(path) as connection:
        for name in ("ci", "other"):
            connection.execute(
                "insert into target (kind, name, events) values ('webhook', ?, '[\"fuse.*\"]')", (name,)
            )
    lit = fuses.light(path, (Action("webhook", "ci"),), 0.0, directory="/work")
    known = fuse_firing.claim(path, lit.id, fuse_firing.ourselves())
    assert known is not None
    done = fuse_firing.settle(path, known)
    assert done is not None
    assert done.results[0] is not None
    fired = journal.latest(path)[-1]
    queued = [row for row in outbox(path) if row[4] == fired.seq]
    assert sorted(row[2:4] for row in queued) == [("ci", None), ("other", None)]
    assert done.results[0]["delivery"] in [row[0] for row in queued if row[2] == "ci"]


def test_a_webhook_by_its_address_is_not_the_target_of_the_name_fuse(path: str) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "insert into target (kind, name, events) values ('webhook', 'fuse', '[\"fuse.*\"]')"
        )
    lit = fuses.light(path, (Action("webhook", "https://example.org/"),), 0.0, directory="/work")
    known = fuse_firing.claim(path, lit.id, fuse_firing.ourselves())
    assert known is not None
    assert fuse_firing.settle(path, known) is not None
    fired = journal.latest(path)[-1]
    queued = {row[3] for row in outbox(path) if row[4] == fired.seq}
    assert queued == {None, "https://example.org/"}
