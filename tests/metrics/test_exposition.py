"""What we write is what the official client reads."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agentctl.metrics import exposition
from agentctl.metrics.exposition import Family, Histogram, Sample

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name != "le" and not name.startswith("__")  # both are reserved
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def read(written: str) -> list[tuple[str, dict[str, str], float]]:
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(written)
        for sample in family.samples
    ]


@given(labels=st.dictionaries(NAMES, TEXTS, max_size=4), value=st.floats(allow_nan=False))
def test_any_label_and_any_number_come_back(labels: dict[str, str], value: float) -> None:
    written = exposition.text([Family("m", "gauge", "of all", [Sample(labels, value)])])
    assert read(written) == [("m", labels, value)]


@given(words=TEXTS)
def test_any_help_comes_back(words: str) -> None:
    written = exposition.text([Family("m", "gauge", words, [Sample({}, 1)])])
    [family] = text_string_to_metric_families(written)
    # the reader cuts blanks off each line
    assert family.documentation.strip() == words.strip()


def test_a_lone_surrogate_is_shown_as_its_code() -> None:
    written = exposition.text([Family("m", "gauge", "h", [Sample({"a": "\udcff"}, 1)])])
    assert read(written) == [("m", {"a": "\\udcff"}, 1.0)]


def test_counters_and_gauges_with_their_types() -> None:
    written = exposition.text(
        [
            Family("sold_total", "counter", "apples", [Sample({"kind": "red"}, 3)]),
            Family("left", "gauge", "apples", [Sample({}, math.nan)]),
            Family("none", "gauge", "of these"),
        ]
    )
    found = {family.name: family for family in text_string_to_metric_families(written)}
    assert {name: family.type for name, family in found.items()} == {
        "sold": "counter",
        "left": "gauge",
        "none": "gauge",
    }
    assert math.isnan(found["left"].samples[0].value)
    assert found["none"].samples == []


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3, "3"),
        (3.0, "3"),
        (0.25, "0.25"),
        (1e18, "1e+18"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (10**400, "+Inf"),
    ],
)
def test_numbers(value: float, written: str) -> None:
    assert exposition.number(value) == written


@given(values=st.lists(st.floats(0, 100, allow_nan=False), max_size=30))
def test_a_bucket_holds_what_is_at_most_its_bound(values: list[float]) -> None:
    bounds = (0.5, 10.0, 60.0)
    made = Histogram(bounds)
    for value in values:
        made.observe(value)
    written = exposition.text([Family("took", "histogram", "h", made.samples({"adapter": "pi"}))])
    found = {(name, labels.get("le")): value for name, labels, value in read(written)}
    for bound in bounds:
        at_most = sum(value <= bound for value in values)
        assert found["took_bucket", exposition.number(bound)] == at_most
    assert found["took_bucket", "+Inf"] == found["took_count", None] == len(values)
    assert found["took_sum", None] == pytest.approx(sum(values))


def test_a_note_for_people_is_passed_over() -> None:
    written = exposition.comment("HELP yourself\nTYPE this") + "m 1\n"
    assert written.startswith("# note: HELP yourself\\nTYPE this\n")
    assert read(written) == [("m", {}, 1.0)]


@given(value=st.floats())
def test_plain_values_and_back(value: float) -> None:
    made = Histogram((1.0,))
    made.observe(0.5)
    given = [
        Family("left", "gauge", "apples", [Sample({"kind": "red"}, value)]),
        Family("took", "histogram", "time", made.samples({"adapter": "pi"})),
    ]
    told = json.loads(json.dumps(exposition.shapes(given), allow_nan=False))
    assert exposition.text(exposition.families(told)) == exposition.text(given)
