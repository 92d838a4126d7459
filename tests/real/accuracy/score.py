"""Scores a tool's answers against the driver's truth. Pure: samples and histories in, findings out.

- A row is right when its word is the truth, `unknown` when the tool says that it cannot tell, else
wrong; a living session that is not listed is wrong too. Only settled moments count.
- *Wrong stopped*: listed at any moment as ended, while the kernel still had the process when the
answer was in. *Said alive*: listed as alive, though the process had ended before the question was asked.
- A change is *noticed* by the first answer with the new state, *missed* if there is none in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agentctl.system.proc import ProcessIdentity
from tests.real.accuracy.sampler import Sample
from tests.real.accuracy.timeline import SETTLED_AFTER, Actor
from tests.real.accuracy.tools import LIVE, Row, Tool
from tests.real.book import State, Who


class Finding(NamedTuple):
    """One answer about one actor, or one change of it."""

    kind: str  # right, wrong, unknown; wrong-stopped, said-alive; noticed, missed; more in `stream`
    play: str
    actor: str
    truth: str  # a status, or "running → idle"
    said: str
    at: float  # seconds after the truth began; noticed: how long it took
    blind: str = ""  # why it cannot be known from outside
    reason: str = ""  # the tool's own, for unknown


class Judge:
    """Scores one tool over one play."""

    def __init__(self, tool: Tool, play: str, actors: Mapping[str, Actor]) -> None:
        self._tool, self._play, self._actors = tool, play, actors

    def findings(self, samples: Sequence[Sample]) -> list[Finding]:
        findings: list[Finding] = []
        for actor in self._actors.values():
            for sample in samples:
                if sample.rows is not None:
                    findings += self._of_sample(actor, sample, sample.rows)
            findings += self._of_changes(actor, samples)
        return findings

    def _of_sample(self, actor: Actor, sample: Sample, rows: Sequence[Row]) -> Iterable[Finding]:
        moment = actor.during(sample.asked_at, sample.answered_at)
        if moment is None:
            return
        row = self._row_of(rows, moment.who)
        yield from self._lies(actor, sample, row)
        if moment.phase != "settled" or moment.now is None:
            return
        kind = self._kind(row, moment.now, moment.who)
        if kind and not (moment.now.status == "stopped" and self._taken_over(actor, sample)):
            yield self._finding(kind, actor, sample, row, moment.now)

    def _lies(self, actor: Actor, sample: Sample, row: Row | None) -> Iterable[Finding]:
        if row is None:
            return
        alive, dead = sample.after.get(actor.name, False), not sample.before.get(actor.name, True)
        its = actor.has_it(sample.asked_at)
        if alive and its and row.status == "stopped":
            yield self._finding("wrong-stopped", actor, sample, row, State("alive"))
        if dead and row.lives and not self._taken_over(actor, sample):
            yield self._finding("said-alive", actor, sample, row, State("stopped"))

    def _taken_over(self, actor: Actor, sample: Sample) -> bool:
        """Whether another process had its session by then: resumed, or respawned."""
        mine = {entry.who.session_id for entry in actor.entries} - {None}
        for other in self._actors.values():
            began = other.entries[0].at if other.entries else float("inf")
            theirs = {entry.who.session_id for entry in other.entries} - {None}
            if other is not actor and mine & theirs and began <= sample.answered_at:
                return True
        return False

    def _kind(self, row: Row | None, now: State, who: Who) -> str:
        states = self._tool.states_of(who.adapter)
        if row is None:
            # A dead session may never have been written down, and some tools list the living only.
            unsaid = who.session_id is None or "stopped" not in states
            return "" if now.status == "stopped" and unsaid else "wrong"
        if row.status == "unknown":
            return "unknown"
        if now.status in LIVE and now.status not in states:  # the tool has no word for that
            return "right" if row.status in LIVE else "wrong"
        return "right" if row.status == now.status else "wrong"

    def _of_changes(self, actor: Actor, samples: Sequence[Sample]) -> Iterable[Finding]:
        previous = "start"
        for entry, cause, until in actor.spells():
            assert entry.now is not None
            change, previous = f"{previous} → {entry.now.status}", entry.now.status
            if entry.now.status not in self._tool.states_of(entry.who.adapter) or entry.now.blind:
                continue
            if entry.now.status == "stopped" and entry.who.session_id is None:
                continue
            times = [
                max(0.0, sample.answered_at - entry.at)
                for sample in samples
                if sample.rows is not None
                and cause <= sample.asked_at
                and sample.asked_at < until
                and (row := self._row_of(sample.rows, entry.who)) is not None
                and row.status == entry.now.status
            ]
            if times:
                yield Finding("noticed", self._play, actor.name, change, "", min(times))
            elif any(entry.at + SETTLED_AFTER <= sample.asked_at < until for sample in samples):
                yield Finding(
                    "missed", self._play, actor.name, change, "", 0.0
                )  # the tool was asked in time

    def _row_of(self, rows: Sequence[Row], who: Who) -> Row | None:
        """The actor's row: by session id if both know it, else by process, unless two actors have that
        pid."""
        if who.session_id is not None:
            same = [row for row in rows if row.session_id == who.session_id]
            if same:
                return same[0]
        if who.process is None:
            return None
        if self._pid_is_used_again(who.process):  # then by the id that is known of that process later
            ids = self._ids_of(who.process) if who.session_id is None else set()
            return next((row for row in rows if row.session_id in ids), None)
        mine = [row for row in rows if row.pid == who.process.pid]
        bare = next((row for row in mine if row.session_id is None), None)
        if bare is not None or who.session_id is not None or self._shares(who.process):
            return bare  # a row under an id that is not theirs is another session of that process
        return next(iter(mine), None)

    def _pid_is_used_again(self, process: ProcessIdentity) -> bool:
        others = [actor.process for actor in self._actors.values() if actor.process]
        return any(other.pid == process.pid and other != process for other in others)

    def _ids_of(self, process: ProcessIdentity) -> set[str]:
        whos = [entry.who for actor in self._actors.values() for entry in actor.entries]
        return {who.session_id for who in whos if who.process == process and who.session_id is not None}

    def _shares(self, process: ProcessIdentity) -> bool:
        return [actor.process for actor in self._actors.values()].count(process) > 1

    def _finding(self, kind: str, actor: Actor, sample: Sample, row: Row | None, now: State) -> Finding:
        began = [entry.at for entry in actor.entries if entry.at <= sample.asked_at]
        after = sample.asked_at - began[-1] if began else 0.0
        word = row.word if row else "not listed"
        reason = row.reason if row else ""
        return Finding(kind, self._play, actor.name, now.status, word, after, now.blind, reason)
