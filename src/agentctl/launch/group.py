"""Start the slots of a group, several at a time. One that fails does not stop the others; Ctrl-C stops
those that have not begun, and a second one waits for nobody."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Generic, Literal, NamedTuple, TypeVar

from agentctl.launch.slots import Slot

BEAT = 0.2  # seconds at most until a signal is noticed
PARALLEL = 8  # starts at once: each costs its agent's start-up, which is mostly processor time

T = TypeVar("T")
State = Literal["waiting", "starting", "started", "failed", "not started"]


class Result(NamedTuple, Generic[T]):
    slot: Slot
    state: State  # in the end: started, failed, not started
    got: T | None = None  # what `start` returned
    error: Exception | None = None
    seconds: float = 0.0


# Which slot, and how it fares now. Called in the thread that called `launch_all`, never in another.
Progress = Callable[[int, Result[T]], None]
News = SimpleQueue[tuple[int, Result[T]] | None]  # None: Ctrl-C


def launch_all(
    slots: Sequence[Slot],
    start: Callable[[Slot], T],
    progress: Progress[T] | None = None,
    interrupted: Callable[[], None] | None = None,  # told at the first Ctrl-C, in the same thread
    *,
    parallel: int = PARALLEL,
) -> list[Result[T]]:
    """Start each, in threads; the results come in the order of the slots, whatever became of them."""
    results: list[Result[T]] = [Result(slot, "waiting") for slot in slots]
    news: News[T] = SimpleQueue()
    waiting = list(range(len(slots)))
    under_way = 0

    def tell(index: int, result: Result[T]) -> None:
        results[index] = result
        if progress is not None:
            progress(index, result)

    with _interrupts(news):
        while waiting or under_way:
            while waiting and under_way < parallel:
                index = waiting.pop(0)
                under_way += 1
                tell(index, Result(slots[index], "starting"))
                Thread(target=_start, args=(index, slots[index], start, news), daemon=True).start()
            told = _next(news)
            if told is None:
                if interrupted is not None:
                    interrupted()
                for index in waiting:
                    tell(index, Result(slots[index], "not started"))
                waiting.clear()
            else:
                under_way -= 1
                tell(*told)
    return results


def _next(news: News[T]) -> tuple[int, Result[T]] | None:
    """Wait for it, in short waits: a signal that arrives just before one, or in another thread, does not
    end it, and is handled after it."""
    while True:
        try:
            return news.get(timeout=BEAT)
        except Empty:
            continue


def _start(index: int, slot: Slot, start: Callable[[Slot], T], news: News[T]) -> None:
    began = time.monotonic()
    try:
        result: Result[T] = Result(slot, "started", start(slot))
    except Exception as error:  # noqa: BLE001 - whatever it was, it is this slot's result and no other's
        result = Result(slot, "failed", None, error)
    news.put((index, result._replace(seconds=time.monotonic() - began)))


@contextmanager
def _interrupts(news: News[T]) -> Iterator[None]:
    """The first Ctrl-C is news like all other; the second is a KeyboardInterrupt, as ever. An exception
    out of nowhere could come between a slot's end and its being told."""
    if current_thread() is not main_thread():  # only that one gets signals
        yield
        return

    def heard(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        news.put(None)

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
