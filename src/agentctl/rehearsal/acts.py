"""Two acts with one agent: at its terminal, and launched by agentctl. Each takes it from state to state.

Before every step the driver *knows* what is true (the model's journal, the kernel, the screen); then it
looks whether agentctl tells the same, by the signals it should. What does not come in time is reported
with the agent's last words, and ends the act.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agentctl.errors import SourceError
from agentctl.rehearsal.expect import Act, Expected, Step, Telling
from agentctl.rehearsal.follow import SETTLE, Sight, family
from agentctl.rehearsal.model.journal import Kind
from agentctl.rehearsal.model.server import Model
from agentctl.rehearsal.recipe import Recipe
from agentctl.rehearsal.report import not_reached, reached
from agentctl.rehearsal.terminal import Terminal
from agentctl.rehearsal.tool_command import Errand
from agentctl.system import proc
from agentctl.system.pidfd import Handle

MARK = {"terminal": "rehearsal-one", "headless": "rehearsal-two"}  # in the prompt: whose request is it
AGAIN = 2.0  # seconds after which Enter is pressed once more: some take a quick one for part of a paste
LAST_WORDS = 12  # lines
LAUNCHER = "import sys; sys.path[:] = {}; from agentctl.__main__ import main; sys.exit(main())"


class Scene(NamedTuple):
    """All that the acts play with."""

    recipe: Recipe
    expected: Expected
    binary: str
    work: str
    environ: Mapping[str, str]
    model: Model
    patience: float  # seconds that a step may take to come
    tell: Callable[[dict[str, Any]], None]


class _Lost(Exception):
    """A step did not come."""


def at_its_terminal(scene: Scene) -> None:
    steps, recipe = scene.expected.terminal, scene.recipe
    environ = {**scene.environ, **scene.expected.environ}
    terminal = Terminal([scene.binary, *recipe.interactive], environ, scene.work)
    errand = Errand(scene.work)
    play = _Play(scene, "terminal", steps, Sight(recipe.adapter, terminal.pid))
    play.last_words = lambda: _words_of(terminal)
    try:
        play.step("start", terminal.shows(recipe.ready, scene.patience))
        call = scene.expected.call.replace("{command}", errand.daring)
        play.step("work", _says(terminal, play, f"{play.mark} [[gate={play.mark}]]{call}"))
        scene.model.open(play.mark)
        if "permission" in steps:
            play.step("permission", terminal.shows(scene.expected.wanted, scene.patience))
            play.step("tool", _allowed(terminal, errand, scene))
        else:
            play.step("tool", errand.begun(scene.patience))
        errand.finish()
        play.step("idle", play.heard("answered"))
        for word in recipe.leave:
            _send(terminal, word, recipe.enter)
        play.step("end", _ends(terminal.process, scene.patience))
    except _Lost:
        pass
    finally:
        errand.finish()
        _end_all(terminal.pid)
        terminal.close()


def launched(scene: Scene) -> None:
    """By `agentctl launch`, as a person would: the id that it prints must be the session's."""
    play = _Play(scene, "headless", scene.expected.headless, Sight(scene.recipe.adapter))
    done = _launch(scene, f"{play.mark} [[gate={play.mark}]] hello")
    play.last_words = done.stderr.splitlines
    try:
        if done.returncode == 0:
            play.sight.session_id = json.loads(done.stdout)["sessions"][0]["id"]
        play.step("work", done.returncode == 0 and play.heard("held"))
        scene.model.open(play.mark)
        play.step("end", play.heard("answered"), settle=scene.patience)
    except _Lost:
        pass


def _launch(scene: Scene, prompt: str) -> subprocess.CompletedProcess[str]:
    """Run without PYTHONPATH, which the agent would inherit."""
    name = scene.recipe.adapter
    found = f"AGENTCTL_ADAPTER_{name.replace('-', '_').upper()}_BINARY"
    command = [sys.executable, "-c", LAUNCHER.format(sys.path), "launch", name, "-p", prompt, "--json"]
    try:
        return subprocess.run(
            command,
            env={**scene.environ, found: scene.binary},
            cwd=scene.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=scene.patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        words = f"agentctl launch printed no id within {scene.patience:g} s"
        return subprocess.CompletedProcess(command, 1, "", words)


class _Play:
    """One act: its steps, told one by one."""

    def __init__(self, scene: Scene, act: Act, steps: Mapping[Step, Telling], sight: Sight) -> None:
        self.scene, self.act, self.steps, self.sight = scene, act, steps, sight
        self.mark = MARK[act]
        self.last_words: Callable[[], list[str]] = list
        self._since = time.monotonic()

    def step(self, step: Step, came: bool, *, settle: float = SETTLE) -> None:
        """`came`: what we know to be true now, or that it did not come. `settle`: seconds in which it
        must then be told."""
        telling = self.steps[step]
        if not came:
            waited = time.monotonic() - self._since
            said = [line for line in self.last_words() if line.strip()][-LAST_WORDS:]
            self.scene.tell(not_reached(self.act, step, telling, said, waited))
            raise _Lost
        sighting = self.sight.until(telling, min(settle, self.scene.patience))
        self.scene.tell(reached(self.act, step, telling, sighting))
        self._since = time.monotonic()

    def heard(self, kind: Kind, seconds: float | None = None) -> bool:
        """Waits for the model's note on this act's prompt."""
        try:
            self.scene.model.journal.wait(kind, self.mark, deadline=seconds or self.scene.patience)
        except TimeoutError:
            return False
        return True


def _says(terminal: Terminal, play: _Play, prompt: str) -> bool:
    """Types a prompt and sends it; whether the model stands at its gate then."""
    scene = play.scene
    _send(terminal, prompt, "", seconds=scene.patience)
    end = time.monotonic() + scene.patience
    while time.monotonic() < end and not terminal.closed:
        terminal.type(scene.recipe.enter)
        if play.heard("asked", AGAIN):
            return play.heard("held")
    return False


def _allowed(terminal: Terminal, errand: Errand, scene: Scene) -> bool:
    """Grants what is asked for; whether the command runs then. A new dialog may miss the first key."""
    end = time.monotonic() + scene.patience
    while time.monotonic() < end and not terminal.closed:
        if terminal.shows(scene.expected.wanted, 0):
            terminal.type(scene.expected.allow)
        if errand.begun(AGAIN):
            return True
    return False


def _send(terminal: Terminal, text: str, enter: str, seconds: float = AGAIN) -> None:
    terminal.type(text)
    terminal.shows(re.escape(text[:12]), seconds)  # who draws is ready for Enter
    terminal.type(enter)


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _words_of(terminal: Terminal) -> list[str]:
    """What it shows, and how it ended if it has."""
    shown = terminal.screen().splitlines()
    if not terminal.closed or not _ends(terminal.process, AGAIN):
        return shown
    return [*shown, f"(it has ended, exit code {terminal.process.returncode})"]


def _end_all(root: int) -> None:
    """Whatever is left of what we started; the room would end it anyway, the next act begins alone."""
    table = proc.read_table()
    for pid in family(root) & table.keys():
        try:
            with Handle(table[pid].identity) as handle:
                handle.signal(signal.SIGKILL)
        except SourceError:  # it has just ended
            continue
