"""Where the soak plays: a home, a disk of its own for our state, five fake agents, a clock to set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from agentctl.testing import Stage
from tests.fakes.stages import stages
from tests.running import SOURCES, Ran, agentctl_in
from tests.soak.clock import STEPPED, Clock

ROOMY = "512m"  # as large as the disk may become
SECRET = "what only we and the receiver know"
WANTED = ("session.*", "launch.*", "hook.*", "lock.*", "fuse.*", "user.*", "events.gap", "daemon.*")


class Scene:
    def __init__(self, root: Path, port: int) -> None:
        self.root, self.home = root, root / "home"
        self.state = root / "state"
        self.clock = Clock(root / "clock")
        self.hooks, self.fired = root / "hooks", root / "fired"
        for directory in (self.home, self.state, root / "work"):
            directory.mkdir(parents=True)
        _mount("-t", "tmpfs", "-o", f"size={ROOMY},mode=700", "tmpfs", str(self.state))
        self.hooks.touch()
        self.fired.touch()
        self.hand = threading.RLock()  # held while the clock must not be set
        self.stages: dict[str, Stage] = {}
        for stage_type in stages():
            self._add(stage_type)
        self.environ = self._environ()
        for stage in self.stages.values():
            stage.environ = self.environ
        config = f'[webhooks.flapping]\nurl = "http://127.0.0.1:{port}/hook"\nsecret = "{SECRET}"\n'
        (self.state / "config.toml").write_text(f"{config}events = {json.dumps(WANTED)}\n")

    def _add(self, stage_type: type[Stage]) -> None:
        stage = stage_type(self.root)
        self.stages[stage.adapter] = stage
        if stage.adapter != "demo":  # which is built in
            program = stage.install()
            text = program.read_text()
            program.write_text(text.replace(f"PYTHONPATH={SOURCES}", f"PYTHONPATH={STEPPED}:{SOURCES}"))

    def _environ(self) -> dict[str, str]:
        """The environment of every program. The room confines the fakes, so they need no mark for it."""
        environ = {**next(iter(self.stages.values())).environ}
        del environ["AGENTCTL_CONFINE"]
        return {
            **environ,
            "PATH": f"{self.root}/bin:/usr/bin:/bin",
            **self.clock.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "AGENTCTL_NO_DAEMON": "1",  # the driver starts the daemons, and records each
        }

    def call(self, *words: str) -> Ran:
        """Each time in a new interpreter: a zygote does not know the soak's clock, and never ends."""
        return agentctl_in(self.environ, *words, cwd=str(self.root), before=("/usr/bin/env",))

    def ask(self, *words: str) -> dict[str, Any]:
        ran = self.call(*words, "--json")
        if ran.code != 0:
            raise RuntimeError(f"agentctl {' '.join(words)}: {ran.code} {ran.err}")
        return ran.json()

    def place(self, name: str) -> Path:
        place = self.root / "work" / name
        place.mkdir()
        return place

    def fill_disk(self) -> None:
        """Fill it to the last block: shrink it to what is on it, which takes no memory."""
        while True:
            status = os.statvfs(self.state)
            used = (status.f_blocks - status.f_bfree) * status.f_frsize
            try:
                _mount("-o", f"remount,size={max(used, status.f_frsize)}", str(self.state))
            except subprocess.CalledProcessError:  # a program wrote in between
                continue
            return

    def free_disk(self) -> None:
        _mount("-o", f"remount,size={ROOMY}", str(self.state))

    def daemon(self, ready: int, errors: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "agentctl.daemon", "--ready", str(ready)],
            env=self.environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(ready,),
        )


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)
