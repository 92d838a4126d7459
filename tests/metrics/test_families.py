"""The table of families: what Prometheus expects of names, and what the pages say of them."""

import json
import re
from pathlib import Path

import pytest

from agentctl.metrics import families
from agentctl.metrics.exposition import Sample
from agentctl.metrics.families import FAMILIES

DOCS = Path(__file__).parent.parent.parent / "docs"
NAME = re.compile(r"\bagentctl_[a-z_]+\b")


@pytest.mark.parametrize("name", FAMILIES)
def test_names_are_as_prometheus_wants_them(name: str) -> None:
    known = FAMILIES[name]
    assert re.fullmatch(r"agentctl_[a-z_]+", name)
    assert name.endswith("_total") == (known.type == "counter")
    assert not set(known.labels) & {"le", "quantile", "job", "instance"}
    assert known.help.endswith(".")


def test_a_family_has_the_words_of_the_table() -> None:
    made = families.family("agentctl_locks", [Sample({"holder": "agent"}, 2)])
    assert (made.type, made.help) == (FAMILIES["agentctl_locks"].type, FAMILIES["agentctl_locks"].help)
    with pytest.raises(KeyError):
        families.family("agentctl_unheard_of", [])


def test_the_page_tells_every_family_as_it_is() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    told = [line for line in page.splitlines() if line.startswith("| `agentctl_")]
    rows = [(name, known) for name, known in FAMILIES.items() if known.origin == "now"]
    rows += [(name, known) for name, known in FAMILIES.items() if known.origin == "daemon"]
    assert told == [
        f"| `{name}` | {known.type} | {', '.join(known.labels) or '-'} | {known.help} |"
        for name, known in rows
    ]


def expressions() -> list[str]:
    dashboard = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def test_the_dashboard_asks_only_for_what_there_is() -> None:
    exported = set(FAMILIES)
    for name, known in FAMILIES.items():
        if known.type == "histogram":
            exported |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
            exported.remove(name)
    used = {name for expression in expressions() for name in NAME.findall(expression)}
    assert used <= exported
    assert len(used) >= 10


def test_the_dashboard_groups_by_labels_that_are_there() -> None:
    for expression in expressions():
        names = [n.removesuffix("_bucket") for n in NAME.findall(expression)]
        labels = {"le"} | {label for n in names for label in FAMILIES[n].labels}
        for group in re.findall(r"by \(([^)]*)\)", expression):
            assert set(re.split(r",\s*", group)) <= labels, expression
