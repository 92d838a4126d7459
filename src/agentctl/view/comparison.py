"""A comparison for people: one row for each slot, the best of each measure marked, and a summary below.
Fits a hundred columns; narrower terminals lose the least important ones."""

from __future__ import annotations

from agentctl import text
from agentctl.compare.model import Comparison, Row
from agentctl.light_typing import Callable, Iterable, Sequence
from agentctl.view import rows, table
from agentctl.view.table import WHOLE, Cell, Column
from agentctl.wire.session import wire_session

LAYOUT = (
    Column("SLOT", 24),  # the name matters more than most of the rest
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
NAMED = 3  # slots named in a summary; the rest is counted


def comparison_lines(comparison: Comparison, columns: int, *, colour: bool) -> list[str]:
    ids = rows.short_ids([rows.session_name(row.session) for row in comparison.rows])
    cells = [_cells(row, id_) for row, id_ in zip(comparison.rows, ids, strict=True)]
    indexes = [i for i, column in enumerate(LAYOUT) if _is_needed(column, [row[i] for row in cells])]
    layout, cells = _align_right(
        [LAYOUT[i] for i in indexes], [[row[i] for i in indexes] for row in cells]
    )
    lines = table.render(layout, cells, columns, colour=colour)
    return [*lines, "", *(text.cut(line, columns) for line in summary_lines(comparison))]


def _is_needed(column: Column, cells: Iterable[Cell]) -> bool:
    """Return False for an optional column without any value."""
    return column.title in ("SLOT", "STATUS", "TIME", "LINES") or any(c.text != "-" for c in cells)


def _align_right(
    layout: Sequence[Column], cells: list[list[Cell]]
) -> tuple[list[Column], list[list[Cell]]]:
    """Align numbers by their last digit. A mark at the end gets a column of its own."""
    columns = list(layout)
    for i, column in enumerate(layout):
        if column.title not in RIGHT:
            continue
        has_mark = any(row[i].text.endswith("*") for row in cells)
        for row in cells:
            if has_mark and not row[i].text.endswith("*"):
                row[i] = row[i]._replace(text=f"{row[i].text} ")
        size = max(len(column.title), *(text.measure_width(row[i].text) for row in cells))
        columns[i] = column._replace(title=column.title.rjust(size))
        for row in cells:
            row[i] = row[i]._replace(text=" " * (size - text.measure_width(row[i].text)) + row[i].text)
    return columns, cells


def _cells(row: Row, id_: str) -> list[Cell]:
    changes = row.changes
    model = row.model if row.model and row.model != row.slot else None
    agent = row.session.observation.adapter + (f" {model}" if model else "")
    return [
        Cell(text.clean_line(row.slot), "bold", keep_ends=True),
        Cell(id_),
        Cell(text.clean_line(agent)),
        _status_cell(row),
        _measure_cell(row, "seconds", format_length(row.seconds) if row.seconds is not None else "-"),
        _measure_cell(row, "tokens", format_count(row.tokens) if row.tokens is not None else "-"),
        _measure_cell(row, "cost_usd", format_money(row.session.observation.facts.cost_usd)),
        Cell(str(changes.files) if changes else "-"),
        _measure_cell(row, "lines", f"+{changes.insertions} -{changes.deletions}" if changes else "-"),
        Cell(f"{changes.commits}{'+' * bool(changes.uncommitted)}" if changes else "-"),
        _check_cell(row),
        _conflict_cell(row),
    ]


def _measure_cell(row: Row, measure: str, value: str) -> Cell:
    return Cell(f"{value}*", "green") if measure in row.best_in else Cell(value)


def _status_cell(row: Row) -> Cell:
    word, code = rows.status_word(wire_session(row.session)), row.session.verdict.exit_code
    status = f"{word} ({code})" if code else word
    colour = "green" if word == "completed" else rows.COLOURS.get(word, "")
    return Cell(status, colour or rows.COLOURS.get(row.session.verdict.status, ""))


def _check_cell(row: Row) -> Cell:
    if row.check is None:
        note = row.session.launch
        has_hook = note is not None and note.on_complete is not None
        return Cell("not yet" if has_hook else "-", "dim")
    if row.check.code is None:
        return Cell("took too long", "red")
    return Cell("passed", "green") if row.has_passed else Cell(f"failed ({row.check.code})", "red")


def _conflict_cell(row: Row) -> Cell:
    if row.conflicts is None:
        return Cell("-", "dim")
    if not row.conflicts:
        return Cell("none", "dim")
    others = [conflict.other for conflict in row.conflicts]
    names = ", ".join(others) if len(others) <= NAMED else f"{len(others)} others"
    return Cell(text.clean_line(names), "yellow")


def summary_lines(comparison: Comparison) -> list[str]:
    """Return which slots are best, passed, conflict, or could not be read."""
    best = [_best_part(comparison, *each) for each in _SUPERLATIVES]
    lines = [" · ".join(filter(None, best))] if any(best) else []
    with_check = [row for row in comparison.rows if row.check is not None]
    if with_check:
        slots = {
            "passed": [row.slot for row in with_check if row.has_passed],
            "failed": [row.slot for row in with_check if not row.has_passed],
        }
        parts = [f"{word} {text.join_some(names, NAMED)}" for word, names in slots.items() if names]
        lines.append(f"check: {'; '.join(parts)}")
    lines += _conflict_lines(comparison)
    lines += _unknown_lines(comparison)
    return [text.clean_line(line) for line in lines] or ["no slot is better than another"]


_SUPERLATIVES: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    ("seconds", "fastest", lambda row: format_length(row.seconds or 0.0)),
    ("cost_usd", "cheapest", lambda row: format_money(row.session.observation.facts.cost_usd)),
    ("tokens", "fewest tokens", lambda row: format_count(row.tokens or 0)),
    ("lines", "fewest lines", lambda row: str(row.changes.lines if row.changes else "-")),
)


