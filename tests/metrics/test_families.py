"""The table of families: the rules of Prometheus, and the pages that show it."""

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
def test_the_names_follow_the_rules_of_prometheus(name: str) -> None:
    family = FAMILIES[name]
    assert re.fullmatch(r"agentctl_[a-z_]+", name)
    assert name.endswith("_total") == (family.type == "counter")
    assert not set(family.labels) & {"le", "quantile", "job", "instance"}
    assert family.help.endswith(".")


def test_a_family_has_the_type_and_help_of_the_table() -> None:
    family = families.make_family("agentctl_locks", [Sample({"holder": "agent"}, 2)])
    assert (family.type, family.help) == (
        FAMILIES["agentctl_locks"].type,
        FAMILIES["agentctl_locks"].help,
    )
    with pytest.raises(KeyError):
        families.make_family("agentctl_unheard_of", [])


def test_the_page_lists_every_family() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| `agentctl_")]
    rows = [(name, family) for name, family in FAMILIES.items() if family.origin == "now"]
    rows += [(name, family) for name, family in FAMILIES.items() if family.origin == "daemon"]
    assert lines == [
        f"| `{name}` | {family.type} | {', '.join(family.labels) or '-'} | {family.help} |"
        for name, family in rows
    ]


def read_expressions() -> list[str]:
    dashboard = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def test_the_dashboard_uses_only_existing_families() -> None:
    exported = set(FAMILIES)
    for name, family in FAMILIES.items():
        if family.type == "histogram":
            exported |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
            exported.remove(name)
    used = {name for expression in read_expressions() for name in NAME.findall(expression)}
    assert used <= exported
    assert len(used) >= 10


def test_the_dashboard_groups_by_existing_labels() -> None:
    for expression in read_expressions():
        names = [n.removesuffix("_bucket") for n in NAME.findall(expression)]
        labels = {"le"} | {label for n in names for label in FAMILIES[n].labels}
        for group in re.findall(r"by \(([^)]*)\)", expression):
            assert set(re.split(r",\s*", group)) <= labels, expression
