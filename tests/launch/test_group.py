"""Many slots at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Barrier, Lock, Thread

from agentctl.errors import Refused
from agentctl.launch.group import Result, launch_all
from agentctl.launch.slots import Slot
from tests.running import SOURCES, read_until

SLOTS = [Slot(name=str(number)) for number in range(12)]


def test_results_come_in_the_order_of_the_slots() -> None:
    found = launch_all(SLOTS, lambda slot: f"got {slot.name}")
    assert [(r.slot, r.state, r.got) for r in found] == [
        (slot, "started", f"got {slot.name}") for slot in SLOTS
    ]


def test_they_run_side_by_side() -> None:
    """Each waits for all the others."""
    barrier = Barrier(4, timeout=20)
    found = launch_all(SLOTS[:4], lambda _: barrier.wait(), parallel=4)
    assert {result.state for result in found} == {"started"}


def test_but_not_too_many() -> None:
    lock, now, most = Lock(), 0, 0
    barrier = Barrier(3, timeout=20)

    def start(_: Slot) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        barrier.wait()
        with lock:
            now -= 1

    launch_all(SLOTS, start, parallel=3)
    assert most == 3


def test_one_that_fails_does_not_stop_the_others() -> None:
    def start(slot: Slot) -> str:
        if slot.name == "3":
            raise Refused("locked")
        if slot.name == "4":
            raise ZeroDivisionError
        return "fine"

    found = launch_all(SLOTS, start)
    assert [r.state for r in found].count("started") == 10
    assert (found[3].state, str(found[3].error)) == ("failed", "locked")
    assert isinstance(found[4].error, ZeroDivisionError)


def test_each_step_is_told() -> None:
    told: list[tuple[int, str]] = []

    def progress(index: int, result: Result[None]) -> None:
        told.append((index, result.state))

    launch_all(SLOTS[:2], lambda _: None, progress, parallel=1)
    assert told == [(0, "starting"), (0, "started"), (1, "starting"), (1, "started")]


def test_in_another_thread() -> None:
    found: list[Result[int]] = []
    thread = Thread(target=lambda: found.extend(launch_all(SLOTS, lambda _: 1)))
    thread.start()
    thread.join()
    assert len(found) == 12


PROGRAM = """
import sys, threading
from agentctl.launch.group import launch_all
from agentctl.launch.slots import Slot

go = threading.Event()
def start(slot):
    go.wait()
    return slot.name
def progress(index, result):
    print(index, result.state, flush=True)
    if result.state == "not started":
        go.set()  # what is under way comes to its end
try:
    found = launch_all([Slot(name=str(n)) for n in range(4)], start, progress, parallel=2)
    print("end", [r.got for r in found], flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@contextmanager
def _started(program: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def test_ctrl_c_starts_no_more_and_reports() -> None:
    with _started(PROGRAM) as child:
        read_until(child, b"1 starting")
        child.send_signal(signal.SIGINT)
        told = read_until(child, b"end").decode() + (
            child.stdout.read().decode() if child.stdout else ""
        )
    assert "2 not started\n3 not started\n" in told
    assert "end ['0', '1', None, None]" in told


ELSEWHERE = """
import signal, sys, threading
from agentctl.launch.group import launch_all
from agentctl.launch.slots import Slot

go = threading.Event()
def start(slot):
    if slot.name == "0":
        sys.stdin.readline()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        go.wait()
def progress(index, result):
    print(index, result.state, flush=True)
launch_all([Slot(name="0"), Slot(name="1")], start, progress, go.set)
"""


def test_ctrl_c_is_noticed_in_whatever_thread_it_arrives() -> None:
    """Such a signal does not end the main thread's wait."""
    with _started(ELSEWHERE) as child:
        read_until(child, b"1 started")  # and now it waits for the other
        assert child.stdin is not None
        child.stdin.write(b"now\n")
        child.stdin.flush()
        read_until(child, b"0 started")


def test_a_second_ctrl_c_waits_for_nobody() -> None:
    with _started(PROGRAM.replace("        go.set()", "        pass")) as child:
        read_until(child, b"1 starting")
        child.send_signal(signal.SIGINT)
        read_until(child, b"3 not started")
        child.send_signal(signal.SIGINT)
        read_until(child, b"interrupted")
