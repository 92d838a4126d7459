"""The comparison of a group, and its JSON. docs/reference/json.md is generated from the table here."""

from __future__ import annotations

from agentctl.light_typing import Any, Iterable, NamedTuple
from agentctl.truth.model import HookRun, Problem, Session, Worktree
from agentctl.wire import session as shapes
from agentctl.wire.session import Fields

SLOT_FIELDS: Fields = (
    ("slot", "string", "its name in the group"),
    ("id", "string | null", "the session's id"),
    ("adapter", "string", "which agent"),
    ("model", "string | null", "as asked for, else as the agent says"),
    ("status", "string", "as in Session"),
    ("outcome", "string | null", "as in Session"),
    ("exit_code", "integer | null", "as in Session"),
    ("seconds", "number | null", "from its launch to its end, or until now"),
    ("tokens", "object | null", "as in Session"),
    ("cost_usd", "number | null", "as in Session"),
    ("worktree", "object | null", "repository, path, branch, base; null: it ran in a plain directory"),
    ("changes", "object | null", "against the base: files, insertions, deletions, commits, uncommitted (files)"),
    ("changes_unknown", "string | null", "why changes is null"),
    ("check", "object | null", "the last run of the on-complete hook: command, code (null: took too long), seconds, output"),
    ("conflicts", "array | null", "with (a slot), files: what merging the two would not settle; null: not known"),
    ("best_in", "array", "seconds, tokens, cost_usd, lines: where it is the best of those that are done"),
)  # fmt: skip


class Changes(NamedTuple):
    """Changes against the base, committed or not, without ignored files."""

    files: int
    insertions: int
    deletions: int
    commits: int = 0
    uncommitted: int = 0  # files

    @property
    def lines(self) -> int:
        return self.insertions + self.deletions


class Conflict(NamedTuple):
    other: str  # a slot
    files: tuple[str, ...]


class Row(NamedTuple):
    """One slot of a group."""

    slot: str
    session: Session
    seconds: float | None
    worktree: Worktree | None
    changes: Changes | None
    changes_unknown: str | None
    check: HookRun | None
    conflicts: tuple[Conflict, ...] | None
    best_in: tuple[str, ...] = ()

    @property
    def model(self) -> str | None:
        note = self.session.launch
        return (note.model if note is not None else None) or self.session.observation.facts.model

    @property
    def tokens(self) -> int | None:
        """The sum of all kinds; None: the agent does not report them."""
        tokens = self.session.observation.facts.tokens
        counts = [count for count in tokens or () if count is not None]
        return sum(counts) if counts else None

    @property
    def has_passed(self) -> bool | None:
        """Whether the on-complete hook ended with 0; None: it has not run."""
        return None if self.check is None else self.check.code == 0

    @property
    def is_done(self) -> bool:
        """Whether the session completed and its hook did not fail: only then measures are compared."""
        return self.session.verdict.outcome == "completed" and self.has_passed is not False


class Comparison(NamedTuple):
    group: str
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]


def wire_comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "version": shapes.VERSION,
        "group": comparison.group,
        "slots": [wire_slot(row) for row in comparison.rows],
        "problems": [shapes.dump_problem(problem) for problem in comparison.problems],
    }


def wire_slot(row: Row) -> dict[str, Any]:
    """Return the JSON form, as SLOT_FIELDS describes it."""
    observation, verdict = row.session.observation, row.session.verdict
    return {
        "slot": row.slot,
        "id": observation.session_id,
        "adapter": observation.adapter,
        "model": row.model,
        "status": verdict.status,
        "outcome": verdict.outcome,
        "exit_code": verdict.exit_code,
        "seconds": round(row.seconds, 3) if row.seconds is not None else None,
        "tokens": shapes.dump_tokens(observation.facts.tokens),
        "cost_usd": observation.facts.cost_usd,
        "worktree": row.worktree._asdict() if row.worktree else None,
        "changes": row.changes._asdict() if row.changes else None,
        "changes_unknown": row.changes_unknown,
        "check": _wire_check(row.check),
        "conflicts": _wire_conflicts(row.conflicts),
        "best_in": list(row.best_in),
    }


def _wire_check(run: HookRun | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {"command": run.command, "code": run.code, "seconds": run.seconds, "output": run.output}


def _wire_conflicts(conflicts: Iterable[Conflict] | None) -> list[dict[str, Any]] | None:
    if conflicts is None:
        return None
    return [{"with": conflict.other, "files": list(conflict.files)} for conflict in conflicts]
