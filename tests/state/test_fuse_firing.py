"""One process claims a fuse, confirms each action and settles it; if it dies, the next does the rest."""

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentctl.errors import AgentctlError
from agentctl.state import db, fuse_firing, fuses, journal
from agentctl.state.fuses import Action, Fuse, Moment
from tests.running import SOURCES
from tests.state.events import read_event_types
from tests.state.racing import race

ACTIONS = (
    Action("emit", "first"),
    Action("run", "true"),
    Action("webhook", "https://example.org/"),
    Action("emit", "last"),
)
FINE = {"do": "run", "ok": True}
NOON = Moment("boot", 100.0, 1e9)


def set_overdue(path: str) -> Fuse:
    return fuses.set_fuse(path, ACTIONS, 0.0, directory="/work", label="l")


def claim_overdue(path: str) -> Fuse:
    fuse = fuse_firing.claim_fuse(path, set_overdue(path).id, fuse_firing.make_claim())
    assert fuse is not None
    return fuse


def read_outbox(path: str) -> list[Any]:
    with db.transaction(path) as connection:
        return connection.execute("select id, kind, target, url, seq from outbox").fetchall()


def test_a_fuse_is_claimed_confirmed_and_settled(path: str) -> None:
    fuse = claim_overdue(path)
    assert fuse_firing.emit_event(path, fuse, 0)
    assert fuse_firing.confirm_action(path, fuse, 1, FINE)
    assert fuse_firing.emit_event(path, fuse, 3)
    result = fuse_firing.settle_fuse(path, fuse)
    assert result is not None
    assert (result.state, [r and r["ok"] for r in result.results]) == ("fired", [True] * 4)
    assert read_event_types(path) == ["fuse.set", "user.first", "user.last", "fuse.fired"]
    ((delivery, *rest),) = read_outbox(path)
    fired = journal.read_after(path, 0)[-1]
    assert rest == ["webhook", "fuse", "https://example.org/", fired.seq]
    assert fired.body["data"]["results"][2]["delivery"] == delivery
    assert fuses.list_fuses(path)[0]._replace(claimed_at=None) == result._replace(claimed_at=None)


def test_a_fuse_with_a_failed_action_fails_and_is_still_sent(path: str) -> None:
    fuse = claim_overdue(path)
    fuse_firing.emit_event(path, fuse, 0)
    fuse_firing.confirm_action(path, fuse, 1, {"do": "run", "ok": False, "code": 3})
    fuse_firing.emit_event(path, fuse, 3)
    result = fuse_firing.settle_fuse(path, fuse)
    assert result is not None
    assert result.state == "failed"
    assert read_event_types(path)[-1] == "fuse.failed"
    assert len(read_outbox(path)) == 1


def test_a_fuse_is_not_claimed_before_its_time(path: str) -> None:
    fuse = fuses.set_fuse(path, ACTIONS, 60, moment=NOON)
    assert (
        fuse_firing.claim_fuse(
            path, fuse.id, fuse_firing.make_claim(), NOON._replace(elapsed=159, at=1e12)
        )
        is None
    )
    assert fuse_firing.claim_fuse(path, fuse.id, fuse_firing.make_claim(), NOON._replace(elapsed=160))
    assert fuse_firing.claim_fuse(path, "nosuch", fuse_firing.make_claim()) is None


def test_a_settled_or_cancelled_fuse_is_not_claimed(path: str) -> None:
    fuse = claim_overdue(path)
    assert fuse_firing.settle_fuse(path, fuse) is not None
    assert fuse_firing.claim_fuse(path, fuse.id, fuse_firing.make_claim()) is None
    other = set_overdue(path)
    fuses.cancel_fuse(path, other.id, "")
    assert fuse_firing.claim_fuse(path, other.id, fuse_firing.make_claim()) is None


def test_one_of_ten_processes_claims_it(path: str) -> None:
    fuse = set_overdue(path)
    code = (
        "from agentctl.state import fuse_firing as firing; "
        "assert firing.claim_fuse(*sys.argv[1:], firing.make_claim()) or sys.stdout.write('not ')"
    )
    assert sorted(race(10, code, path, fuse.id)) == ["not won"] * 9 + ["won"]


