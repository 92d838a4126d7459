"""Everything that the author of an adapter imports: `from agentctl.adapters.api import …`.

docs/adapters/write-one.md describes it. agentctl itself imports nothing from here: this module loads all
that an adapter might need, also what `list` does not. `API` is the number of this interface. It grows
with an incompatible change, and an adapter for another number is refused.
"""

from __future__ import annotations

from agentctl.adapters.argv import Arguments, split
from agentctl.adapters.base import Adapter, FirstFiles, Place, Recognizer, StartModule
from agentctl.adapters.plans import Command, LaunchRequest, StopPlan, resume_directory, resume_root
from agentctl.adapters.registry import API, Agent
from agentctl.adapters.roots import find_root, xdg_directory
from agentctl.errors import (
    Forbidden,
    Gone,
    Malformed,
    Refused,
    SourceError,
    Unsupported,
    UsageError,
)
from agentctl.system import clock, files, jsonl
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.system.program import read_program
from agentctl.system.sqlite import Database
from agentctl.truth.bind import Binding, Tie, bind
from agentctl.truth.look import Environ, Look
from agentctl.truth.model import (
    PROMPT_CAP,
    Evidence,
    Facts,
    Message,
    Observation,
    Tokens,
    Turn,
)
from agentctl.truth.observe import (
    discount_earlier_turn,
    make_turn_evidence,
    mark_torn,
    observe_ended,
    observe_live,
    read_live_facts,
    read_transcript,
    settle_wait,
)
from agentctl.truth.survey import HistoryQuery, observe_process

__all__ = [
    "API",
    "PROMPT_CAP",
    "Adapter",
    "Agent",
    "Arguments",
    "Binding",
    "Command",
    "Database",
    "Environ",
    "Evidence",
    "Facts",
    "FirstFiles",
    "Forbidden",
    "Gone",
    "HistoryQuery",
    "LaunchRequest",
    "Look",
    "Malformed",
    "Message",
    "Observation",
    "Place",
    "Process",
    "ProcessIdentity",
    "Recognizer",
    "Refused",
    "SourceError",
    "StartModule",
    "StopPlan",
    "Tie",
    "Tokens",
    "Turn",
    "Unsupported",
    "UsageError",
    "bind",
    "clock",
    "discount_earlier_turn",
    "files",
    "find_root",
    "jsonl",
    "make_turn_evidence",
    "mark_torn",
    "observe_ended",
    "observe_live",
    "observe_process",
    "read_live_facts",
    "read_program",
    "read_transcript",
    "resume_directory",
    "resume_root",
    "settle_wait",
    "split",
    "xdg_directory",
]
