"""Two acts with one agent: at its terminal, and launched by agentctl. Each takes it from state to state.

At every step the driver *knows* what is true, from the model's journal, the kernel and the screen. Then
it checks that agentctl shows the same, for the expected reasons. A step that is not reached in time is
reported with the last lines of the agent, and ends the act.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from typing import Any

from agentctl.errors import SourceError
from agentctl.light_typing import Callable, Mapping, NamedTuple
from agentctl.rehearsal.model.journal import Kind
from agentctl.rehearsal.model.server import Model
from agentctl.rehearsal.recipe import Recipe
from agentctl.rehearsal.report import report_not_reached, report_reached
from agentctl.rehearsal.signals import Act, Expectation, Expected, Step
from agentctl.rehearsal.terminal import Terminal
from agentctl.rehearsal.tool_command import ToolCommand
from agentctl.rehearsal.tracker import SETTLE, Tracker, find_descendants
from agentctl.system import proc
from agentctl.system.pidfd import Handle

# In the prompt: they tell which act a request belongs to.
MARK = {"terminal": "rehearsal-one", "headless": "rehearsal-two"}
AGAIN = 2.0  # seconds until Enter is pressed again: some agents take a quick one for part of a paste
LAST_LINES = 12
LAUNCHER = "import sys; sys.path[:] = {}; from agentctl.__main__ import main; sys.exit(main())"


class Scene(NamedTuple):
    """What both acts use."""

    recipe: Recipe
    expected: Expected
    binary: str
    work: str
    environ: Mapping[str, str]
    model: Model
    patience: float  # seconds that a step may take
    show: Callable[[dict[str, Any]], None]


class _NotReached(Exception):
    """A step was not reached: the act ends."""


def play_at_terminal(scene: Scene) -> None:
    """Start the agent in a terminal and use it as a user would."""
    steps, recipe = scene.expected.terminal, scene.recipe
    environ = {**scene.environ, **scene.expected.environ}
    terminal = Terminal([scene.binary, *recipe.interactive], environ, scene.work)
    tool = ToolCommand(scene.work)
    play = _Play(scene, "terminal", steps, Tracker(recipe.adapter, terminal.pid))
    play.last_lines = lambda: _read_last_lines(terminal)
    try:
        play.step("start", terminal.wait_for(recipe.ready, scene.patience))
        call = scene.expected.call.replace("{command}", tool.writing_command)
        play.step("work", _send_prompt(terminal, play, f"{play.mark} [[gate={play.mark}]]{call}"))
        scene.model.open(play.mark)
        if "permission" in steps:
            play.step("permission", terminal.wait_for(scene.expected.question, scene.patience))
            play.step("tool", _allow_tool(terminal, tool, scene))
        else:
            play.step("tool", tool.wait_for_start(scene.patience))
        tool.finish()
        play.step("idle", play.wait_for_note("answered"))
        for word in recipe.leave:
            _send(terminal, word, recipe.enter)
        play.step("end", _wait_for_exit(terminal.process, scene.patience))
    except _NotReached:
        pass
    finally:
        tool.finish()
        _kill_all(terminal.pid)
        terminal.close()


def play_launch(scene: Scene) -> None:
    """Start the agent by `agentctl launch`, as a user would. The id that it prints must be the id of the
    session."""
    play = _Play(scene, "headless", scene.expected.headless, Tracker(scene.recipe.adapter))
    launch = _launch(scene, f"{play.mark} [[gate={play.mark}]] hello")
    play.last_lines = launch.stderr.splitlines
    try:
        if launch.returncode == 0:
            play.tracker.session_id = json.loads(launch.stdout)["sessions"][0]["id"]
        play.step("work", launch.returncode == 0 and play.wait_for_note("held"))
        scene.model.open(play.mark)
        play.step("end", play.wait_for_note("answered"), settle=scene.patience)
    except _NotReached:
        pass


def _launch(scene: Scene, prompt: str) -> subprocess.CompletedProcess[str]:
    """Run `agentctl launch` without PYTHONPATH, which the agent would inherit."""
    name = scene.recipe.adapter
    variable = f"AGENTCTL_ADAPTER_{name.replace('-', '_').upper()}_BINARY"
    command = [sys.executable, "-c", LAUNCHER.format(sys.path), "launch", name, "-p", prompt, "--json"]
    try:
        return subprocess.run(
            command,
            env={**scene.environ, variable: scene.binary},
            cwd=scene.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=scene.patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"agentctl launch printed no id within {scene.patience:g} s"
        return subprocess.CompletedProcess(command, 1, "", message)


class _Play:
    """One act: it takes the steps and shows the result of each one."""

    def __init__(
        self, scene: Scene, act: Act, steps: Mapping[Step, Expectation], tracker: Tracker
    ) -> None:
        self.scene, self.act, self.steps, self.tracker = scene, act, steps, tracker
        self.mark = MARK[act]
        self.last_lines: Callable[[], list[str]] = list
        self._since = time.monotonic()

    def step(self, step: Step, is_true: bool, *, settle: float = SETTLE) -> None:
        """Check that agentctl shows this step within `settle` seconds. `is_true`: we know that the agent
        has reached it. Raises _NotReached if it has not."""
        expectation = self.steps[step]
        if not is_true:
            seconds = time.monotonic() - self._since
            lines = [line for line in self.last_lines() if line.strip()][-LAST_LINES:]
            self.scene.show(report_not_reached(self.act, step, expectation, lines, seconds))
            raise _NotReached
        sighting = self.tracker.wait_until(expectation, min(settle, self.scene.patience))
        self.scene.show(report_reached(self.act, step, expectation, sighting))
        self._since = time.monotonic()

    def wait_for_note(self, kind: Kind, seconds: float | None = None) -> bool:
        """Wait until the model's journal has this note on the prompt of this act. Return False if it
        does not come."""
        try:
            self.scene.model.journal.wait(kind, self.mark, deadline=seconds or self.scene.patience)
        except TimeoutError:
            return False
        return True


def _send_prompt(terminal: Terminal, play: _Play, prompt: str) -> bool:
    """Type a prompt and send it. Return True when the model holds its answer at the gate."""
    scene = play.scene
    _send(terminal, prompt, "", seconds=scene.patience)
    end = time.monotonic() + scene.patience
    while time.monotonic() < end and not terminal.is_closed:
        terminal.type(scene.recipe.enter)
        if play.wait_for_note("asked", AGAIN):
            return play.wait_for_note("held")
    return False


def _allow_tool(terminal: Terminal, tool: ToolCommand, scene: Scene) -> bool:
    """Answer the permission prompt with yes. Return True when the command runs. A new dialog may miss
    the first key."""
    end = time.monotonic() + scene.patience
    while time.monotonic() < end and not terminal.is_closed:
        if terminal.wait_for(scene.expected.question, 0):
            terminal.type(scene.expected.allow)
        if tool.wait_for_start(AGAIN):
            return True
    return False


def _send(terminal: Terminal, text: str, enter: str, seconds: float = AGAIN) -> None:
    terminal.type(text)
    terminal.wait_for(
        re.escape(text[:12]), seconds
    )  # an agent that has drawn the text is ready for Enter
    terminal.type(enter)


def _wait_for_exit(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _read_last_lines(terminal: Terminal) -> list[str]:
    """Return the lines of the screen, and the exit code if the agent has ended."""
    lines = terminal.read_screen().splitlines()
    if not terminal.is_closed or not _wait_for_exit(terminal.process, AGAIN):
        return lines
    return [*lines, f"(it has ended, exit code {terminal.process.returncode})"]


def _kill_all(root: int) -> None:
    """Kill what is left of the processes that we started, so that the next act begins with none."""
    table = proc.read_table()
    for pid in find_descendants(root) & table.keys():
        try:
            with Handle(table[pid].identity) as handle:
                handle.signal(signal.SIGKILL)
        except SourceError:  # it has just ended
            continue
