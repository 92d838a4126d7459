"""Pi 0.73.1, the last of its first package: writes a session's file with the first answer, not before.

Most is played as with 1.5. What differs: a first turn has a process and no session, a command does not
learn which session runs it, and retries leave no mark.
"""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING

from tests.real.scenarios import TITLES, Play, common, pi
from tests.real.scenarios.pi import sessions, terminal

if TYPE_CHECKING:
    from tests.real.lab import Lab

UNWRITTEN = "before its first answer there is no session, and a dead process leaves nothing"
SAME_SECONDS = "two that began within seconds of each other in one directory cannot be told apart"


def start(lab: Lab) -> None:
    lab.tui().is_now("idle", blind=terminal.NO_FILE)


def first_answer(lab: Lab) -> None:
    actor = lab.headless("[[gate=%]] hello")
    actor.is_held(blind=UNWRITTEN)
    actor.opens()
    actor.is_gone(outcome="completed")


def at_its_terminal(lab: Lab, pause: str) -> None:
    """A first turn, which cannot be seen, and a second one."""
    actor = lab.tui()
    actor.says(f"[[{pause}=%]] count")
    actor.is_held(blind=UNWRITTEN)
    actor.opens()
    actor.has_answer()
    actor.says(f"[[{pause}=%]] count")
    actor.plays_out()


def interrupted(lab: Lab) -> None:
    actor = lab.tui()
    actor.says("[[gate=%]] count")
    actor.is_held(blind=UNWRITTEN)
    actor.presses("Escape")
    actor.is_now("idle", since=actor.heard("left").at)


def killed_while_streaming(lab: Lab, name: str, outcome: str) -> None:
    """In a first turn, which leaves no trace; then in a later one."""
    first = lab.headless("[[gate=%]] count")
    first.is_held(blind=UNWRITTEN)
    first.signal(signal.Signals[name])
    first.is_gone(blind=UNWRITTEN)
    actor = lab.headless("[[gate=%]] count", "--session", sessions.make_session(lab))
    actor.is_held()
    actor.signal(signal.Signals[name])
    actor.is_gone(outcome=outcome)


def api_error(lab: Lab) -> None:
    """Headless first: the other way round, what ends might belong to the one that lives."""
    first = lab.headless("[[error=400]] hello")
    first.is_gone(outcome="failed")
    first.unsettled()
    actor = lab.tui()
    actor.says("[[error=400]] hello")
    actor.is_now("idle", since=actor.heard("refused").at)


def retry(lab: Lab) -> None:
    """Every try that fails is written down, and nothing of the plan to try again."""
    actor = lab.tui()
    actor.says("hello")
    actor.has_answer()
    # Its client tries twice more by itself: six refusals are two tries of Pi's own
    actor.says("[[error=500x6]] [[gate=%]] hello")
    actor.is_now("running", since=actor.sees("Retrying"), blind=terminal.TRYING)
    actor.is_held(blind=terminal.TRYING)
    actor.opens()
    actor.has_answer()
    actor.says("[[error=500]] hello")
    actor.terminal.shows("Retrying")
    actor.presses("Escape")
    actor.is_now("idle", since=actor.sees("Retry failed"), blind=terminal.TRYING)


def resume_in_the_tui(lab: Lab) -> None:
    """(The list that it shows stays on the screen when it is gone, where we could not see it go.)"""
    sessions.resume_by_words(lab)


def two_in_one_directory(lab: Lab) -> None:
    """Until one of them is dead, an unwritten session might belong to either."""
    first = lab.tui()
    first.says("hello")
    first.has_answer()
    first.unsettled()
    errand = lab.errand()
    second = lab.headless(f"[[tool={errand.command}]] work")
    second.is_now("running", since=errand.has_begun(), blind=SAME_SECONDS)
    first.is_now("idle", blind=SAME_SECONDS)
    second.unsettled()
    first.presses("C-d")
    first.is_gone(outcome="completed", blind=SAME_SECONDS)
    second.is_now("running", blind=SAME_SECONDS)
    second.unsettled()
    errand.finish()
    second.is_gone(outcome="completed")
    first.is_now("stopped", outcome="completed")


PLAYS: dict[str, Play] = {
    "start": start,
    "first answer": first_answer,
    "long stream": partial(at_its_terminal, pause="gate"),
    "silent thinking": partial(at_its_terminal, pause="mute"),
    "tool running": common.tool_running,
    "idle": partial(at_its_terminal, pause="silent"),
    "Esc interrupt": interrupted,
    "API error": api_error,
    "retry with back-off": retry,
    **common.by_each_signal("while streaming", killed_while_streaming, pi.ENDS),
    **common.by_each_signal(
        "while a tool runs", partial(common.killed_while_a_tool_runs, orphans=pi.ORPHANS), pi.ENDS
    ),
    "resume headless": sessions.resume_headless,
    "resume in the TUI": resume_in_the_tui,
    "fork": sessions.fork,
    "two sessions in one directory": two_in_one_directory,
}
ONLY_NEW = "played with the newer Pi alone"
CANNOT: dict[str, str] = {
    title: pi.CANNOT.get(title, ONLY_NEW) for title in TITLES if title not in PLAYS
}