KILLED = """
import os, signal, sys
from agentctl.state import fuse_firing as firing
path, fuse_id, steps = sys.argv[1:]
fuse = firing.claim_fuse(path, fuse_id, firing.make_claim())
assert fuse
for step in range(int(steps)):
    if step == 1:
        firing.confirm_action(path, fuse, 1, {"do": "run", "ok": True})
    elif step < 4:
        step == 2 or firing.emit_event(path, fuse, step)
    else:
        firing.settle_fuse(path, fuse)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("steps", range(6))
def test_after_a_kill_no_action_is_lost_and_no_confirmed_one_is_repeated(path: str, steps: int) -> None:
    fuse = set_overdue(path)
    environ = {"PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-S", "-c", KILLED, path, fuse.id, str(steps)]
    assert subprocess.run(words, env=environ, check=False).returncode == -9
    events_before = [each for each in read_event_types(path) if each.startswith("user.")]
    again = fuse_firing.claim_fuse(path, fuse.id, fuse_firing.make_claim())
    if steps == 5:
        assert again is None
    else:
        assert again is not None
        confirmed = [result is not None for result in again.results]
        assert confirmed == [steps > 0, steps > 1, False, steps > 3]
        for index in (0, 1, 3):
            if not confirmed[index]:
                fuse_firing.confirm_action(
                    path, again, 1, FINE
                ) if index == 1 else fuse_firing.emit_event(path, again, index)
        assert fuse_firing.settle_fuse(path, again)
    kinds = read_event_types(path)
    assert kinds == ["fuse.set", "user.first", "user.last", "fuse.fired"]
    assert kinds[1 : 1 + len(events_before)] == events_before
    assert len(read_outbox(path)) == 1


def test_a_live_process_keeps_its_claim_and_another_can_do_nothing(path: str) -> None:
    fuse = claim_overdue(path)
    me = fuse_firing.make_claim()
    other = me._replace(identity=me.identity._replace(pid=1))
    assert fuse_firing.claim_fuse(path, fuse.id, other) is None
    assert fuse_firing.claim_fuse(path, fuse.id, me) is not None  # again, as after an error of our own
    lost = fuse._replace(claim=other)
    assert fuse_firing.confirm_action(path, lost, 1, FINE) is None
    assert fuse_firing.emit_event(path, lost, 0) is None
    assert fuse_firing.settle_fuse(path, lost) is None
    assert read_event_types(path) == ["fuse.set"]


class Machine(RuleBasedStateMachine):
    """Any order of calls, at any time, against a model of four lines."""

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
    def set_fuse(self, seconds: float) -> None:
        fuse = fuses.set_fuse(self.path, (Action("emit", "x"),), seconds, moment=self.moment)
        self.model[fuse.id] = ("burning", self.moment.elapsed + seconds)

    @rule(seconds=st.floats(0, 100), wall=st.floats(-1e4, 1e4))
    def time_passes(self, seconds: float, wall: float) -> None:
        self.moment = self.moment._replace(
            elapsed=self.moment.elapsed + seconds, at=self.moment.at + wall
        )

    @precondition(lambda self: self.model)
    @rule(data=st.data(), seconds=st.floats(0, 100), from_now=st.booleans())
    def extend(self, data: st.DataObject, seconds: float, from_now: bool) -> None:
        chosen = data.draw(st.sampled_from(list(self.model)))
        state, due = self.model[chosen]
        before = self.moment.elapsed if from_now else max(due, self.moment.elapsed)
        try:
            fuses.extend_fuse(self.path, chosen, seconds, from_now=from_now, moment=self.moment)
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
            fuses.cancel_fuse(self.path, chosen, "", self.moment)
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
        won = fuse_firing.claim_fuse(self.path, chosen, fuse_firing.make_claim(), self.moment)
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
        fuse = self.claims.pop(chosen)
        fuse_firing.emit_event(self.path, fuse, 0)
        assert (fuse_firing.settle_fuse(self.path, fuse) is not None) == (state == "firing")
        if state == "firing":
            self.model[chosen] = ("fired", due)

    @invariant()
    def rows_equal_the_model(self) -> None:
        states = {each.id: each.state for each in fuses.list_fuses(self.path)}
        assert states == {fuse_id: state for fuse_id, (state, _) in self.model.items()}
        fired = [
            e.body["data"]["fuse"] for e in journal.read_after(self.path, 0) if e.type == "fuse.fired"
        ]
        assert sorted(fired) == sorted(k for k, (state, _) in self.model.items() if state == "fired")


Machine.TestCase.settings = settings(
    max_examples=settings().max_examples // 4, stateful_step_count=20, deadline=None
)
TestMachine = Machine.TestCase


def test_our_own_claim_may_live() -> None:
    assert fuse_firing.make_claim().identity.pid == os.getpid()
    assert fuse_firing.make_claim().may_live


def test_a_webhook_is_looked_up_by_its_name_when_it_is_sent(path: str) -> None:
    """A target that gets all fuse events gets this one once."""
    with db.transaction(path) as connection:
        for name in ("ci", "other"):
            connection.execute(
                "insert into target (kind, name, events) values ('webhook', ?, '[\"fuse.*\"]')", (name,)
            )
    fuse = fuses.set_fuse(path, (Action("webhook", "ci"),), 0.0, directory="/work")
    firing = fuse_firing.claim_fuse(path, fuse.id, fuse_firing.make_claim())
    assert firing is not None
    result = fuse_firing.settle_fuse(path, firing)
    assert result is not None
    assert result.results[0] is not None
    fired = journal.read_latest(path)[-1]
    queued = [row for row in read_outbox(path) if row[4] == fired.seq]
    assert sorted(row[2:4] for row in queued) == [("ci", None), ("other", None)]
    assert result.results[0]["delivery"] in [row[0] for row in queued if row[2] == "ci"]


def test_a_webhook_by_its_address_is_not_the_target_named_fuse(path: str) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "insert into target (kind, name, events) values ('webhook', 'fuse', '[\"fuse.*\"]')"
        )
    fuse = fuses.set_fuse(path, (Action("webhook", "https://example.org/"),), 0.0, directory="/work")
    firing = fuse_firing.claim_fuse(path, fuse.id, fuse_firing.make_claim())
    assert firing is not None
    assert fuse_firing.settle_fuse(path, firing) is not None
    fired = journal.read_latest(path)[-1]
    queued = {row[3] for row in read_outbox(path) if row[4] == fired.seq}
    assert queued == {None, "https://example.org/"}
