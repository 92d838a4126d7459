"""Gates: open stays open, and a stop ends every wait."""

import threading

import pytest

from agentctl.rehearsal.model.gates import Gates, Stopped


def test_a_gate_is_shut_until_it_is_opened_and_stays_open() -> None:
    gates = Gates()
    assert not gates.wait("a", 0)
    gates.open("a")
    assert gates.wait("a", 0)
    assert gates.wait("a", 0)
    assert not gates.wait("b", 0)


def test_opening_wakes_a_waiter() -> None:
    gates = Gates()
    results: list[bool] = []
    waiter = threading.Thread(target=lambda: results.append(gates.wait("a", 20)))
    waiter.start()
    gates.open("a")
    waiter.join(20)
    assert results == [True]


def test_a_stop_ends_every_wait_even_at_an_open_gate() -> None:
    gates = Gates()
    gates.open("a")
    gates.stop()
    assert gates.is_stopped
    for name in ("a", "b", None):
        with pytest.raises(Stopped):
            gates.wait(name, 20)


def test_after_a_stop_it_goes_on_with_the_gates_it_had() -> None:
    gates = Gates()
    gates.open("a")
    gates.stop()
    gates.resume()
    assert gates.wait("a", 0)
    assert not gates.wait(None, 0)
