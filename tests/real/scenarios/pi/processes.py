"""Pi's processes: one inside the other, and upgraded."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tests.real.scenarios import crowd

if TYPE_CHECKING:
    from tests.real.lab import Lab


def pi_in_a_pi(lab: Lab) -> None:
    """The outer one was started from Claude Code's shell; the inner one inherits both their markers."""
    crowd.one_in_another(lab, "pi", CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="of-claude")


def upgraded(lab: Lab) -> None:
    """What is replaced is its node."""
    *_, node, script, _ = shlex.split((lab.pin.commands / "pi").read_text())
    crowd.upgraded(lab, node, "node", script)
