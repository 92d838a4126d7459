"""Adapters that fail, each in one way, and one that works."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation
from agentctl.truth.survey import AdapterEntry, HistoryQuery

COMM = "bad-agent"


class Adapter:
    """Owns processes by their name and reports one session of each: `PID of ADAPTER`."""

    def __init__(self, name: str, comm: str) -> None:
        self.name = name
        self.comm = comm
        self.comms = frozenset({comm})

    def owns(self, process: Process) -> bool:
        return process.comm == self.comm

    def live(self, look: Look) -> Iterable[Observation]:
        for process in look.own_processes:
            yield observe_working(look, process)

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        no_owner = Evidence("gone", "/proc", "kernel")
        yield Observation(look.adapter, f"an old one of {look.adapter}", (no_owner,))


def observe_working(look: Look, process: Process) -> Observation:
    """Return an observation of a session that works."""
    evidence = (
        Evidence("alive", process.identity.address, "kernel"),
        Evidence("working", "/proc", "record"),
    )
    return Observation(look.adapter, f"{process.pid} of {look.adapter}", evidence, Facts(), process)


class Own(BaseException):
    """Not derived from Exception."""


class Bad(Adapter):
    """Has one fault where it should report its sessions; `release()` ends a hang or a loop."""

    def __init__(self, name: str, fault: str, comm: str = COMM) -> None:
        super().__init__(name, comm)
        self.fault = fault
        self._released = threading.Event()
        self._processes_seen = 0

    def release(self) -> None:
        self._released.set()

    def owns(self, process: Process) -> bool:
        if self.fault == "chokes on every process but the first":
            self._processes_seen += 1
            if self._processes_seen > 1:
                raise ValueError("no such word")
        return super().owns(process)

    def live(self, look: Look) -> Iterable[Observation]:
        if self.fault in FAULTS:
            return FAULTS[self.fault](self, look)
        return super().live(look)

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        return ()

    def hang(self) -> None:
        self._released.wait()

    def loop(self) -> None:
        while not self._released.is_set():
            pass


def _make_raising(error: BaseException) -> Callable[[Bad, Look], Iterable[Observation]]:
    def action(adapter: Bad, look: Look) -> Iterable[Observation]:
        raise error

    return action


def _hang(adapter: Bad, look: Look) -> Iterable[Observation]:
    adapter.hang()
    return ()


def _loop(adapter: Bad, look: Look) -> Iterable[Observation]:
    adapter.loop()
    return ()


def _make_yielding(*things: Any) -> Callable[[Bad, Look], Iterable[Any]]:
    def action(adapter: Bad, look: Look) -> Iterator[Any]:
        yield from things

    return action


FAULTS: dict[str, Callable[[Bad, Look], Iterable[Observation]]] = {
    "raises": _make_raising(ZeroDivisionError("by zero")),
    "exits": _make_raising(SystemExit(3)),
    "interrupts": _make_raising(KeyboardInterrupt()),
    "raises what is no Exception": _make_raising(Own()),
    "recurses": _make_raising(RecursionError("too deep")),
    "hangs": _hang,
    "loops for ever": _loop,
    "returns no iterable": lambda adapter, look: 42,  # type: ignore[dict-item,return-value]
    "yields a word": _make_yielding("rubbish"),
    "yields None": _make_yielding(None),
    "yields evidence that is none": _make_yielding(Observation("bad", "x", ("alive",))),  # type: ignore[arg-type]
    "yields an unknown authority": _make_yielding(
        Observation("bad", "x", (Evidence("alive", "/", "gossip"),))  # type: ignore[arg-type]
    ),
    "yields an owner that is none": _make_yielding(
        Observation("bad", "x", (Evidence("alive", "/", "kernel"),), Facts(), "me")  # type: ignore[arg-type]
    ),
}
LATE = frozenset({"hangs", "loops for ever"})


def make_entry(adapter: Adapter) -> AdapterEntry:
    return AdapterEntry(adapter.name, adapter.comms, lambda: adapter)
