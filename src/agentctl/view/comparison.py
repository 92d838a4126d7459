"""A comparison for people: one row a slot, the best of each measure marked, and what follows from it in
a line or two. Fits a hundred columns; narrower terminals lose the least important ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentctl import text
from agentctl.compare.model import Comparison, Row
from agentctl.view import rows, table
from agentctl.view.table import WHOLE, Cell, Column

LAYOUT = (
    Column("SLOT", 24),  # who it is matters more than most of what it did
    Column("ID", WHOLE, goes=9),
    Column("AGENT", 5, goes=8),
    Column("STATUS", WHOLE),
    Column("TIME", WHOLE, goes=3),
    Column("TOKENS", WHOLE, goes=6),
    Column("COST", WHOLE, goes=4),
    Column("FILES", WHOLE, goes=5),
    Column("LINES", WHOLE),
    Column("COMMITS", WHOLE, goes=7),
    Column("CHECK", WHOLE),
    Column("CONFLICTS", 12, goes=2),
)
RIGHT = frozenset({"TIME", "TOKENS", "COST", "FILES", "LINES", "COMMITS"})
NAMED = 3  # slots named in a summary before the rest is only counted


def lines(given: Comparison, columns: int, *, colour: bool) -> list[str]:
    ids = rows.short_ids([rows.name(row.session) for row in given.rows])
    cells = [_cells(row, id_) for row, id_ in zip(given.rows, ids, strict=True)]
    shown = [column for i, column in enumerate(LAYOUT) if _tells(column, [row[i] for row in cells])]
    kept = [[row[LAYOUT.index(column)] for column in shown] for row in cells]
    layout, kept = _right(shown, kept)
    drawn = table.render(layout, kept, columns, colour=colour)
    return [*drawn, "", *(text.cut(line, columns) for line in summary(given))]


def _tells(column: Column, cells: Iterable[Cell]) -> bool:
    """A column in which nobody has anything is left out."""
    return column.title in ("SLOT", "STATUS", "TIME", "LINES") or any(c.text != "-" for c in cells)


def _right(layout: Sequence[Column], cells: list[list[Cell]]) -> tuple[list[Column], list[list[Cell]]]:
    """Numbers stand below each other, digit by digit; a mark at the end has a place of its own."""
    made = list(layout)
    for i, column in enumerate(layout):
        if column.title not in RIGHT:
            continue
        marked = any(row[i].text.endswith("*") for row in cells)
        for row in cells:
            if marked and not row[i].text.endswith("*"):
                row[i] = row[i]._replace(text=f"{row[i].text} ")
        wide = max(len(column.title), *(text.width(row[i].text) for row in cells))
        made[i] = column._replace(title=column.title.rjust(wide))
        for row in cells:
            row[i] = row[i]._replace(text=" " * (wide - text.width(row[i].text)) + row[i].text)
    return made, cells


def _cells(row: Row, id_: str) -> list[Cell]:
    changes = row.changes
    model = row.model if row.model and row.model != row.slot else None
    agent = row.session.seen.adapter + (f" {model}" if model else "")
    return [
        Cell(text.one_line(row.slot), "bold", keep_ends=True),
        Cell(id_),
        Cell(text.one_line(agent)),
        _status(row),
        _measure(row, "seconds", length(row.seconds) if row.seconds is not None else "-"),
        _measure(row, "tokens", short(row.tokens) if row.tokens is not None else "-"),
        _measure(row, "cost_usd", money(row.session.seen.facts.cost_usd)),
        Cell(str(changes.files) if changes else "-"),
        _measure(row, "lines", f"+{changes.insertions} -{changes.deletions}" if changes else "-"),
        Cell(f"{changes.commits}{'+' * bool(changes.uncommitted)}" if changes else "-"),
        _check(row),
        _conflicts(row),
    ]


def _measure(row: Row, what: str, told: str) -> Cell:
    return Cell(f"{told}*", "green") if what in row.best_in else Cell(told)


def _status(row: Row) -> Cell:
    word, code = rows.word(row.session), row.session.verdict.exit_code
    told = f"{word} ({code})" if code else word
    colour = "green" if word == "completed" else rows.COLOURS.get(word, "")
    return Cell(told, colour or rows.COLOURS.get(row.session.verdict.status, ""))


def _check(row: Row) -> Cell:
    if row.check is None:
        note = row.session.launch
        due = note is not None and note.on_complete is not None
        return Cell("not yet" if due else "-", "dim")
    if row.check.code is None:
        return Cell("took too long", "red")
    return Cell("passed", "green") if row.passed else Cell(f"failed ({row.check.code})", "red")


def _conflicts(row: Row) -> Cell:
    if row.conflicts is None:
        return Cell("-", "dim")
    if not row.conflicts:
        return Cell("none", "dim")
    others = [conflict.other for conflict in row.conflicts]
    told = ", ".join(others) if len(others) <= NAMED else f"{len(others)} others"
    return Cell(text.one_line(told), "yellow")


def summary(given: Comparison) -> list[str]:
    """Who is best in what, and what is in the way."""
    best = [told for what, word, show in _SUPERLATIVES if (told := _best(given, what, word, show))]
    found = [" · ".join(best)] if best else []
    checked = [row for row in given.rows if row.check is not None]
    if checked:
        passed = [row.slot for row in checked if row.passed]
        failed = [row.slot for row in checked if not row.passed]
        parts = [
            f"{word} {_names(who)}" for word, who in (("passed", passed), ("failed", failed)) if who
        ]
        found.append(f"check: {'; '.join(parts)}")
    found += _between(given)
    found += _of_many([f"{r.slot}: changes not known: {r.changes_unknown}" for r in _unknown(given)])
    return [text.one_line(line) for line in found] or ["nothing tells them apart"]


_SUPERLATIVES: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    ("seconds", "fastest", lambda row: length(row.seconds or 0.0)),
    ("cost_usd", "cheapest", lambda row: money(row.session.seen.facts.cost_usd)),
    ("tokens", "fewest tokens", lambda row: short(row.tokens or 0)),
    ("lines", "fewest lines", lambda row: str(row.changes.lines if row.changes else "-")),
)


def _best(given: Comparison, what: str, word: str, show: Callable[[Row], str]) -> str:
    found = [row for row in given.rows if what in row.best_in]
    return f"{word}: {_names([row.slot for row in found])} ({show(found[0])})" if found else ""


def _between(given: Comparison) -> list[str]:
    """Each pair once; of many, how many and where."""
    pairs: dict[frozenset[str], str] = {}
    files: dict[str, None] = {}
    for row in given.rows:
        for conflict in row.conflicts or ():
            told = f"{row.slot} and {conflict.other} in {_names(conflict.files)}"
            pairs.setdefault(frozenset((row.slot, conflict.other)), told)
            files |= dict.fromkeys(conflict.files)
    if len(pairs) > NAMED:
        return [f"conflicts: {len(pairs)} pairs, in {_names(list(files))}"]
    return [f"conflicts: {'; '.join(pairs.values())}"] if pairs else []


def _unknown(given: Comparison) -> list[Row]:
    """Those whose changes ought to be known: of a plain directory nobody expects it."""
    return [row for row in given.rows if row.changes_unknown is not None and row.worktree is not None]


def _of_many(lines: list[str]) -> list[str]:
    """They say much the same, and must not push the table off the screen."""
    more = len(lines) - NAMED
    return [*lines[:NAMED], f"and {more} more like that"] if more > 1 else lines


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def length(seconds: float) -> str:
    """`41s`, `3m 20s`, `2h 05m`: two units, because slots differ by less than one."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s" if whole >= 10 else f"{seconds:.1f}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def short(number: int) -> str:
    """`950`, `12.3k`, `4.1M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def money(dollars: float | None) -> str:
    if dollars is None:
        return "-"
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"
