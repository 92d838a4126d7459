"""What goes wrong during a soak: the daemon is killed, the disk is full, the clock is set, the target of
the webhooks flaps."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from random import Random

from tests.soak.book import Book, Watch, now
from tests.soak.flapping import MOODS, Flapping
from tests.soak.scene import Scene

PATIENCE = 30.0  # seconds for a daemon to become ready
HOUR = 3600.0


class Keeper:
    """Starts the daemon, kills it, and starts it again."""

    def __init__(self, scene: Scene, book: Book, every: float, random: Random) -> None:
        self._scene, self._book, self._every, self._random = scene, book, every, random
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper")
        self._errors = os.open(scene.root / "daemon.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """From now on the daemon is not killed any more."""
        self._over.set()
        self._thread.join()

    def end(self) -> None:
        """As a person ends it."""
        ran = self._scene.call("daemon", "stop")
        if ran.code != 0:
            self._book.note("wrong", f"daemon stop: {ran.code} {ran.err}")
        self._child.wait()
        self._book.watches[-1].killed = now()

    def _run(self) -> None:
        self._begin()
        while not self._over.wait(self._every * self._random.uniform(0.8, 1.2)):
            self._book.watches[-1].killed = now()
            self._child.kill()
            self._child.wait()
            self._over.wait(self._random.uniform(0.0, self._every / 4))
            self._begin()

    def _begin(self) -> None:
        while not self._start_once():
            if not self._book.disk_was_full(now() - 1, now(), margin=2.0):
                self._book.note("wrong", "the daemon does not start")
            self._over.wait(1.0)

    def _start_once(self) -> bool:
        theirs, ours = os.pipe()
        began = now()
        self._child = self._scene.daemon(ours, self._errors)
        watch = Watch(self._child.pid, began)
        os.close(ours)
        with os.fdopen(theirs, "rb") as pipe:
            word = pipe.readline()
        if word != b"ok\n":
            self._child.wait()
            self._book.note("refused", f"daemon: {word.decode()}")
            return False
        watch.ready = now()
        self._book.note("watches", watch)
        return True


class Troubles:
    """Each trouble, once, at its time, and the moods of the webhooks' target."""

    def __init__(
        self,
        scene: Scene,
        book: Book,
        target: Flapping,
        *,
        seconds: float,
        random: Random,
        spared: list[str],
    ) -> None:
        self._scene, self._book, self._target, self._random = scene, book, target, random
        self._full = min(15.0, seconds / 12)
        self._mood = min(12.0, seconds / 12)
        self._plan: list[tuple[float, Callable[[], None]]] = []
        if "disk" not in spared:
            self._plan.append((0.25 * seconds, self._fill))
        if "clock" not in spared:
            self._plan += [
                (0.5 * seconds, lambda: self._step(HOUR)),
                (0.65 * seconds, lambda: self._step(-HOUR)),
                (0.85 * seconds, lambda: self._step(0.0)),
            ]
        self._moods = MOODS if "flap" not in spared else MOODS[:1]
        self.planned, self.happened = len(self._plan), 0
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, name="troubles"),
            threading.Thread(target=self._flap, name="flapping"),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _follow(self) -> None:
        began = now()
        for at, cause in self._plan:
            if self._over.wait(max(0.0, began + at - now())):
                return
            try:
                cause()
            except Exception as error:  # noqa: BLE001 - without its troubles the soak proves nothing
                self._book.note("wrong", f"no trouble: {type(error).__name__}: {error}")
                return
            self.happened += 1

    def _fill(self) -> None:
        began = now()
        self._book.note("full", (began, float("inf")))
        self._scene.fill_disk()
        self._over.wait(self._full)
        self._scene.free_disk()
        with self._book.mutex:
            self._book.full[-1] = (began, now())

    def _step(self, to: float) -> None:
        with self._scene.hand:
            self._scene.clock.set(to)
            self._book.note("steps", (now(), to))

    def _flap(self) -> None:
        while not self._over.is_set():
            for mood in self._moods:
                self._target.become(mood)
                if self._over.wait(self._mood * self._random.uniform(0.5, 1.5)):
                    break
        self._target.become("accepting")
