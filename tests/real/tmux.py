"""A person at a terminal: one pane of a private tmux server, typed into and looked at."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.waiting import until

COLUMNS, LINES = 180, 50
BEAT = 0.05  # seconds: each look at the screen is a process, and the agent needs the machine


class Terminal:
    """Runs one program. The server's socket is its own: no other tmux is ever reached."""

    def __init__(
        self, socket: Path, program: Sequence[str], environ: Mapping[str, str], cwd: str
    ) -> None:
        self._socket = str(socket)
        variables = [f"{name}={value}" for name, value in environ.items()]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        # `env -i … program` in several words: tmux then runs no shell, and the pane's process becomes it
        words = ["new-session", "-d", *size, "-c", cwd, "-P", "-F", "#{pane_id} #{pane_pid}"]
        self._tmux("start-server", ";", "set-option", "-g", "exit-empty", "off")
        output = self._tmux(*words, "--", "/usr/bin/env", "-i", *variables, *program)
        self._pane, pid = output.split()
        self.pid = int(pid)

    def screen(self) -> str:
        """What a person sees now; empty once the terminal is closed."""
        return self._tmux("capture-pane", "-p", "-t", self._pane, fails="")

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "-t", self._pane, "--", text)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, Escape, Up, C-c."""
        self._tmux("send-keys", "-t", self._pane, *keys)

    def shows(self, text: str, *, deadline: float = 60.0) -> None:
        """Waits until the screen shows this; says what it showed if not."""
        try:
            until(lambda: text in self.screen(), f"the screen shows {text!r}", deadline, beat=BEAT)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it shows:\n{self.screen().rstrip()}") from None

    def close(self) -> None:
        """As a person closes the window: the program gets SIGHUP, its terminal is gone."""
        self._tmux("kill-pane", "-t", self._pane, fails="")

    def _tmux(self, *words: str, fails: str | None = None) -> str:
        """`fails`: the answer if tmux fails; None: that is an error."""
        command = ["tmux", "-u", "-S", self._socket, "-f", "/dev/null", *words]
        process = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if process.returncode == 0:
            return process.stdout
        if fails is None:
            raise RuntimeError(f"{shlex.join(command[:8])} …: {process.stderr.strip()}")
        return fails
