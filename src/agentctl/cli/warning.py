"""A line for a person beside the answer, on standard error."""

from __future__ import annotations

import sys

from agentctl.text import one_line


def warn(text: str) -> None:
    print(f"agentctl: {one_line(text)}", file=sys.stderr)
