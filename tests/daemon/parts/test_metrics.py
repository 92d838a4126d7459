"""What Prometheus gets from a daemon."""

import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentctl.daemon.parts import metrics as served
from agentctl.daemon.parts.metrics import Metrics
from agentctl.errors import TimedOut, UsageError
from agentctl.metrics import exposition
from agentctl.metrics.families import FAMILIES
from agentctl.state import journal
from agentctl.state.journal import Event
from agentctl.truth.survey import Survey
from tests.daemon.serving import daemon_of, log_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import DEADLINE, until


class Look:
    """A survey of nobody, that can be held up."""

    def __init__(self) -> None:
        self.begun = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> Survey:
        self.begun += 1
        assert self.gate.wait(DEADLINE)
        return Survey([], [])


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"AGENTCTL_HOME": str(tmp_path), "AGENTCTL_METRICS_PORT": "0"}


@pytest.fixture
def look() -> Look:
    return Look()


@pytest.fixture
def part(environ: dict[str, str], look: Look) -> Iterator[Metrics]:
    made = Metrics(f"{environ['AGENTCTL_HOME']}/state.db", environ, 12.5, look)
    made.start()
    until(lambda: "state" not in made.status(), "it serves")
    yield made
    made.stop()


def text(part: Metrics) -> str:
    return exposition.text(part.families())


