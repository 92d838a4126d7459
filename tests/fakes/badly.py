"""Adapters that misbehave, each in one way, and one that does as it should."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation
from agentctl.truth.survey import Registered, Wanted

COMM = "bad-agent"


class Adapter:
    """Owns processes by their name and tells of a session each: `PID of ADAPTER`."""

    def __init__(self, name: str, comm: str) -> None:
        self.name = name
        self.comm = comm
        self.comms = frozenset({comm})

    def owns(self, process: Process) -> bool:
        return process.comm == self.comm

    def live(self, look: Look) -> Iterable[Observation]:
        for process in look.owned:
            yield told(look, process)

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        gone = Evidence("gone", "/proc", "kernel")
        yield Observation(look.adapter, f"an old one of {look.adapter}", (gone,))


def told(look: Look, process: Process) -> Observation:
    """A session that works."""
    evidence = (
        Evidence("alive", process.identity.address, "kernel"),
        Evidence("working", "/proc", "record"),
    )
    return Observation(look.adapter, f"{process.pid} of {look.adapter}", evidence, Facts(), process)


class Own(BaseException):
    """Not even an Exception."""


class Bad(Adapter):
    """Does `deed` where it should tell of its sessions; `release()` ends what it is stuck in."""

    def __init__(self, name: str, deed: str, comm: str = COMM) -> None:
        super().__init__(name, comm)
        self.deed = deed
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    def owns(self, process: Process) -> bool:
        if self.deed == "chokes on every process but the first":
            self.deed_done = getattr(self, "deed_done", 0) + 1
            if self.deed_done > 1:
                raise ValueError("no such word")
        return super().owns(process)

    def live(self, look: Look) -> Iterable[Observation]:
        if self.deed in DEEDS:
            return DEEDS[self.deed](self, look)
        return super().live(look)

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        return ()

    def hang(self) -> None:
        self._released.wait()

    def loop(self) -> None:
        while not self._released.is_set():
            pass


def _raising(error: BaseException) -> Callable[[Bad, Look], Iterable[Observation]]:
    def deed(adapter: Bad, look: Look) -> Iterable[Observation]:
        raise error

    return deed


def _hanging(adapter: Bad, look: Look) -> Iterable[Observation]:
    adapter.hang()
    return ()


def _looping(adapter: Bad, look: Look) -> Iterable[Observation]:
    adapter.loop()
    return ()


def _yielding(*things: Any) -> Callable[[Bad, Look], Iterable[Any]]:
    def deed(adapter: Bad, look: Look) -> Iterator[Any]:
        yield from things

    return deed


DEEDS: dict[str, Callable[[Bad, Look], Iterable[Observation]]] = {
    "raises": _raising(ZeroDivisionError("by zero")),
    "exits": _raising(SystemExit(3)),
    "interrupts": _raising(KeyboardInterrupt()),
    "raises what is no Exception": _raising(Own()),
    "recurses": _raising(RecursionError("too deep")),
    "hangs": _hanging,
    "loops for ever": _looping,
    "returns no iterable": lambda adapter, look: 42,  # type: ignore[dict-item,return-value]
    "yields a word": _yielding("rubbish"),
    "yields None": _yielding(None),
    "yields evidence that is none": _yielding(Observation("bad", "x", ("alive",))),  # type: ignore[arg-type]
    "yields an unknown authority": _yielding(
        Observation("bad", "x", (Evidence("alive", "/", "gossip"),))  # type: ignore[arg-type]
    ),
    "yields an owner that is none": _yielding(
        Observation("bad", "x", (Evidence("alive", "/", "kernel"),), Facts(), "me")  # type: ignore[arg-type]
    ),
}
LATE = frozenset({"hangs", "loops for ever"})


def registered(adapter: Adapter) -> Registered:
    return Registered(adapter.name, adapter.comms, lambda: adapter)
