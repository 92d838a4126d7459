"""The official client reads the values that we write."""

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


def parse_samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


@given(labels=st.dictionaries(NAMES, TEXTS, max_size=4), value=st.floats(allow_nan=False))
def test_any_label_and_any_number_come_back(labels: dict[str, str], value: float) -> None:
    text = exposition.render_text([Family("m", "gauge", "of all", [Sample(labels, value)])])
    assert parse_samples(text) == [("m", labels, value)]


@given(words=TEXTS)
def test_any_help_comes_back(words: str) -> None:
    text = exposition.render_text([Family("m", "gauge", words, [Sample({}, 1)])])
    [family] = text_string_to_metric_families(text)
    # the reader cuts blanks off each line
    assert family.documentation.strip() == words.strip()


def test_a_lone_surrogate_is_shown_as_its_code() -> None:
    text = exposition.render_text([Family("m", "gauge", "h", [Sample({"a": "\udcff"}, 1)])])
    assert parse_samples(text) == [("m", {"a": "\\udcff"}, 1.0)]


def test_counters_and_gauges_with_their_types() -> None:
    text = exposition.render_text(
        [
            Family("sold_total", "counter", "apples", [Sample({"kind": "red"}, 3)]),
            Family("left", "gauge", "apples", [Sample({}, math.nan)]),
            Family("none", "gauge", "of these"),
        ]
    )
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {name: family.type for name, family in families.items()} == {
        "sold": "counter",
        "left": "gauge",
        "none": "gauge",
    }
    assert math.isnan(families["left"].samples[0].value)
    assert families["none"].samples == []


@pytest.mark.parametrize(
    ("value", "text"),
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
def test_the_format_of_a_number(value: float, text: str) -> None:
    assert exposition.format_number(value) == text


@given(values=st.lists(st.floats(0, 100, allow_nan=False), max_size=30))
def test_a_bucket_counts_values_up_to_its_bound(values: list[float]) -> None:
    bounds = (0.5, 10.0, 60.0)
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    text = exposition.render_text(
        [Family("took", "histogram", "h", histogram.samples({"adapter": "pi"}))]
    )
    samples = {(name, labels.get("le")): value for name, labels, value in parse_samples(text)}
    for bound in bounds:
        at_most = sum(value <= bound for value in values)
        assert samples["took_bucket", exposition.format_number(bound)] == at_most
    assert samples["took_bucket", "+Inf"] == samples["took_count", None] == len(values)
    assert samples["took_sum", None] == pytest.approx(sum(values))


def test_a_comment_is_skipped_by_the_client() -> None:
    text = exposition.render_comment("HELP yourself\nTYPE this") + "m 1\n"
    assert text.startswith("# note: HELP yourself\\nTYPE this\n")
    assert parse_samples(text) == [("m", {}, 1.0)]


@given(value=st.floats())
def test_families_survive_json(value: float) -> None:
    histogram = Histogram((1.0,))
    histogram.observe(0.5)
    families = [
        Family("left", "gauge", "apples", [Sample({"kind": "red"}, value)]),
        Family("took", "histogram", "time", histogram.samples({"adapter": "pi"})),
    ]
    fields = json.loads(json.dumps(exposition.families_json(families), allow_nan=False))
    assert exposition.render_text(exposition.parse_families(fields)) == exposition.render_text(families)
