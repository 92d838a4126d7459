"""Columns that fit the terminal."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentctl.text import clean_line, measure_width
from agentctl.view.rows import LAYOUT
from agentctl.view.table import WHOLE, Cell, Column, render
from tests.cli import hostile

COLOUR = re.compile(r"\x1b\[\d+m")
CELL = st.builds(
    Cell,
    st.text(st.characters(exclude_categories=()), max_size=50).map(clean_line),
    st.sampled_from(["", "red", "dim"]),
    st.booleans(),
)
ROWS = st.lists(st.lists(CELL, min_size=len(LAYOUT), max_size=len(LAYOUT)), max_size=4)
TWO = (Column("ID", WHOLE), Column("ABOUT", 4, goes=1))


@given(ROWS, st.integers(1, 160), st.booleans())
def test_every_line_fits_and_is_harmless(rows: list[list[Cell]], columns: int, colour: bool) -> None:
    lines = render(LAYOUT, rows, columns, colour=colour)
    assert len(lines) == len(rows) + 1
    for line in lines:
        plain = COLOUR.sub("", line)
        assert measure_width(plain) <= columns
        assert hostile.harmful(plain) == []
        assert "\n" not in line


@given(ROWS)
def test_nothing_is_cut_where_there_is_room(rows: list[list[Cell]]) -> None:
    lines = render(LAYOUT, rows, 6 * 320, colour=False)
    for row, line in zip(rows, lines[1:], strict=True):
        assert all(cell.text.rstrip() in line for cell in row)  # a line has no trailing blanks


def _rows(*rows: tuple[str, ...]) -> list[list[Cell]]:
    return [[Cell(text) for text in row] for row in rows]


def test_columns_are_aligned_by_visible_width() -> None:
    lines = render(TWO, _rows(("漢字", "x"), ("e\u0301", "y")), 40, colour=False)
    assert lines == ["ID    ABOUT", "漢字  x", "e\u0301     y"]


def test_the_widest_column_is_cut_first() -> None:
    layout = (Column("A", 2), Column("B", 2), Column("C", 2))
    lines = render(layout, _rows(("aaaa", "b" * 30, "c" * 30)), 30, colour=False)
    assert lines[1].split() == ["aaaa", "bbbbbbbbbb…", "cccccccccc…"]


def test_an_id_is_never_cut_to_make_room() -> None:
    lines = render(TWO, _rows(("0123456789abc", "a long story")), 20, colour=False)
    assert lines[1] == "0123456789abc  a lo…"
    lines = render(TWO, _rows(("0123456789abc", "a long story")), 18, colour=False)
    assert lines == ["ID", "0123456789abc"]


def test_the_end_of_a_path_is_kept() -> None:
    layout = (Column("DIRECTORY", 4),)
    assert render(layout, [[Cell("/a/b/c/work", keep_end=True)]], 6, colour=False)[1] == "…/work"


def test_a_narrower_table_has_fewer_columns() -> None:
    row = [Cell(text) for text in ("01234567", "waiting 3m", "demo", "demo-1", "~/work", "fix it all")]
    headers = [render(LAYOUT, [row], columns, colour=False)[0].split() for columns in range(10, 80)]
    counts = [len(titles) for titles in headers]
    assert counts == sorted(counts)
    assert headers[0] == ["ID"]
    assert headers[-1] == [column.title for column in LAYOUT]
    assert ["ID", "STATUS", "ABOUT"] in headers  # the agent's name is dropped before ABOUT


def test_colour_changes_no_width() -> None:
    row = [[Cell("x" * 40, "red"), Cell("y" * 40, "dim")]]
    plain = render(TWO, row, 50, colour=False)
    painted = render(TWO, row, 50, colour=True)
    assert painted != plain
    assert [COLOUR.sub("", line) for line in painted] == plain


def test_a_cell_with_hostile_text_is_made_harmless() -> None:
    lines = render(
        (Column("A", 5), Column("B", 5)), [[Cell(hostile.ALL), Cell("b")]], 4000, colour=False
    )
    assert len(lines) == 2
    assert hostile.harmful("\n".join(lines)) == []
