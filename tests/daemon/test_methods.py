"""The methods of a real daemon."""

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
        hello = client.hello()
    assert hello == rpc.Hello(
        protocol.PROTOCOL, __version__, identity.pid, identity.start, home_of(stage)
    )


def test_an_older_and_a_newer_client_learn_the_protocol_of_the_daemon(stage: DemoStage) -> None:
    daemon_of(stage)
    with Wire(home_of(stage)) as wire:
        for params in ({}, {"protocol": 0}, {"protocol": 99, "version": "9", "more": [1]}):
            assert wire.ask("hello", **params)["result"]["protocol"] == protocol.PROTOCOL
        assert wire.ask("hello", protocol="one")["error"]["code"] == protocol.BAD_PARAMS


def test_an_unknown_method_is_an_error(stage: DemoStage) -> None:
    daemon_of(stage)
    with rpc.connect(home_of(stage)) as client, pytest.raises(Fault, match="known: hello") as fault:
        client.call("write")
    assert fault.value.code == protocol.NO_METHOD


def test_status(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with rpc.connect(home_of(stage)) as client:
        status = client.call("daemon.status")
        assert (status["pid"], status["clients"], status["subscribers"]) == (identity.pid, 1, 0)
        assert 1 << 20 < status["memory_bytes"] < 45_000_000
        assert "guard" in {part["name"] for part in status["parts"]}


def test_a_subscriber_hears_the_bell(stage: DemoStage) -> None:
    """The bell says that there are new events; the journal says which."""
    daemon_of(stage)
    with rpc.connect(home_of(stage)) as client, rpc.connect(home_of(stage)) as other:
        until(lambda: client.call("daemon.status")["seq"] > 0, "its own start is in the journal")
        seq = client.call("daemon.status")["seq"]
        client.call("events.subscribe")
        client.call("events.subscribe")  # twice is once
        assert other.call("daemon.status")["subscribers"] == 1
        stage.start()
        bell = client.read_notification(DEADLINE)
        assert bell is not None
        assert (bell["method"], bell["params"]["seq"] > seq) == ("events", True)
        client.close()
        until(lambda: other.call("daemon.status")["subscribers"] == 0, "it has left")


def test_a_shutdown_disconnects_clients_and_is_in_the_journal(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with rpc.connect(home_of(stage)) as client, rpc.connect(home_of(stage)) as other:
        until(lambda: client.call("daemon.status")["seq"] > 0, "it has begun")
        client.call("events.subscribe")
        assert other.call("shutdown")["ending"] is True
        _read_until_disconnected(client)
    notes = f"{home_of(stage)}/state.db"
    until(
        lambda: [e.type for e in journal.read_after(notes, 0)][-1:] == ["daemon.stopped"],
        "the end is in the journal",
    )
    assert journal.read_after(notes, 0)[0].subject == identity.address
    journal.append_events(notes, [Event("lock.released", 1.0)])  # the daemon no longer locks it


def _read_until_disconnected(client: rpc.Client) -> None:
    try:
        while client.read_notification(DEADLINE):
            pass
    except NoDaemon:
        return
    raise AssertionError("the daemon did not disconnect")


def test_a_question_without_parameters_is_an_error_and_the_client_may_go_on(stage: DemoStage) -> None:
    daemon_of(stage)
    with Wire(home_of(stage)) as wire:
        response = wire.ask("ask")
        assert response["error"]["code"] == protocol.ELSEWHERE
        assert wire.ask("hello")["result"]["pid"] != os.getpid()
