"""Law 5: `list`, `status` and `why` cannot disagree, whatever happened before. Real processes go through
a random history; what the test itself did to them is the oracle."""

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentctl.testing import Puppet, Stage
from agentctl.truth.model import Session
from agentctl.truth.survey import HistoryQuery
from agentctl.wire import session as shapes
from tests.fakes.stages import stages
from tests.fakes.stranger import Stranger
from tests.law.asking import LIVE, SOURCES, agentctl_json

MOST = 3  # agents at a time
EXPECTED = {"work": ("running", "working"), "ask": ("waiting", "waiting"), "rest": ("idle", "idle")}
picks = st.integers(0, MOST - 1)


class Actor:
    """What the test knows of one session."""

    def __init__(self, puppet: Puppet) -> None:
        self.puppet = puppet
        self.session_id: str | None = None
        self.doing = ""  # the last step of a live session
        self.outcome = ""  # empty while it lives
        self.intact = True  # its native records are as the agent wrote them
        self.records: list[Path] = []


class History(RuleBasedStateMachine):
    """One stage, a few agents, and everything that can happen to them."""

    stage_class: ClassVar[type[Stage]]

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.stage = self.stage_class(self.root)
        # A late adapter on a loaded machine is no finding.
        self.stage.environ["AGENTCTL_DEADLINE"] = "60s"
        self.actors: list[Actor] = []
        self.steps = 0

    def teardown(self) -> None:
        self.stage.close()
        shutil.rmtree(self.root)

    # what can happen

    @initialize()
    def start_one(self) -> None:
        self.start()

    @precondition(lambda self: len(self.list_living()) < MOST)
    @rule()
    def start(self) -> None:
        # each in a directory of its own: agents that share one may be ambiguous, which law 3 tests
        actor = Actor(self.stage.start(self.root / f"work{len(self.actors)}"))
        self.actors.append(actor)
        self.perform(actor, "work")

    @rule(pick=picks)
    def work(self, pick: int) -> None:
        self.perform(self.pick(pick), "work")

    @rule(pick=picks)
    def ask(self, pick: int) -> None:
        if self.stage.can_ask:
            self.perform(self.pick(pick), "work")
            self.perform(self.pick(pick), "ask")

    @rule(pick=picks)
    def rest(self, pick: int) -> None:
        self.perform(self.pick(pick), "work")
        self.perform(self.pick(pick), "rest")

    @rule(pick=picks)
    def finish(self, pick: int) -> None:
        actor = self.pick(pick)
        if actor is not None:
            self.perform(actor, "work")
            self.perform(actor, "rest")
            actor.puppet.finish()
            actor.outcome = "completed"

    @rule(pick=picks)
    def fail(self, pick: int) -> None:
        actor = self.pick(pick)
        if actor is not None and self.stage.writes_failures:
            self.perform(actor, "work")
            self.perform(actor, "fail")
            actor.puppet.finish(1)
            actor.outcome = "failed"

    @rule(pick=picks, reap=st.booleans())
    def kill(self, pick: int, reap: bool) -> None:
        actor = self.pick(pick)
        if actor is not None:
            self.perform(actor, "work")
            actor.puppet.kill(reap=reap)
            actor.outcome = "killed"

    @rule(pick=picks, rubbish=st.sampled_from([b"", b"\0\n", b"{}\n", b"\xff{\n" * 30]))
    def corrupt(self, pick: int, rubbish: bytes) -> None:
        actor = self.pick(pick)
        if actor is not None and self.has_own_records(actor):
            for path in actor.records:
                if path.is_file():
                    path.write_bytes(rubbish)
            actor.intact = False

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        actor = self.pick(pick)
        if actor is not None and self.has_own_records(actor):
            for path in actor.records:
                path.unlink(missing_ok=True)
            actor.intact = False

    @rule(pick=picks)
    def resume(self, pick: int) -> None:
        ended_actors = [a for a in self.actors if a.outcome and a.intact]
        if not ended_actors or len(self.list_living()) >= MOST:
            return
        actor = ended_actors[pick % len(ended_actors)]
        if not actor.puppet.has_ended:
            actor.puppet.reap()
        actor.puppet = self.stage.start(Path(actor.puppet.cwd), resume=actor.session_id)
        actor.outcome = ""
        self.perform(actor, "work")

    # what must be true

    @invariant()
    def the_oracle_agrees(self) -> None:
        survey = self.stage.survey(HistoryQuery())
        owners = {
            s.observation.owner.identity: s for s in survey.sessions if s.observation.owner is not None
        }
        assert len(owners) == len([s for s in survey.sessions if s.observation.owner is not None])
        assert set(owners) == {a.puppet.identity for a in self.list_living()}, "not exactly the living"
        by_id: dict[str | None, list[Session]] = {}
        for session in survey.sessions:
            by_id.setdefault(session.observation.session_id, []).append(session)
        assert all(len(rows) == 1 for i, rows in by_id.items() if i is not None), "an id twice"
        for actor in self.actors:
            rows = by_id.get(actor.session_id, [])
            if actor.outcome:
                assert all(row.verdict.status not in LIVE for row in rows), (actor.outcome, rows)
            else:
                assert owners[actor.puppet.identity].verdict.status != "stopped"
                assert all(row.verdict.status != "stopped" for row in rows), rows
            if actor.intact and self.is_undisturbed():
                self.check_exactly(actor, rows)

    @invariant()
    def the_verbs_agree(self) -> None:
        """On some steps: a command line takes as long as ten surveys."""
        self.steps += 1
        if self.steps % 4:
            return
        every = agentctl_json(self.stage, "list", "-a")["sessions"]
        living = agentctl_json(self.stage, "list")["sessions"]
        here = [
            shapes.dump_session(row)
            for row in shapes.wire_sessions(self.stage.survey(HistoryQuery()).sessions)
        ]
        assert strip_clocks(every) == strip_clocks(here)
        assert strip_clocks(living) == strip_clocks(
            [s for s in here if s["pid"] is not None or is_ambiguous(s, living)]
        )
        for row in every[:2]:
            name = row["id"] or f"pid:{row['pid']}"
            (status,) = agentctl_json(self.stage, "status", name)["sessions"]
            (why,) = agentctl_json(self.stage, "why", name)["sessions"]
            assert strip_clocks([status]) == strip_clocks([why]) == strip_clocks([row])

    # helpers

    def list_living(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.outcome]

    def pick(self, number: int) -> Actor | None:
        living = self.list_living()
        return living[number % len(living)] if living else None

    def perform(self, actor: Actor | None, step: str) -> None:
        if actor is None or not actor.intact:
            return  # an agent without its files may fail to write, which is not our subject
        actor.puppet.do(step)
        actor.doing = step
        actor.session_id = actor.puppet.session_id
        actor.records = self.stage.records(actor.puppet)
        if step == "ask" and self.is_undisturbed() and actor.session_id is not None:
            self.stage.wait_for_question(actor.session_id)  # a derived wait counts after a second

    def has_own_records(self, actor: Actor) -> bool:
        """True if no other session shares its records, as in one database."""
        others = [path for a in self.actors if a is not actor for path in a.records]
        return actor.intact and bool(actor.records) and not set(actor.records) & set(others)

    def is_undisturbed(self) -> bool:
        """True if no live process has lost its record: an unbound process may own any session."""
        return all(actor.intact for actor in self.list_living())

    def check_exactly(self, actor: Actor, rows: list[Session]) -> None:
        assert len(rows) == 1, (actor.session_id, rows)
        verdict = rows[0].verdict
        if actor.outcome:
            assert (verdict.status, verdict.outcome) == ("stopped", actor.outcome), verdict
        else:
            assert (verdict.status, verdict.activity) == EXPECTED[actor.doing], verdict


