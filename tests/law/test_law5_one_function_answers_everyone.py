"""Law 5: `list`, `status` and `why` cannot disagree, whatever happened before. A random history of
real processes; what the test itself did is the oracle."""

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
from agentctl.truth.survey import Wanted
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
        self.doing = ""  # the last step, while it lives
        self.ended = ""  # how it ended, once it has
        self.intact = True  # its native records are as the agent wrote them
        self.records: list[Path] = []


class History(RuleBasedStateMachine):
    """One stage, a few agents, and everything that can happen to them."""

    stage_class: ClassVar[type[Stage]]

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.stage = self.stage_class(self.root)
        self.actors: list[Actor] = []
        self.steps = 0

    def teardown(self) -> None:
        self.stage.close()
        shutil.rmtree(self.root)

    # what can happen

    @initialize()
    def someone(self) -> None:
        self.start()

    @precondition(lambda self: len(self.living()) < MOST)
    @rule()
    def start(self) -> None:
        # each in a directory of its own: who shares one may be ambiguous, which law 3 is about
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
            actor.ended = "completed"

    @rule(pick=picks)
    def fail(self, pick: int) -> None:
        actor = self.pick(pick)
        if actor is not None and self.stage.failure_is_told:
            self.perform(actor, "work")
            self.perform(actor, "fail")
            actor.puppet.finish(1)
            actor.ended = "failed"

    @rule(pick=picks, reap=st.booleans())
    def kill(self, pick: int, reap: bool) -> None:
        actor = self.pick(pick)
        if actor is not None:
            self.perform(actor, "work")
            actor.puppet.kill(reap=reap)
            actor.ended = "killed"

    @rule(pick=picks, rubbish=st.sampled_from([b"", b"\0\n", b"{}\n", b"\xff{\n" * 30]))
    def corrupt(self, pick: int, rubbish: bytes) -> None:
        actor = self.pick(pick)
        if actor is not None and self.alone(actor):
            for path in actor.records:
                if path.is_file():
                    path.write_bytes(rubbish)
            actor.intact = False

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        actor = self.pick(pick)
        if actor is not None and self.alone(actor):
            for path in actor.records:
                path.unlink(missing_ok=True)
            actor.intact = False

    @rule(pick=picks)
    def resume(self, pick: int) -> None:
        ended = [a for a in self.actors if a.ended and a.intact]
        if not ended or len(self.living()) >= MOST:
            return
        actor = ended[pick % len(ended)]
        if not actor.puppet.ended:
            actor.puppet.reap()
        actor.puppet = self.stage.start(Path(actor.puppet.cwd), resume=actor.session_id)
        actor.ended = ""
        self.perform(actor, "work")

    # what must be true

    @invariant()
    def the_oracle_agrees(self) -> None:
        found = self.stage.survey(Wanted())
        owners = {s.seen.owner.identity: s for s in found.sessions if s.seen.owner is not None}
        assert len(owners) == len([s for s in found.sessions if s.seen.owner is not None])
        assert set(owners) == {a.puppet.identity for a in self.living()}, "not exactly the living"
        by_id: dict[str | None, list[Session]] = {}
        for session in found.sessions:
            by_id.setdefault(session.seen.session_id, []).append(session)
        assert all(len(rows) == 1 for i, rows in by_id.items() if i is not None), "an id twice"
        for actor in self.actors:
            rows = by_id.get(actor.session_id, [])
            if actor.ended:
                assert all(row.verdict.status not in LIVE for row in rows), (actor.ended, rows)
            else:
                assert owners[actor.puppet.identity].verdict.status != "stopped"
                assert all(row.verdict.status != "stopped" for row in rows), rows
            if actor.intact and self.undisturbed():
                self.exactly(actor, rows)

    @invariant()
    def the_verbs_agree(self) -> None:
        """On some steps: a command line takes as long as ten surveys."""
        self.steps += 1
        if self.steps % 4:
            return
        every = agentctl_json(self.stage, "list", "-a")["sessions"]
        living = agentctl_json(self.stage, "list")["sessions"]
        here = [shapes.session(s) for s in self.stage.survey(Wanted()).sessions]
        assert answers(every) == answers(here)
        assert answers(living) == answers(
            [s for s in here if s["pid"] is not None or ambiguous(s, living)]
        )
        for row in every[:2]:
            name = row["id"] or f"pid:{row['pid']}"
            (status,) = agentctl_json(self.stage, "status", name)["sessions"]
            (why,) = agentctl_json(self.stage, "why", name)["sessions"]
            assert answers([status]) == answers([why]) == answers([row])

    # helpers

    def living(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.ended]

    def pick(self, number: int) -> Actor | None:
        living = self.living()
        return living[number % len(living)] if living else None

    def perform(self, actor: Actor | None, step: str) -> None:
        if actor is None or not actor.intact:
            return  # an agent whose files were taken away may fail at writing; that is its affair
        actor.puppet.do(step)
        actor.doing = step
        actor.session_id = actor.puppet.session_id
        actor.records = self.stage.records(actor.puppet)
        if step == "ask" and self.undisturbed() and actor.session_id is not None:
            self.stage.waiting(actor.session_id)  # what is derived counts after a second

    def alone(self, actor: Actor) -> bool:
        """Whether its records are nobody else's too, as in one database."""
        others = [path for a in self.actors if a is not actor for path in a.records]
        return actor.intact and bool(actor.records) and not set(actor.records) & set(others)

    def undisturbed(self) -> bool:
        """No live process lost its record: one that is bound to nothing may be anybody's owner."""
        return all(actor.intact for actor in self.living())

    def exactly(self, actor: Actor, rows: list[Session]) -> None:
        assert len(rows) == 1, (actor.session_id, rows)
        verdict = rows[0].verdict
        if actor.ended:
            assert (verdict.status, verdict.outcome) == ("stopped", actor.ended), verdict
        else:
            assert (verdict.status, verdict.activity) == EXPECTED[actor.doing], verdict


