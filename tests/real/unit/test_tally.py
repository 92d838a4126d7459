"""The sums of the benchmark, and the page that is made of them."""

from __future__ import annotations

from typing import Any

from tests.real.accuracy import report
from tests.real.accuracy.run import replace_plays
from tests.real.accuracy.tally import Counted, tally, wrongs

RUN = {
    "command": "agentctl list -a --json",
    "interval": 50,
    "date": "2026-01-01",
    "kernel": "6.1",
    "python": "3.11",
    "cores": 2,
    "agents": "codex 1",
}


def make_finding(kind: str, truth: str, at: float = 0.0, blind: str = "") -> dict[str, Any]:
    return {
        "kind": kind,
        "play": "p",
        "actor": "a",
        "truth": truth,
        "said": "",
        "at": at,
        "blind": blind,
        "reason": "",
    }


def make_play(*findings: dict[str, Any], broken: str = "") -> dict[str, Any]:
    result = {"samples": 9, "gap": 0.05, "took": 0.1, "unreadable": [], "findings": list(findings)}
    return {"play": "p", "broken": broken, "tools": {"agentctl": result}}


def test_answers_are_counted_by_state() -> None:
    one = tally(
        [make_play(make_finding("right", "idle"), make_finding("unknown", "idle")), make_play()],
        "agentctl",
    )
    assert one.states["idle"] == Counted(1, 0, 1)
    assert (one.asked, one.total.samples) == (18, 2)


def test_blind_answers_are_counted_apart() -> None:
    one = tally([make_play(make_finding("wrong", "waiting", blind="why"))], "agentctl")
    assert one.total.samples == 0
    assert one.blind == {("waiting", "why"): Counted(0, 1, 0)}
    assert wrongs([make_play(make_finding("wrong", "waiting", blind="why"))], "agentctl") == []


def test_a_percentile_is_one_of_the_numbers() -> None:
    times = [make_finding("noticed", "running → idle", at / 100) for at in range(1, 101)]
    change = tally([make_play(*times)], "agentctl").changes["running → idle"]
    assert (change.noticed, change.median, change.p95) == (100, 0.505, 0.95)


def test_every_line_of_the_bar_can_be_missed() -> None:
    good = [make_finding("right", "idle")] * 200
    assert all(report.met([tally([make_play(*good)], "agentctl")]).values())
    for bad in ("wrong-stopped", "said-alive", "missed", "wrong"):
        met = report.met([tally([make_play(*good, make_finding(bad, "idle"))], "agentctl")])
        assert list(met.values()).count(False) == 1, bad
    unknown = [make_finding("unknown", "idle")] * 3
    met = report.met([tally([make_play(*good, *unknown)], "agentctl")])
    assert list(met.values()).count(False) == 1


def test_the_page_says_what_was_not_met_and_what_broke() -> None:
    plays = [
        make_play(
            make_finding("wrong-stopped", "alive"), make_finding("right", "idle"), broken="Oops: no"
        )
    ]
    tools = [{"name": "agentctl", "version": "1", "agents": ["codex"], "note": ""}]
    page = report.page({"run": RUN, "agents": {"codex": plays}, "tools": tools, "absent": {"x": "gone"}})
    assert "**not met**: no wrong `stopped` for a live process" in page
    assert "not played to its end: codex, p: Oops: no" in page
    assert "Not measured: x (gone)." in page


def test_equal_faults_are_one_entry_with_their_number() -> None:
    late, early = make_finding("wrong", "idle", 0.9), make_finding("wrong", "idle", 0.6)
    (entry,) = wrongs([make_play(late, early), make_play(make_finding("right", "idle"))], "agentctl")
    assert (entry["truth"], entry["times"], entry["at"]) == ("idle", 2, 0.6)


def test_the_page_names_the_plays_that_were_played_again() -> None:
    stored = [
        {**make_play(make_finding("wrong", "idle")), "play": "one"},
        {**make_play(make_finding("right", "idle")), "play": "two"},
    ]
    new = {**make_play(make_finding("right", "idle")), "play": "one", "again": True}
    plays = replace_plays(stored, [new])
    assert plays == [new, stored[1]]
    measured = {"run": RUN, "agents": {"codex": plays}, "tools": [], "absent": {}}
    line = "- played again, after the run that all others are from: codex, one\n"
    assert line in report.page(measured)
    assert "played again" not in report.page({**measured, "agents": {"codex": stored}})
