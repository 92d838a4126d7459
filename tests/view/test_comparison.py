"""A comparison for people."""

import pytest

from agentctl.compare.model import Changes, Comparison, Conflict, Row
from agentctl.system.proc import ProcessIdentity
from agentctl.text import measure_width
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, HookRun, Launch, Observation, Session, Tokens, Worktree
from agentctl.view.comparison import (
    comparison_lines,
    format_count,
    format_length,
    format_money,
    summary_lines,
)

GONE = Evidence("gone", "/proc", "kernel")
OVER = Evidence("idle", "t", "journal", detail="completed")
WORKTREE = Worktree("/r", "/r-worktrees/a", "a", "4f2a")


def _row(
    slot: str, *, cost: float | None = None, tokens: int | None = None, check: int | None = None
) -> Row:
    evidence = (GONE, OVER, Evidence("exited", "shim", "kernel", value=0))
    facts = Facts(cost_usd=cost, tokens=Tokens(tokens) if tokens is not None else None)
    observation = Observation("claude-code", f"id of {slot}", evidence, facts)
    note = Launch("1", ProcessIdentity("b", 1, 1), model="a-rather-long-model-name", on_complete="x")
    run = HookRun("on-complete", "x", check, 1.0, "") if check is not None else None
    changes = Changes(3, 120, 7, 2)
    return Row(slot, Session(observation, judge(evidence), note), 95.0, WORKTREE, changes, None, run, ())


def test_a_table_with_all_columns_fits_a_hundred() -> None:
    rows = [
        _row("claude-opus", cost=1.234, tokens=1_234_567, check=0)._replace(
            best_in=("seconds", "lines"), conflicts=(Conflict("gpt-5-codex", ("a",)),)
        ),
        _row("gpt-5-codex", cost=0.0123, tokens=950, check=2)._replace(
            seconds=7380.0,
            changes=Changes(12, 1203, 1170, 14, 3),
            best_in=("cost_usd",),
            conflicts=(Conflict("claude-opus", ("a",)),),
        ),
    ]
    lines = comparison_lines(Comparison("fix", tuple(rows), ()), 100, colour=False)
    assert max(map(measure_width, lines)) <= 100
    for title in ("SLOT", "STATUS", "TIME", "TOKENS", "COST", "LINES", "CHECK", "CONFLICTS"):
        assert title in lines[0]
    assert "gpt-5-codex" in lines[1]  # the slot that it conflicts with
    assert lines[1].index("1m 35s*") + 7 == lines[2].index("2h 03m ") + 7 == lines[0].index("TIME") + 4


@pytest.mark.parametrize("columns", [30, 50, 70, 80])
def test_a_narrow_table_fits(columns: int) -> None:
    lines = comparison_lines(
        Comparison("fix", (_row("a", cost=1.0), _row("b")), ()), columns, colour=False
    )
    assert max(map(measure_width, lines)) <= columns
    assert lines[0].startswith("SLOT")


def test_a_wide_table_has_ids() -> None:
    rows = (_row("a", cost=1.0, tokens=5, check=0), _row("b"))
    wide, narrow = (comparison_lines(Comparison("fix", rows, ()), n, colour=False) for n in (120, 80))
    assert "id of a" in wide[1]
    assert "ID" not in narrow[0]


def test_a_column_without_values_is_left_out() -> None:
    lines = comparison_lines(Comparison("fix", (_row("a"), _row("b")), ()), 200, colour=False)
    assert "COST" not in lines[0]
    assert "TOKENS" not in lines[0]
    assert "not yet" in lines[1]  # the hook has not run


def test_the_summary_names_the_best_slots_and_conflicts() -> None:
    rows = (
        _row("a", cost=2.0, check=0)._replace(
            best_in=("seconds",), conflicts=(Conflict("b", ("x", "y")),)
        ),
        _row("b", cost=0.5, check=0)._replace(
            best_in=("cost_usd", "lines"), conflicts=(Conflict("a", ("x", "y")),)
        ),
        _row("c", check=1)._replace(changes=None, changes_unknown="its worktree is gone"),
    )
    assert summary_lines(Comparison("fix", rows, ())) == [
        "fastest: a (1m 35s) · cheapest: b ($0.5000) · fewest lines: b (127)",
        "check: passed a, b; failed c",
        "conflicts: a and b in x, y",
        "c: changes not known: its worktree is gone",
    ]


def test_many_conflicts_are_counted() -> None:
    names = [f"s{n}" for n in range(5)]
    rows = tuple(
        _row(name)._replace(conflicts=tuple(Conflict(n, ("x", "y")) for n in names if n != name))
        for name in names
    )
    lines = comparison_lines(Comparison("fix", rows, ()), 100, colour=False)
    assert lines[1].endswith("4 others")
    assert lines[-1] == "conflicts: 10 pairs, in x, y"


def test_long_names_stay_different() -> None:
    rows = tuple(_row(f"a-model-with-a-long-name-{n}", check=0) for n in (1, 2))
    lines = comparison_lines(Comparison("g", rows, ()), 60, colour=False)
    assert lines[1].split()[0] != lines[2].split()[0]


def test_many_unknown_changes_are_counted() -> None:
    rows = [_row(str(n))._replace(changes=None, changes_unknown="gone") for n in range(9)]
    lines = summary_lines(Comparison("g", tuple(rows), ()))
    assert lines[-2:] == ["2: changes not known: gone", "and 6 more like that"]
    assert len(lines) == 4


def test_a_single_slot_is_not_the_best() -> None:
    assert summary_lines(Comparison("fix", (_row("a"),), ())) == ["no slot is better than another"]


def test_hostile_names_are_harmless() -> None:
    bad = "a\x1b[31m\nb"
    rows = (_row(bad)._replace(conflicts=(Conflict(bad, ("\x1b]0;x\x07",)),)),)
    lines = comparison_lines(Comparison("fix", rows, ()), 200, colour=False)
    assert not any("\x1b" in line or "\n" in line for line in lines)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (41.9, "41s"),
        (200, "3m 20s"),
        (7500, "2h 05m"),
        (360000, "100h 00m"),
    ],
)
def test_lengths(seconds: float, text: str) -> None:
    assert format_length(seconds) == text


def test_numbers() -> None:
    assert [format_count(n) for n in (0, 950, 12_345, 4_120_000)] == ["0", "950", "12.3k", "4.1M"]
    assert [format_money(d) for d in (None, 0.00123, 12.345)] == ["-", "$0.0012", "$12.35"]
