"""Read pytest's report: how many tests passed, and which could not run and why."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Report(NamedTuple):
    passed: int
    failed: int
    skipped: Mapping[str, list[str]]  # the tests for each reason

    def lines(self) -> list[str]:
        if not self.skipped:
            return []
        lines = ["", "== could not run"]
        for reason, tests in sorted(self.skipped.items()):
            lines += [reason, *(f"    {each}" for each in tests)]
        return lines

    def counts(self) -> str:
        skipped = sum(map(len, self.skipped.values()))
        return f"{self.passed} passed, {self.failed} failed, {skipped} could not run"


def read(path: Path) -> Report:
    """Return the counts of a report; without one nothing has passed."""
    try:
        root = ET.parse(path).getroot()
    except (FileNotFoundError, ET.ParseError):
        return Report(0, 0, {})
    passed = failed = 0
    skipped: dict[str, list[str]] = {}
    for case in root.iter("testcase"):
        skip = case.find("skipped")
        if skip is not None:
            skipped.setdefault(skip.get("message") or "no reason given", []).append(_name(case))
        elif case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        else:
            passed += 1
    return Report(passed, failed, skipped)


def _name(case: ET.Element) -> str:
    module = case.get("classname", "").replace(".", "/")
    return f"{module}::{case.get('name')}"
