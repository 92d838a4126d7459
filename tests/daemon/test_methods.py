"""What a daemon can be asked, of a real one."""

import os

import pytest

from agentctl import __version__
from agentctl.daemon_client import client as rpc
from agentctl.daemon_client import protocol
from agentctl.errors import Fault, NoDaemon
from agentctl.state import journal
from agentctl.state.journal import Event
from tests.daemon.serving import Wire, daemon_of, home_of
from tests.fakes.demo import DemoStage
from tests.waiting import DEADLINE, until


def test_hello(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with rpc.connect(home_of(stage)) as client:
        told = client.hello()
    assert told == rpc.Hello(
        protocol.PROTOCOL, __version__, identity.pid, identity.start, home_of(stage)
    )


def test_an_older_and_a_newer_client_are_told_what_it_speaks(stage: DemoStage) -> None:
    daemon_of(stage)
    with Wire(home_of(stage)) as wire:
        for params in ({}, {"protocol": 0}, {"protocol": 99, "version": "9", "more": [1]}):
            assert wire.ask("hello", **params)["result"]["protocol"] == protocol.PROTOCOL
        assert wire.ask("hello", protocol="one")["error"]["code"] == protocol.BAD_PARAMS


def test_no_such_method(stage: DemoStage) -> None:
    daemon_of(stage)
    with rpc.connect(home_of(stage)) as client, pytest.raises(Fault, match="known: hello") as told:
        client.call("write")
    assert told.value.code == protocol.NO_METHOD


def test_status(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with rpc.connect(home_of(stage)) as client:
        told = client.call("daemon.status")
        assert (told["pid"], told["clients"], told["subscribers"]) == (identity.pid, 1, 0)
        assert 1 << 20 < told["memory_bytes"] < 45_000_000
        assert "guard" in {part["name"] for part in told["parts"]}


def test_a_subscriber_hears_the_bell(stage: DemoStage) -> None:
    """It is told that there is something; what, is in the journal."""
    daemon_of(stage)
    with rpc.connect(home_of(stage)) as client, rpc.connect(home_of(stage)) as other:
        until(lambda: client.call("daemon.status")["seq"] > 0, "its own start is in the journal")
        client.call("events.subscribe")
        client.call("events.subscribe")  # twice is once
        assert other.call("daemon.status")["subscribers"] == 1
        client.close()
        until(lambda: other.call("daemon.status")["subscribers"] == 0, "it has left")


def test_the_end_is_rung_for(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with rpc.connect(home_of(stage)) as client, rpc.connect(home_of(stage)) as other:
        until(lambda: client.call("daemon.status")["seq"] > 0, "it has begun")
        client.call("events.subscribe")
        assert other.call("shutdown")["ending"] is True
        _hear_to_the_end(client)
    notes = f"{home_of(stage)}/state.db"
    until(lambda: [e.type for e in journal.after(notes, 0)][-1:] == ["daemon.stopped"], "it is told")
    assert journal.after(notes, 0)[0].subject == identity.address
    journal.record(notes, [Event("lock.released", 1.0)])  # nobody keeps the database


def _hear_to_the_end(client: rpc.Client) -> None:
    try:
        while client.rung(DEADLINE):
            pass
    except NoDaemon:
        return
    raise AssertionError("it did not hang up")


def test_questions_are_answered_or_said_to_be_elsewhere(stage: DemoStage) -> None:
    daemon_of(stage)
    with Wire(home_of(stage)) as wire:
        told = wire.ask("ask")
        assert "result" in told or told["error"]["code"] < 0
        assert wire.ask("hello")["result"]["pid"] != os.getpid()