def strip_clocks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows without what is computed from a clock, which may differ by a millisecond."""
    stripped = [{k: v for k, v in row.items() if k not in ("started_at", "evidence")} for row in rows]
    for copy, row in zip(stripped, rows, strict=True):
        copy["evidence"] = [{k: v for k, v in e.items() if k != "at"} for e in row["evidence"]]
    return sorted(stripped, key=lambda row: (row["id"] or "", row["pid"] or 0))


def is_ambiguous(row: dict[str, Any], living: list[dict[str, Any]]) -> bool:
    """True if it has no owner and `list` shows it nevertheless, because a live process may run it."""
    return row["id"] is not None and row["id"] in [each["id"] for each in living]


@pytest.mark.slow
@pytest.mark.parametrize("stage", stages(), ids=lambda stage: stage.adapter)
def test_a_random_history(stage: type[Stage], *, whole: bool) -> None:
    class Mine(History):
        stage_class = stage

    play(Mine, 6 if whole else 1)


def play(history: type[History], examples: int) -> None:
    run_state_machine_as_test(
        history,
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


HANGING = """
import threading


class Hanging:
    name, comms, binary = "hanging", frozenset({"hung-agent"}), "hung"

    def owns(self, process):
        return process.comm == "hung-agent"

    def live(self, look):
        threading.Event().wait()

    def history(self, look, query):
        threading.Event().wait()
"""


def test_an_adapter_that_hangs_is_late_for_every_verb(tmp_path: Path) -> None:
    """A third party's adapter, found through its entry point, does not change what others report."""
    stage = stages()[0](tmp_path)
    installed = tmp_path / "installed"
    information = installed / "hanging-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "entry_points.txt").write_text("[agentctl.adapters]\nhanging = hanging:Hanging\n")
    (installed / "hanging.py").write_text(HANGING)
    more = {"PYTHONPATH": f"{installed}:{SOURCES}", "AGENTCTL_DEADLINE": "0.4"}
    try:
        puppet = stage.start()
        puppet.do("work")
        assert puppet.session_id is not None
        with Stranger("hung-agent", stage.environ, stage.work) as hung:
            listed = agentctl_json(stage, "list", **more)
            every = agentctl_json(stage, "list", "-a", **more)
            assert strip_clocks(listed["sessions"]) == strip_clocks(every["sessions"])
            rows = {row["pid"]: row for row in listed["sessions"]}
            assert set(rows) == {puppet.pid, hung.pid}
            assert (rows[hung.pid]["status"], rows[hung.pid]["activity"]) == ("running", "unknown")
            assert (rows[puppet.pid]["status"], rows[puppet.pid]["activity"]) == ("running", "working")
            for verb in ("status", "why"):
                for name, pid in ((f"pid:{hung.pid}", hung.pid), (puppet.session_id, puppet.pid)):
                    answer = agentctl_json(stage, verb, name, **more)
                    assert strip_clocks(answer["sessions"]) == strip_clocks([rows[pid]])
                    assert [(p["adapter"], p["kind"]) for p in answer["problems"]] == [
                        ("hanging", "late")
                    ]
    finally:
        stage.close()
