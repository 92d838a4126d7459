"""Plays that most agents can do alike. What differs, an agent's own module overrides."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.real.actor import identity_of, make_prompt
from tests.real.lab import row_of
from tests.real.scenarios import SIGNALS, Play
from tests.waiting import until

if TYPE_CHECKING:
    from tests.real.actor import Actor
    from tests.real.errand import Errand
    from tests.real.lab import Lab


def start(lab: Lab) -> None:
    """Nothing but the prompt on the screen."""
    lab.tui().is_now("idle")


def first_answer(lab: Lab) -> None:
    """A turn of its own, headless: it works, it answers, it ends."""
    actor = lab.headless("[[gate=%]] hello")
    actor.is_held()
    actor.opens()
    actor.is_gone(outcome="completed")


def long_stream(lab: Lab) -> None:
    actor = lab.tui()
    actor.says("[[gate=%]] count")
    actor.plays_out()


def silent_thinking(lab: Lab) -> None:
    """Neither a byte from the model nor a byte on disk."""
    actor = lab.tui()
    actor.says("[[mute=%]] think")
    actor.plays_out()


def tool_running(lab: Lab) -> None:
    errand = lab.errand()
    actor = lab.headless(f"[[tool={errand.command}]] work")
    actor.is_now("running", since=errand.has_begun())
    actor.unsettled()
    errand.finish()
    actor.is_gone(outcome="completed")


def idle(lab: Lab) -> None:
    """After a turn, and after another one."""
    actor = lab.tui()
    for _ in range(2):
        actor.says("[[gate=%]] hello")
        actor.plays_out()


def api_error(lab: Lab) -> None:
    """Headless it ends with it, in its TUI a person may go on."""
    lab.headless("[[error=400]] hello").is_gone(outcome="failed")
    actor = lab.tui()
    actor.says("[[error=400]] hello")
    actor.is_now("idle", since=actor.heard("refused").at)


def retry(lab: Lab, status: int = 529) -> None:
    """Its turn is open while it waits to try again."""
    actor = lab.tui()
    actor.says(f"[[error={status}x2]] [[gate=%]] hello")
    actor.is_now("running", since=actor.heard("refused").at)
    actor.plays_out()


def model_server_gone(lab: Lab, retrying: str, words: tuple[str, ...] = (), **more: str) -> None:
    """In the middle of an answer, and before there is one: it tries again. `words`: arguments that make
    it; `retrying`: what its screen shows then."""
    actor = lab.tui(*words)
    actor.says("[[gate=%]] count")
    actor.is_held()
    actor.unsettled()
    lab.model.stop()
    actor.is_now("running", since=actor.heard("dropped").at, **more)
    _model_comes_back(actor)
    lab.model.stop()
    actor.types("[[gate=%]] and again")
    actor.is_now("running", since=actor.sees(retrying), **more)
    _model_comes_back(actor)


def _model_comes_back(actor: Actor) -> None:
    last = actor.lab.model.journal.last
    actor.lab.model.start()
    actor.plays_out(after=last)


def wait_for_unknown_activity(actor: Actor) -> None:
    """Whether a person is needed cannot be known: agentctl must say neither `working` nor `idle`."""

    def is_unknown() -> bool:
        row = row_of(actor.lab.rows(), actor.who())
        return row is not None and (row["status"], row["activity"]) == ("running", "unknown")

    until(is_unknown, f"{actor.name} is listed as running, activity unknown")


def command_allowed(actor: Actor, errand: Errand) -> None:
    """The command that was asked for runs; then the model has the word again, and stands at a gate."""
    actor.is_now("running", since=errand.has_begun())
    actor.unsettled()
    errand.finish()
    actor.plays_out()


def detached_shell(lab: Lab) -> None:
    """The agent has no background shell of its own; what its command leaves behind is not waited for,
    and is no longer its child."""
    errand = lab.errand()
    actor = lab.tui()
    actor.says(f"[[tool=({errand.command} >/dev/null 2>&1 &)]] go on")
    errand.has_begun()
    actor.has_answer()
    assert errand.runs
    actor.says("[[gate=%]] go on")
    actor.plays_out()
    errand.finish()
    actor.is_now("idle")


def esc_interrupt(lab: Lab, *keys: str) -> None:
    """`keys`: what a person presses to interrupt it."""
    actor = lab.tui()
    actor.says("[[gate=%]] count")
    actor.is_held()
    actor.presses(*(keys or ("Escape",)))
    actor.is_now("idle", since=actor.heard("left").at)


def killed_while_streaming(lab: Lab, name: str, outcome: str) -> None:
    actor = lab.headless("[[gate=%]] count")
    actor.is_held()
    actor.has_id()  # killed before it wrote anything, it would leave nothing to list
    actor.signal(signal.Signals[name])
    actor.is_gone(outcome=outcome)


def killed_while_a_tool_runs(
    lab: Lab, name: str, outcome: str, *, orphans: tuple[str, ...], shell: bool = False
) -> None:
    """`orphans`: the signals that the agent's command outlives; `shell`: as one of a shell's, which is
    then the agent's only child."""
    errand = lab.errand()
    command = f"{errand.command}; true" if shell else errand.command
    actor = lab.headless(f"[[tool={command}]] work")
    actor.is_now("running", since=errand.has_begun())
    actor.has_id()
    actor.signal(signal.Signals[name])
    actor.is_gone(outcome=outcome)
    assert errand.runs == (name in orphans), f"its command {'lives' if errand.runs else 'is dead'}"


