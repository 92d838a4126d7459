"""For how long what is seen of a session must hold before it is told.

- That nobody can tell: a process that ends has lost its arguments before it is gone, and an agent that
  is about to end takes away what says that it is idle. 30 ms later all is clear.
- A wait that we derive (`observe.settled`): also one that is old when it is first seen, since a command
  that has just ended leaves the same traces until its output is written down. At the start of a session
  there is no such command.
- A process that shows no session: an agent's own helpers, and whoever says its version and ends, are
  gone before anybody would want to know.
- The end of a launch whose shim has not yet written down the exit code.

Meanwhile nothing is told, and nothing is guessed. All else is told at once.
"""

from __future__ import annotations

from agentctl.truth.model import Session
from agentctl.truth.observe import SETTLED_AFTER
from agentctl.watch.story import Word, is_derived

DOUBT = 2.0  # seconds that nobody can tell, before that is told
NEWCOMER = 1.0  # seconds that a process without a session lives, before it is told


def wanted_patience(session: Session, word: Word | None, *, begun: bool) -> float:
    """In seconds; 0: none. `word`: what was last told of it; `begun`: the first look is over."""
    status, known = session.verdict.status, word is not None or begun
    unsure = status == "running" and session.verdict.activity == "unknown"
    if word is None and begun and session.seen.session_id is None:
        return NEWCOMER
    if word is not None and word.status == status and not (unsure and word.activity == "working"):
        return 0.0
    if status == "unknown":
        return DOUBT if known else 0.0
    if unsure:
        return _until_unsure(word)
    if status == "waiting":
        at_start = session.verdict.waiting_for == "startup"
        return SETTLED_AFTER if known and is_derived(session) and not at_start else 0.0
    ending = session.launch is not None and session.launch.ended is None
    return DOUBT if status == "stopped" and ending else 0.0


def _until_unsure(word: Word | None) -> float:
    if word is None:
        return 0.0
    if word.status == "running":
        return SETTLED_AFTER
    return DOUBT if word.status in ("idle", "waiting") else 0.0
