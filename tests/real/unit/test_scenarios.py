"""The table of plays: complete, and honest about what is missing."""

from __future__ import annotations

import pytest

from tests.real.pins import agents
from tests.real.scenarios import TITLES, repertoire
from tests.real.scenarios.page import page


@pytest.mark.parametrize("agent", agents())
def test_every_scenario_is_played_or_says_why_not(agent: str) -> None:
    table = repertoire(agent)
    assert table.plays.keys() | table.cannot.keys() == set(TITLES)
    assert not table.plays.keys() & table.cannot.keys()
    assert all(table.cannot.values())


def test_the_page_has_a_row_for_each() -> None:
    text = page()
    assert all(f"| {title} |" in text for title in TITLES)
