"""The server on a real socket: its routes, and that gone means gone."""

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from agentctl.rehearsal.model.server import Model
from tests.rehearsal.model.events import events

PATHS = (
    "/v1/messages",
    "/v1/responses",
    "/v1/chat/completions",
    "/chat/completions",
    "/anthropic/v1/messages?beta=1",
)
TOOLS = {
    "messages": [{"name": "Bash", "input_schema": {}}],
    "responses": [{"type": "function", "name": "exec_command", "parameters": {}}],
    "completions": [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
}


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


class Client:
    """One connection to the model."""

    def __init__(self, model: Model) -> None:
        host, port = model.url.removeprefix("http://").split(":")
        self.http = http.client.HTTPConnection(host, int(port), timeout=20)

    def send(self, path: str, text: str, *, stream: bool = True, name: str = "m") -> None:
        key = "input" if path.endswith("/responses") else "messages"
        tools = TOOLS[path.partition("?")[0].rpartition("/")[2]]
        body = {
            "model": name,
            "stream": stream,
            "tools": tools,
            key: [{"role": "user", "content": text}],
        }
        self.http.request("POST", path, json.dumps(body), {"content-type": "application/json"})

    def answer(self) -> tuple[int, str]:
        response = self.http.getresponse()
        return response.status, response.read().decode()

    def get(self, path: str, method: str = "GET") -> tuple[int, Any]:
        self.http.request(method, path)
        status, text = self.answer()
        return status, json.loads(text) if text else None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()


@pytest.mark.parametrize("path", PATHS)
def test_every_route_answers_streamed_and_whole(model: Model, path: str) -> None:
    with Client(model) as client:
        client.send(path, "[[say=hello you]]")
        status, text = client.answer()
        assert status == 200
        assert events(text)
        assert "hello you" in text
        client.send(path, "[[say=hello you]]", stream=False)
        status, text = client.answer()
        assert status == 200
        assert "hello you" in json.dumps(json.loads(text))


@pytest.mark.parametrize("path", PATHS)
def test_a_model_that_is_not_there(model: Model, path: str) -> None:
    with Client(model) as client:
        client.send(path, "hi", name="no-such-thing")
        status, text = client.answer()
        assert status == 404
        assert "no-such-thing" in json.loads(text)["error"]["message"]


@pytest.mark.parametrize("path", PATHS)
def test_a_tool_call_in_every_protocol(model: Model, path: str) -> None:
    with Client(model) as client:
        client.send(path, "[[tool=echo from-the-script]]")
        assert "echo from-the-script" in client.answer()[1]
        assert model.journal.wait("called").round == 0


def test_words_arrive_while_the_gate_is_shut(model: Model) -> None:
    with Client(model) as client:
        client.send("/v1/messages", "[[gate=g]][[say=done]]")
        response = client.http.getresponse()
        output = b""
        while b"word2" not in output:
            output += response.read1()
        model.open("g")
        assert b"done" in response.read()
        assert model.journal.wait("answered", "[[gate=g]]")


def test_a_client_that_goes_away_is_noted(model: Model) -> None:
    with Client(model) as client:
        client.send("/v1/responses", "[[silent=never]]")
        model.journal.wait("held", gate="never")
    assert model.journal.wait("left").text == "[[silent=never]]"


def test_a_cut_is_seen_as_one(model: Model) -> None:
    with Client(model) as client:
        client.send("/v1/chat/completions", "[[cut]]")
        with pytest.raises(http.client.IncompleteRead):
            client.answer()
    model.journal.wait("dropped")


def test_a_stopped_server_is_gone_for_the_old_and_the_new(model: Model) -> None:
    with Client(model) as streaming, Client(model) as mute, Client(model) as resting:
        assert resting.get("/v1/models")[0] == 200
        streaming.send("/v1/messages", "[[gate=g]] a")
        mute.send("/v1/messages", "[[mute=m]] b")
        model.journal.wait("held", "a")
        model.journal.wait("held", "b")
        response = streaming.http.getresponse()
        model.stop()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            mute.answer()
        assert resting.http.sock.recv(1) == b""
        with Client(model) as late, pytest.raises(ConnectionRefusedError):
            late.get("/v1/models")
    assert sorted(note.text[-1] for note in model.journal.notes() if note.kind == "dropped") == [
        "a",
        "b",
    ]


def test_started_again_it_is_the_same_server(model: Model) -> None:
    url = model.url
    model.open("g")
    with Client(model) as client:
        client.send("/v1/messages", "[[error=500x1]] x")
        assert client.answer()[0] == 500
    model.stop()
    model.stop()
    model.start()
    assert model.url == url
    with Client(model) as client:
        client.send("/v1/messages", "[[gate=g]][[error=500x1]] x")
        client.answer()
        client.send("/v1/messages", "[[error=500x1]] x")
        assert client.answer()[0] == 200
    with pytest.raises(RuntimeError, match="already listening"):
        model.start()


def test_the_port_can_be_chosen() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    model = Model().start(port)
    try:
        assert model.url == f"http://127.0.0.1:{port}"
    finally:
        model.stop()


def test_lists_of_models(model: Model) -> None:
    with Client(model) as client:
        for path in ("/v1/models", "/models?limit=5"):
            status, body = client.get(path)
            assert status == 200
            assert body["data"][0]["id"]
        assert client.get("/v1/models/some-model")[1]["id"] == "some-model"


def test_other_paths_are_harmless(model: Model) -> None:
    with Client(model) as client:
        assert client.get("/")[0] == 200
        assert client.get("/", "HEAD") == (200, None)
        assert client.get("/api/event_logging")[0] == 404
        client.http.request("POST", "/v1/metrics", b"{}")
        assert client.answer()[0] == 404
        client.http.request("POST", "/v1/messages/count_tokens", b'{"messages": []}')
        assert json.loads(client.answer()[1])["input_tokens"] > 0
        client.http.request("POST", "/v1/responses/compact", b"{}")
        assert client.answer() == (200, '{"output": []}')
    assert model.journal.notes() == ()


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"messages": [1]}', b'{"messages": 5}'])
def test_a_malformed_request_is_refused(model: Model, body: bytes) -> None:
    with Client(model) as client:
        client.http.request("POST", "/v1/messages", body)
        status, text = client.answer()
        assert status == 400
        assert json.loads(text)["type"] == "error"
