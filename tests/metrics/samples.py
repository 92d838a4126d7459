"""Samples as the official client reads them."""

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from agentctl.metrics import exposition
from agentctl.metrics.exposition import Family

Samples = dict[tuple[str, tuple[str, ...]], float]


def read_samples(families: Iterable[Family]) -> Samples:
    """Return each value by the name of its sample and the values of its labels."""
    return {
        (sample.name.removeprefix("agentctl_"), tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(exposition.render_text(families))
        for sample in family.samples
    }