def page(part: Metrics, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{part.status()['port']}{path}") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text: str = answer.read().decode()
        return text


def test_every_family_is_served(part: Metrics) -> None:
    found = {family.name: family for family in text_string_to_metric_families(page(part))}
    assert set(found) == {name.removesuffix("_total") for name in FAMILIES}
    assert {f.type for f in found.values()} == {"gauge", "counter", "histogram"}
    [start] = found["agentctl_daemon_start_time_seconds"].samples
    assert start.value == 12.5
    count = next(
        s for s in found["agentctl_survey_duration_seconds"].samples if s.name.endswith("count")
    )
    assert count.value == 1


def test_every_sample_has_the_labels_of_the_table(part: Metrics, environ: dict[str, str]) -> None:
    journal.record(f"{environ['AGENTCTL_HOME']}/state.db", [Event("session.stopped", 1.0, adapter="pi")])
    for family in text_string_to_metric_families(page(part)):
        name = family.name if family.name in FAMILIES else f"{family.name}_total"
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(FAMILIES[name].labels), sample


def test_events_are_counted_since_the_start(environ: dict[str, str], look: Look) -> None:
    notes = f"{environ['AGENTCTL_HOME']}/state.db"
    journal.record(notes, [Event("session.idle", 1.0)])
    made = Metrics(notes, environ, 1.0, look)
    made.start()
    try:
        journal.record(notes, [Event("session.idle", 2.0)])
        assert 'agentctl_events_total{type="session.idle"} 1\n' in text(made)
    finally:
        made.stop()


def test_health_looks_at_nothing(part: Metrics, look: Look) -> None:
    assert page(part, "/healthz") == "ok\n"
    assert look.begun == 0


def test_those_who_wait_share_the_next_look(part: Metrics, look: Look) -> None:
    look.gate.clear()
    threads = [threading.Thread(target=part.families) for _ in range(5)]
    threads[0].start()
    until(lambda: look.begun == 1, "the first looks")
    for thread in threads[1:]:
        thread.start()
    look.gate.set()
    for thread in threads:
        thread.join(DEADLINE)
    # one that came after the second look had begun needs a third; without sharing there are five
    assert 2 <= look.begun <= 3


def test_a_look_that_hangs_is_not_waited_for_for_ever(
    part: Metrics, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "PATIENCE", 0.05)
    look.gate.clear()
    first = threading.Thread(target=part.families)
    first.start()
    until(lambda: look.begun == 1, "the first looks")
    with pytest.raises(TimedOut):
        part.families()
    with pytest.raises(urllib.error.HTTPError, match="503"):
        page(part)
    look.gate.set()
    first.join(DEADLINE)


def test_a_taken_port_is_told_and_metrics_can_still_be_asked_for(
    environ: dict[str, str], look: Look
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        environ["AGENTCTL_METRICS_PORT"] = str(port)
        made = Metrics(f"{environ['AGENTCTL_HOME']}/state.db", environ, 1.0, look)
        made.start()
        until(lambda: made.status().get("state") == "failing", "it is told")
        assert f"port {port}: Address already in use" in made.status()["problem"]
        assert "agentctl_sessions" in text(made)
        made.stop()


def test_switched_off_it_listens_nowhere(environ: dict[str, str], look: Look) -> None:
    made = Metrics("/nowhere", {**environ, "AGENTCTL_METRICS_OFF": "true"}, 1.0, look)
    made.start()
    assert made.status() == {"state": "off"}
    assert "agentctl_sessions" in text(made)
    made.stop()


def test_settings_that_make_no_sense_are_told(environ: dict[str, str], look: Look) -> None:
    made = Metrics("/nowhere", {**environ, "AGENTCTL_METRICS_PORT": "many"}, 1.0, look)
    with pytest.raises(UsageError, match="AGENTCTL_METRICS_PORT"):
        made.start()


def test_a_daemon_whose_port_is_taken_says_so_and_goes_on(stage: DemoStage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        daemon_of(stage, AGENTCTL_METRICS_PORT=str(port))
        why = f"cannot listen on 127.0.0.1 port {port}: Address already in use"
        until(lambda: why in log_of(stage), "it is in the log")
        ran = agentctl_of(stage, "daemon", "status", AGENTCTL_METRICS_PORT=str(port))
        assert why in ran.out
        assert "agentctl_daemon_start_time_seconds" in agentctl_of(stage, "metrics").out


def test_what_a_daemon_sees_is_measured(stage: DemoStage) -> None:
    """From the agent's end to the number that Prometheus reads."""
    daemon_of(stage)
    told = agentctl_of(stage, "daemon", "status", "--json").json()
    [place] = [part for part in told["daemon"]["parts"] if part["name"] == "metrics"]
    puppet = stage.start()
    puppet.do("work 0.1")
    url = f"http://127.0.0.1:{place['port']}/metrics"
    until(lambda: 'agentctl_sessions{adapter="demo",status="running"} 1\n' in _read(url), "it runs")
    events = 'agentctl_events_total{type="session.running"} '
    until(lambda: events in _read(url), "the daemon has seen it")
    puppet.kill()
    ended = 'agentctl_sessions_ended_total{adapter="demo",outcome="killed"} 1\n'
    until(lambda: ended in _read(url), "its end is counted")
    text = _read(url)
    assert 'agentctl_events_total{type="daemon.started"} 1\n' in text
    assert 'agentctl_session_duration_seconds_count{adapter="demo"} 1\n' in text
    assert 'agentctl_ended_session_tokens_total{adapter="demo",kind="input"} 100\n' in text
    assert "agentctl_sessions{" not in text


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
        text: str = answer.read().decode()
        return text


def test_there_is_at_most_one_look_a_second(
    part: Metrics, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "FRESH", 3600.0)
    first = page(part)
    assert [page(part) for _ in range(5)] == [first] * 5
    assert look.begun == 1
    text(part)  # who asks through the socket is told what is now
    assert look.begun == 2
    monkeypatch.setattr(served, "FRESH", 0.0)
    page(part)
    assert look.begun == 3


def test_a_look_that_fails_is_no_page(
    part: Metrics, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "FRESH", 3600.0)
    monkeypatch.setattr(part, "families", lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError, match="500"):
            page(part)
    monkeypatch.undo()
    assert "agentctl_sessions" in page(part)


def test_who_may_read_it() -> None:
    assert served.readers("127.0.0.1", ()) == {0, os.geteuid()}
    assert served.readers("::1", ("root", "4242")) == {0, os.geteuid(), 4242}
    assert served.readers("127.0.0.1", ("*",)) is None
    assert served.readers("0.0.0.0", ()) is None
    with pytest.raises(UsageError, match="no user 'nobody at all'"):
        served.readers("127.0.0.1", ("nobody at all",))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_reads_it_only_where_that_is_set(environ: dict[str, str], look: Look) -> None:
    for users, status in (("", 403), ("65534", 200), ("*", 200)):
        made = Metrics("/nowhere", {**environ, "AGENTCTL_METRICS_USERS": users}, 1.0, look)
        made.start()
        until(lambda made=made: "state" not in made.status(), "it serves")  # type: ignore[misc]
        os.seteuid(65534)
        try:
            client = socket.socket()
        finally:
            os.seteuid(0)
        with client:
            client.settimeout(DEADLINE)
            client.connect(("127.0.0.1", made.status()["port"]))
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert client.recv(64).startswith(b"HTTP/1.1 %d " % status)
        made.stop()
