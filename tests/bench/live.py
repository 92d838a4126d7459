"""Live fake agents of all four kinds on one stage: one home, one marker, all killed at the end."""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path
from types import TracebackType

from agentctl.testing import Puppet, Stage
from agentctl.testing.stage import MARKER
from tests.bench import corpus, natives
from tests.bench.natives import Bulk, Plan
from tests.fakes.stages import stages

STATES = ((), ("rest",), ("rest", "work"), ("ask",))  # what each does after its first turn began
TURN = 8000  # bytes, about: how much of a transcript one turn makes


class Troupe:
    """Use as a context manager."""

    def __init__(self, root: Path) -> None:
        self.stages = [stage(root) for stage in stages() if stage.adapter != "demo"]
        self.puppets: list[tuple[Stage, Puppet]] = []
        first = self.stages[0]
        self.home = first.home
        self.environ: dict[str, str] = {}
        for stage in self.stages:  # each made a marker of its own: they shall see each other's
            stage.environ |= {key: first.environ[key] for key in (MARKER, "AGENTCTL_CONFINE")}
            self.environ |= stage.environ
        self.environ["AGENTCTL_ALONE"] = "1"  # in a room of the bench, whose files are from outside
        self._bulk = Bulk(corpus.SEED)

    def __enter__(self) -> Troupe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failures = []
        for stage in self.stages:
            try:
                stage.close()
            except Exception as failure:  # noqa: BLE001 - the others must be ended too
                failures.append(failure)
        if failures:
            raise failures[0]

    @property
    def deserted(self) -> dict[str, str]:
        """An environment in which no agent is visible."""
        return {**self.environ, "AGENTCTL_CONFINE": f"{MARKER}=none"}

    def grow_to(self, count: int, *, transcript: int = 0) -> None:
        """Start agents up to `count`, of each kind in turn, each in its own directory and with at least
        `transcript` bytes of transcript."""
        for number in range(len(self.puppets), count):
            stage = self.stages[number % len(self.stages)]
            puppet = stage.start(stage.work / f"live-{number:03d}", prompt=f"live task {number}")
            self.puppets.append((stage, puppet))
            puppet.do("work")
            if transcript:
                self._lengthen(stage, puppet, transcript, number)
                puppet.do("rest")
                puppet.do("work")
            for step in STATES[number // len(self.stages) % len(STATES)]:
                if step != "ask" or stage.can_ask:
                    puppet.do(step)

    def _lengthen(self, stage: Stage, puppet: Puppet, size: int, number: int) -> None:
        """Write earlier turns in the format of the agent."""
        rng = random.Random(f"{corpus.SEED}:live:{number}")
        assert puppet.session_id is not None
        now, turns = time.time(), size // TURN
        plan = Plan(
            stage.adapter, puppet.session_id, puppet.cwd, "go on", now - 60, now - 1, turns, "completed"
        )
        if stage.adapter == "opencode":
            self._lengthen_database(plan, rng)
            return
        path = next(p for p in stage.records(puppet) if p.suffix == ".jsonl")
        turn = 0
        with path.open("a", encoding="utf-8") as file:
            while path.stat().st_size < size:
                file.writelines(self._turn(plan, turn % turns, rng))
                file.flush()
                turn += 1

    def _turn(self, plan: Plan, turn: int, rng: random.Random) -> list[str]:
        if plan.agent == "claude-code":
            return list(
                natives.claude_turn(plan, max(turn, 1), rng, self._bulk, entry="cli", ending="completed")
            )
        if plan.agent == "codex":
            return list(natives.codex_turn(plan, turn, rng, self._bulk, "completed"))
        return list(natives.pi_turn(plan, turn, rng, self._bulk, "completed"))

    def _lengthen_database(self, plan: Plan, rng: random.Random) -> None:
        rows = natives.Rows((), [], [])
        for turn in range(plan.turns):
            natives.opencode_turn(plan, turn, rng, self._bulk, rows, ending="completed")
        with sqlite3.connect(corpus.database(self.home), timeout=20) as connection:
            connection.executemany("insert or ignore into message values (?, ?, ?, ?, ?)", rows.messages)
            connection.executemany("insert or ignore into part values (?, ?, ?, ?, ?, ?)", rows.parts)
        connection.close()
