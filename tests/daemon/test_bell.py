"""The bell: many rings are one, and nobody is woken twice for the same."""

import asyncio
import threading

from agentctl.daemon.bell import Bell
from tests.waiting import DEADLINE


def test_many_rings_from_many_threads_are_heard_as_few() -> None:
    async def play() -> list[int]:
        bell, heard, struck = Bell(), list[int](), asyncio.Event()
        bell.hang(asyncio.get_running_loop())
        bell.hear(heard.append)
        bell.hear(lambda _: struck.set())
        threads = [threading.Thread(target=bell.ring, args=(seq,)) for seq in range(1, 51)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await asyncio.wait_for(struck.wait(), DEADLINE)
        return heard

    assert asyncio.run(play()) == [50]


def test_it_never_rings_backwards() -> None:
    bell = Bell()
    bell.ring(5)
    bell.ring(3)
    assert bell.seq == 5
    bell.anew()
    bell.ring(3)
    assert bell.seq == 3


def test_who_left_hears_nothing() -> None:
    async def play() -> None:
        bell, heard = Bell(), list[int]()
        bell.hang(asyncio.get_running_loop())
        bell.hear(heard.append)
        assert bell.hearers == 1
        bell.leave(heard.append)
        bell.ring(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (heard, bell.hearers) == ([], 0)

    asyncio.run(play())


def test_it_may_be_rung_before_and_after_the_loop() -> None:
    bell = Bell()
    bell.ring(1)

    async def play() -> None:
        bell.hang(asyncio.get_running_loop())
        bell.ring(2)
        bell.hang(None)

    asyncio.run(play())
    bell.ring(3)
    assert bell.seq == 3