def answers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All that may not differ; what a clock reading is part of may differ by a millisecond."""
    kept = [{k: v for k, v in row.items() if k not in ("started_at", "evidence")} for row in rows]
    for new, row in zip(kept, rows, strict=True):
        new["evidence"] = [{k: v for k, v in e.items() if k != "at"} for e in row["evidence"]]
    return sorted(kept, key=lambda row: (row["id"] or "", row["pid"] or 0))


def ambiguous(row: dict[str, Any], living: list[dict[str, Any]]) -> bool:
    """A session without an owner that `list` shows all the same, because a live process may run it."""
    return row["id"] is not None and row["id"] in [each["id"] for each in living]


@pytest.mark.parametrize("stage", stages(), ids=lambda stage: stage.adapter)
def test_a_random_history(stage: type[Stage]) -> None:
    class Mine(History):
        stage_class = stage

    played(Mine, 6)


def played(history: type[History], examples: int) -> None:
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

    def history(self, look, wanted):
        threading.Event().wait()
"""


def test_an_adapter_that_hangs_is_late_for_everyone(tmp_path: Path) -> None:
    """A third party's, found through its entry point. Nobody else's answer suffers."""
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
            assert answers(listed["sessions"]) == answers(every["sessions"])
            rows = {row["pid"]: row for row in listed["sessions"]}
            assert set(rows) == {puppet.pid, hung.pid}
            assert (rows[hung.pid]["status"], rows[hung.pid]["activity"]) == ("running", "unknown")
            assert (rows[puppet.pid]["status"], rows[puppet.pid]["activity"]) == ("running", "working")
            for verb in ("status", "why"):
                for name, pid in ((f"pid:{hung.pid}", hung.pid), (puppet.session_id, puppet.pid)):
                    answer = agentctl_json(stage, verb, name, **more)
                    assert answers(answer["sessions"]) == answers([rows[pid]])
                    assert [(p["adapter"], p["kind"]) for p in answer["problems"]] == [
                        ("hanging", "late")
                    ]
    finally:
        stage.close()
