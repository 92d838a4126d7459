"""A comparison for people."""

import pytest

from agentctl.compare.model import Changes, Comparison, Conflict, Row
from agentctl.system.identity import ProcessIdentity
from agentctl.text import width
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, HookRun, Launch, Observation, Session, Tokens, Worktree
from agentctl.view.comparison import length, lines, money, short, summary

GONE = Evidence("gone", "/proc", "kernel")
OVER = Evidence("idle", "t", "journal", detail="completed")
MADE = Worktree("/r", "/r-worktrees/a", "a", "4f2a")


def _row(
    slot: str, *, cost: float | None = None, tokens: int | None = None, check: int | None = None
) -> Row:
    evidence = (GONE, OVER, Evidence("exited", "shim", "kernel", value=0))
    facts = Facts(cost_usd=cost, tokens=Tokens(tokens) if tokens is not None else None)
    seen = Observation("claude-code", f"id of {slot}", evidence, facts)
    note = Launch("1", ProcessIdentity("b", 1, 1), model="a-rather-long-model-name", on_complete="x")
    run = HookRun("on-complete", "x", check, 1.0, "") if check is not None else None
    changes = Changes(3, 120, 7, 2)
    return Row(slot, Session(seen, judge(evidence), note), 95.0, MADE, changes, None, run, ())


def test_a_full_one_fits_a_hundred_columns() -> None:
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
    drawn = lines(Comparison("fix", tuple(rows), ()), 100, colour=False)
    assert max(map(width, drawn)) <= 100
    for title in ("SLOT", "STATUS", "TIME", "TOKENS", "COST", "LINES", "CHECK", "CONFLICTS"):
        assert title in drawn[0]
    assert "gpt-5-codex" in drawn[1]  # with whom it conflicts
    assert drawn[1].index("1m 35s*") + 7 == drawn[2].index("2h 03m ") + 7 == drawn[0].index("TIME") + 4


@pytest.mark.parametrize("columns", [30, 50, 70, 80])
def test_narrower_ones_lose_columns(columns: int) -> None:
    drawn = lines(Comparison("fix", (_row("a", cost=1.0), _row("b")), ()), columns, colour=False)
    assert max(map(width, drawn)) <= columns
    assert drawn[0].startswith("SLOT")


def test_an_id_to_type_where_there_is_room() -> None:
    rows = (_row("a", cost=1.0, tokens=5, check=0), _row("b"))
    wide, narrow = (lines(Comparison("fix", rows, ()), n, colour=False) for n in (120, 80))
    assert "id of a" in wide[1]
    assert "ID" not in narrow[0]


def test_what_nobody_has_is_no_column() -> None:
    drawn = lines(Comparison("fix", (_row("a"), _row("b")), ()), 200, colour=False)
    assert "COST" not in drawn[0]
    assert "TOKENS" not in drawn[0]
    assert "not yet" in drawn[1]  # the hook is to run


def test_the_summary() -> None:
    rows = (
        _row("a", cost=2.0, check=0)._replace(
            best_in=("seconds",), conflicts=(Conflict("b", ("x", "y")),)
        ),
        _row("b", cost=0.5, check=0)._replace(
            best_in=("cost_usd", "lines"), conflicts=(Conflict("a", ("x", "y")),)
        ),
        _row("c", check=1)._replace(changes=None, changes_unknown="its worktree is gone"),
    )
    assert summary(Comparison("fix", rows, ())) == [
        "fastest: a (1m 35s) · cheapest: b ($0.5000) · fewest lines: b (127)",
        "check: passed a, b; failed c",
        "conflicts: a and b in x, y",
        "c: changes not known: its worktree is gone",
    ]


def test_many_that_conflict_are_counted() -> None:
    names = [f"s{n}" for n in range(5)]
    rows = tuple(
        _row(name)._replace(conflicts=tuple(Conflict(n, ("x", "y")) for n in names if n != name))
        for name in names
    )
    drawn = lines(Comparison("fix", rows, ()), 100, colour=False)
    assert drawn[1].endswith("4 others")
    assert drawn[-1] == "conflicts: 10 pairs, in x, y"


def test_long_names_can_be_told_apart() -> None:
    rows = tuple(_row(f"a-model-with-a-long-name-{n}", check=0) for n in (1, 2))
    shown = lines(Comparison("g", rows, ()), 60, colour=False)
    assert shown[1].split()[0] != shown[2].split()[0]


def test_many_whose_changes_are_not_known() -> None:
    rows = [_row(str(n))._replace(changes=None, changes_unknown="gone") for n in range(9)]
    told = summary(Comparison("g", tuple(rows), ()))
    assert told[-2:] == ["2: changes not known: gone", "and 6 more like that"]
    assert len(told) == 4


def test_nothing_tells_them_apart() -> None:
    assert summary(Comparison("fix", (_row("a"),), ())) == ["nothing tells them apart"]


def test_hostile_names() -> None:
    bad = "a\x1b[31m\nb"
    rows = (_row(bad)._replace(conflicts=(Conflict(bad, ("\x1b]0;x\x07",)),)),)
    drawn = lines(Comparison("fix", rows, ()), 200, colour=False)
    assert not any("\x1b" in line or "\n" in line for line in drawn)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (41.9, "41s"),
        (200, "3m 20s"),
        (7500, "2h 05m"),
        (360000, "100h 00m"),
    ],
)
def test_lengths(seconds: float, told: str) -> None:
    assert length(seconds) == told


def test_numbers() -> None:
    assert [short(n) for n in (0, 950, 12_345, 4_120_000)] == ["0", "950", "12.3k", "4.1M"]
    assert [money(d) for d in (None, 0.00123, 12.345)] == ["-", "$0.0012", "$12.35"]
