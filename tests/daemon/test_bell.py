"""The bell: many rings are one call of each subscriber."""

import asyncio
import threading

from agentctl.daemon.bell import Bell
from tests.waiting import DEADLINE


def test_many_rings_from_many_threads_are_one_call() -> None:
    async def ring_bell() -> list[int]:
        bell, numbers, struck = Bell(), list[int](), asyncio.Event()
        bell.attach(asyncio.get_running_loop())
        bell.subscribe(numbers.append)
        bell.subscribe(lambda _: struck.set())
        threads = [threading.Thread(target=bell.ring, args=(seq,)) for seq in range(1, 51)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await asyncio.wait_for(struck.wait(), DEADLINE)
        return numbers

    assert asyncio.run(ring_bell()) == [50]


def test_the_number_never_decreases_without_a_reset() -> None:
    bell = Bell()
    bell.ring(5)
    bell.ring(3)
    assert bell.seq == 5
    bell.reset()
    bell.ring(3)
    assert bell.seq == 3


def test_a_subscriber_that_left_is_not_called() -> None:
    async def ring_bell() -> None:
        bell, numbers = Bell(), list[int]()
        bell.attach(asyncio.get_running_loop())
        bell.subscribe(numbers.append)
        assert bell.subscribers == 1
        bell.unsubscribe(numbers.append)
        bell.ring(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (numbers, bell.subscribers) == ([], 0)

    asyncio.run(ring_bell())


def test_it_may_ring_before_and_after_the_loop() -> None:
    bell = Bell()
    bell.ring(1)

    async def ring_bell() -> None:
        bell.attach(asyncio.get_running_loop())
        bell.ring(2)
        bell.attach(None)

    asyncio.run(ring_bell())
    bell.ring(3)
    assert bell.seq == 3