def _best_part(comparison: Comparison, measure: str, word: str, show: Callable[[Row], str]) -> str:
    best = [row for row in comparison.rows if measure in row.best_in]
    if not best:
        return ""
    return f"{word}: {text.join_some([row.slot for row in best], NAMED)} ({show(best[0])})"


def _conflict_lines(comparison: Comparison) -> list[str]:
    """Return each pair once; if there are many, their number and the files."""
    pairs: dict[frozenset[str], str] = {}
    files: dict[str, None] = {}
    for row in comparison.rows:
        for conflict in row.conflicts or ():
            pair = f"{row.slot} and {conflict.other} in {text.join_some(conflict.files, NAMED)}"
            pairs.setdefault(frozenset((row.slot, conflict.other)), pair)
            files |= dict.fromkeys(conflict.files)
    if len(pairs) > NAMED:
        return [f"conflicts: {len(pairs)} pairs, in {text.join_some(list(files), NAMED)}"]
    return [f"conflicts: {'; '.join(pairs.values())}"] if pairs else []


def _unknown_lines(comparison: Comparison) -> list[str]:
    """Return the slots with a worktree whose changes are not known, at most a few of them."""
    lines = [
        f"{row.slot}: changes not known: {row.changes_unknown}"
        for row in comparison.rows
        if row.changes_unknown is not None and row.worktree is not None
    ]
    more = len(lines) - NAMED
    return [*lines[:NAMED], f"and {more} more like that"] if more > 1 else lines


def format_length(seconds: float) -> str:
    """Return `41s`, `3m 20s`, `2h 05m`: two units, because slots differ by less than one."""
    total = int(seconds)
    if total < 60:
        return f"{total}s" if total >= 10 else f"{seconds:.1f}s"
    if total < 3600:
        return f"{total // 60}m {total % 60:02}s"
    return f"{total // 3600}h {total % 3600 // 60:02}m"


def format_count(number: int) -> str:
    """Return `950`, `12.3k`, `4.1M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def format_money(dollars: float | None) -> str:
    if dollars is None:
        return "-"
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"