def two_in_one_directory(lab: Lab) -> None:
    first, second = lab.tui(), lab.headless("[[gate=%]] count")
    second.is_held()
    first.says("hello")
    first.has_answer()
    second.is_now("running")
    second.signal(signal.SIGKILL)
    second.is_gone(outcome="killed")
    first.is_now("idle")


def three_in_one_directory(lab: Lab) -> None:
    """At a prompt, at work with the model, at work with a tool."""
    first, second = lab.tui(), lab.headless("[[gate=%]] count")
    second.is_held()
    errand = lab.errand()
    third = lab.headless(f"[[tool={errand.command}]] work")
    third.is_now("running", since=errand.has_begun())
    first.says("hello")
    first.has_answer()
    second.signal(signal.SIGKILL)
    second.is_gone(outcome="killed")
    first.is_now("idle")
    third.is_now("running")
    third.unsettled()
    errand.finish()
    third.is_gone(outcome="completed")
    first.is_now("idle")


def parallel_starts(lab: Lab) -> None:
    """Each is found, with the id that is its own."""
    actors = [lab.headless("[[gate=%]] count") for _ in range(4)]
    for actor in actors:
        actor.is_held()
    for actor in actors:
        actor.has_id()
        actor.is_now("running")
    pids = {row["id"]: row["pid"] for row in lab.rows() if row["status"] != "stopped"}
    assert pids == {actor.session_id: actor.process.pid for actor in actors}
    for actor in actors:
        actor.opens()
    for actor in actors:
        actor.is_gone(outcome="completed")


def terminal_closed(lab: Lab, outcome: str = "killed") -> None:
    """While it works: the window is closed, the agent gets SIGHUP."""
    actor = lab.tui()
    actor.says("[[gate=%]] count")
    actor.is_held()
    actor.unsettled()
    actor.terminal.close()
    actor.is_gone(outcome=outcome)


def _is_deleted(directory: Path) -> bool:
    """Under a daemon that may be writing into it: as often as it takes."""
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def state_directory_deleted(lab: Lab) -> None:
    """What agentctl remembers is deleted; what it launched, and what it did not, is listed as before."""
    mark, prompt = make_prompt("[[gate=%]] count")
    launched = lab.agentctl("launch", lab.adapter, "--prompt", prompt, "--name", "mine", "--json").json()
    first = lab.enters(identity_of(launched["sessions"][0]["pid"]), mark)
    second = lab.headless("[[gate=%]] count")
    first.is_held()
    second.is_held()
    until(lambda: _is_deleted(lab.home / ".agentctl"), "all is deleted")
    first.is_now("running")
    second.is_now("running")
    first.opens()
    first.is_gone(outcome="completed")
    second.opens()
    second.is_gone(outcome="completed")


def daemon_killed(lab: Lab) -> None:
    """agentctl's own daemon, in the middle of a turn, which goes on and ends meanwhile. `list` answers
    as before; the next daemon reports the gap, and each change from then on once."""
    actor = lab.tui()
    actor.says("[[gate=%]] count")
    actor.is_held()
    lab.kills_daemon()
    actor.is_now("running")
    actor.opens()
    actor.has_answer()
    lab.starts_daemon()
    actor.is_now("idle")
    actor.says("[[gate=%]] and again")
    actor.is_held()
    lab.kills_daemon()
    lab.starts_daemon()
    actor.is_now("running")
    actor.signal(signal.SIGKILL)
    actor.is_gone(outcome="killed")


def by_each_signal(
    title: str, play: Callable[[Lab, str, str], None], outcomes: dict[str, str]
) -> dict[str, Play]:
    """One play per signal; `outcomes`: the outcome that the agent's own records then show."""

    def make_play(name: str) -> Play:
        return lambda lab: play(lab, name, outcomes[name])

    return {f"{name} {title}": make_play(name) for name in SIGNALS}
