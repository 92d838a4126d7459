"""Start the slots of a plan, several at a time.

A slot that fails does not stop the others. Ctrl-C starts no more slots; a second one does not wait for
those that are starting.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, main_thread

from agentctl.errors import AgentctlError
from agentctl.launch.plan import LaunchPlan
from agentctl.launch.slots import Slot
from agentctl.launch.start import start_slot
from agentctl.light_typing import Callable, Generic, Iterator, Literal, NamedTuple, Sequence, TypeVar
from agentctl.truth.model import Session

BEAT = 0.2  # seconds at most until a signal is noticed
PARALLEL = 8  # starts at once: each costs its agent's start-up, which is mostly processor time

T = TypeVar("T")
State = Literal["waiting", "starting", "started", "failed", "not started"]


class Result(NamedTuple, Generic[T]):
    slot: Slot
    state: State  # in the end: started, failed, not started
    value: T | None = None  # what `start` returned
    error: Exception | None = None
    seconds: float = 0.0

    @property
    def reason(self) -> str:
        """Why the slot did not start."""
        if self.error is None:
            return "not started: interrupted"
        if isinstance(self.error, AgentctlError):
            return str(self.error)
        return f"{type(self.error).__name__}: {self.error}"


# Called with a slot's index and its new state, in the thread that called `run_slots`.
OnChange = Callable[[int, Result[T]], None]
Changes = SimpleQueue[tuple[int, Result[T]] | None]  # None: Ctrl-C


def start_slots(
    state: str,
    plan: LaunchPlan,
    on_change: OnChange[Session] | None = None,
    on_interrupt: Callable[[], None] | None = None,
) -> list[Result[Session]]:
    """Start every slot of the plan. Return the results in the order of the slots."""
    return run_slots(plan.slots, lambda slot: start_slot(state, plan, slot), on_change, on_interrupt)


def describe_failure(result: Result[Session]) -> dict[str, object]:
    """Return the JSON object of a slot that did not start."""
    error = result.error
    return {
        "slot": result.slot.name,
        "adapter": result.slot.adapter,
        "model": result.slot.model,
        "error": result.reason,
        "said": list(error.output) if isinstance(error, AgentctlError) else [],
    }


def run_slots(
    slots: Sequence[Slot],
    start: Callable[[Slot], T],
    on_change: OnChange[T] | None = None,
    on_interrupt: Callable[[], None] | None = None,  # called at the first Ctrl-C, in the same thread
    *,
    parallel: int = PARALLEL,
) -> list[Result[T]]:
    """Call `start` for each slot, in threads. Return the results in the order of the slots."""
    results: list[Result[T]] = [Result(slot, "waiting") for slot in slots]
    changes: Changes[T] = SimpleQueue()
    waiting = list(range(len(slots)))
    running = 0

    def update(index: int, result: Result[T]) -> None:
        results[index] = result
        if on_change is not None:
            on_change(index, result)

    with _queue_interrupts(changes):
        while waiting or running:
            while waiting and running < parallel:
                index = waiting.pop(0)
                running += 1
                update(index, Result(slots[index], "starting"))
                Thread(target=_run, args=(index, slots[index], start, changes), daemon=True).start()
            change = _next_change(changes)
            if change is None:
                if on_interrupt is not None:
                    on_interrupt()
                for index in waiting:
                    update(index, Result(slots[index], "not started"))
                waiting.clear()
            else:
                running -= 1
                update(*change)
    return results


def _next_change(changes: Changes[T]) -> tuple[int, Result[T]] | None:
    """Wait for the next change, in short waits: Python handles a signal only between two of them if it
    arrives just before the wait or in another thread."""
    while True:
        try:
            return changes.get(timeout=BEAT)
        except Empty:
            continue


def _run(index: int, slot: Slot, start: Callable[[Slot], T], changes: Changes[T]) -> None:
    began = time.monotonic()
    try:
        result: Result[T] = Result(slot, "started", start(slot))
    except Exception as error:  # noqa: BLE001 - any error is the result of this slot only
        result = Result(slot, "failed", None, error)
    changes.put((index, result._replace(seconds=time.monotonic() - began)))


@contextmanager
def _queue_interrupts(changes: Changes[T]) -> Iterator[None]:
    """Queue the first Ctrl-C as a change; let the second one raise KeyboardInterrupt. An exception at
    any point could come between the end of a slot and its result."""
    if current_thread() is not main_thread():  # only the main thread gets signals
        yield
        return

    def queue(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        changes.put(None)

    previous = signal.signal(signal.SIGINT, queue)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
