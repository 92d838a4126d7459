"""The metrics of a daemon, as Prometheus reads them."""

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
    """A survey without sessions, which can be delayed."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> Survey:
        self.calls += 1
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
    metrics = Metrics(f"{environ['AGENTCTL_HOME']}/state.db", environ, 12.5, look)
    metrics.start()
    until(lambda: "state" not in metrics.status(), "it serves")
    yield metrics
    metrics.stop()


def render_text(part: Metrics) -> str:
    return exposition.render_text(part.families())


def read_page(part: Metrics, path: str = "/metrics") -> str:
    return read_url(f"http://127.0.0.1:{part.status()['port']}{path}")


def read_url(url: str) -> str:
    with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text: str = answer.read().decode()
        return text


def test_every_family_is_served(part: Metrics) -> None:
    families = {family.name: family for family in text_string_to_metric_families(read_page(part))}
    assert set(families) == {name.removesuffix("_total") for name in FAMILIES}
    assert {f.type for f in families.values()} == {"gauge", "counter", "histogram"}
    [start] = families["agentctl_daemon_start_time_seconds"].samples
    assert start.value == 12.5
    count = next(
        s for s in families["agentctl_survey_duration_seconds"].samples if s.name.endswith("count")
    )
    assert count.value == 1


def test_every_sample_has_the_labels_of_the_table(part: Metrics, environ: dict[str, str]) -> None:
    journal.append_events(
        f"{environ['AGENTCTL_HOME']}/state.db", [Event("session.stopped", 1.0, adapter="pi")]
    )
    for family in text_string_to_metric_families(read_page(part)):
        name = family.name if family.name in FAMILIES else f"{family.name}_total"
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(FAMILIES[name].labels), sample


def test_events_are_counted_since_the_start(environ: dict[str, str], look: Look) -> None:
    notes = f"{environ['AGENTCTL_HOME']}/state.db"
    journal.append_events(notes, [Event("session.idle", 1.0)])
    metrics = Metrics(notes, environ, 1.0, look)
    metrics.start()
    try:
        journal.append_events(notes, [Event("session.idle", 2.0)])
        assert 'agentctl_events_total{type="session.idle"} 1\n' in render_text(metrics)
    finally:
        metrics.stop()


def test_health_needs_no_look(part: Metrics, look: Look) -> None:
    assert read_page(part, "/healthz") == "ok\n"
    assert look.calls == 0


def test_waiting_clients_share_the_next_look(part: Metrics, look: Look) -> None:
    look.gate.clear()
    threads = [threading.Thread(target=part.families) for _ in range(5)]
    threads[0].start()
    until(lambda: look.calls == 1, "the first looks")
    for thread in threads[1:]:
        thread.start()
    look.gate.set()
    for thread in threads:
        thread.join(DEADLINE)
    # one that came after the second look had begun needs a third; without sharing there are five
    assert 2 <= look.calls <= 3


def test_a_look_that_hangs_times_out(part: Metrics, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "PATIENCE", 0.05)
    look.gate.clear()
    first = threading.Thread(target=part.families)
    first.start()
    until(lambda: look.calls == 1, "the first looks")
    with pytest.raises(TimedOut):
        part.families()
    with pytest.raises(urllib.error.HTTPError, match="503"):
        read_page(part)
    look.gate.set()
    first.join(DEADLINE)


def test_a_port_in_use_is_a_problem_and_metrics_can_still_be_read(
    environ: dict[str, str], look: Look
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        environ["AGENTCTL_METRICS_PORT"] = str(port)
        metrics = Metrics(f"{environ['AGENTCTL_HOME']}/state.db", environ, 1.0, look)
        metrics.start()
        until(lambda: metrics.status().get("state") == "failing", "the problem is shown")
        assert f"port {port}: Address already in use" in metrics.status()["problem"]
        assert "agentctl_sessions" in render_text(metrics)
        metrics.stop()


def test_it_does_not_listen_if_it_is_off(environ: dict[str, str], look: Look) -> None:
    metrics = Metrics("/nowhere", {**environ, "AGENTCTL_METRICS_OFF": "true"}, 1.0, look)
    metrics.start()
    assert metrics.status() == {"state": "off"}
    assert "agentctl_sessions" in render_text(metrics)
    metrics.stop()


def test_bad_settings_are_an_error(environ: dict[str, str], look: Look) -> None:
    metrics = Metrics("/nowhere", {**environ, "AGENTCTL_METRICS_PORT": "many"}, 1.0, look)
    with pytest.raises(UsageError, match="AGENTCTL_METRICS_PORT"):
        metrics.start()


def test_a_daemon_whose_port_is_in_use_shows_it_and_goes_on(stage: DemoStage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        daemon_of(stage, AGENTCTL_METRICS_PORT=str(port))
        why = f"cannot listen on 127.0.0.1 port {port}: Address already in use"
        until(lambda: why in log_of(stage), "it is in the log")
        ran = agentctl_of(stage, "daemon", "status", AGENTCTL_METRICS_PORT=str(port))
        assert why in ran.out
        assert "agentctl_daemon_start_time_seconds" in agentctl_of(stage, "metrics").out


def test_the_daemon_counts_what_it_sees(stage: DemoStage) -> None:
    """From the agent's end to the number that Prometheus reads."""
    daemon_of(stage)
    status = agentctl_of(stage, "daemon", "status", "--json").json()
    [place] = [part for part in status["daemon"]["parts"] if part["name"] == "metrics"]
    puppet = stage.start()
    puppet.do("work 0.1")
    url = f"http://127.0.0.1:{place['port']}/metrics"
    until(lambda: 'agentctl_sessions{adapter="demo",status="running"} 1\n' in read_url(url), "it runs")
    events = 'agentctl_events_total{type="session.running"} '
    until(lambda: events in read_url(url), "the daemon has seen it")
    puppet.kill()
    sample = 'agentctl_sessions_ended_total{adapter="demo",outcome="killed"} 1\n'
    until(lambda: sample in read_url(url), "its end is counted")
    page = read_url(url)
    assert 'agentctl_events_total{type="daemon.started"} 1\n' in page
    assert 'agentctl_session_duration_seconds_count{adapter="demo"} 1\n' in page
    assert 'agentctl_ended_session_tokens_total{adapter="demo",kind="input"} 100\n' in page
    assert "agentctl_sessions{" not in page


def test_there_is_at_most_one_look_a_second(
    part: Metrics, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "FRESH", 3600.0)
    first = read_page(part)
    assert [read_page(part) for _ in range(5)] == [first] * 5
    assert look.calls == 1
    render_text(part)  # a request through the socket is never answered from memory
    assert look.calls == 2
    monkeypatch.setattr(served, "FRESH", 0.0)
    read_page(part)
    assert look.calls == 3


def test_a_look_that_fails_is_an_error_and_is_not_remembered(
    part: Metrics, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "FRESH", 3600.0)
    monkeypatch.setattr(part, "families", lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError, match="500"):
            read_page(part)
    monkeypatch.undo()
    assert "agentctl_sessions" in read_page(part)


def test_the_users_that_may_read_it() -> None:
    assert served.find_uids("127.0.0.1", ()) == {0, os.geteuid()}
    assert served.find_uids("::1", ("root", "4242")) == {0, os.geteuid(), 4242}
    assert served.find_uids("127.0.0.1", ("*",)) is None
    assert served.find_uids("0.0.0.0", ()) is None
    with pytest.raises(UsageError, match="no user 'no such user'"):
        served.find_uids("127.0.0.1", ("no such user",))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_reads_it_only_if_the_settings_allow_it(
    environ: dict[str, str], look: Look
) -> None:
    for users, status in (("", 403), ("65534", 200), ("*", 200)):
        metrics = Metrics("/nowhere", {**environ, "AGENTCTL_METRICS_USERS": users}, 1.0, look)
        metrics.start()
        until(lambda metrics=metrics: "state" not in metrics.status(), "it serves")  # type: ignore[misc]
        os.seteuid(65534)
        try:
            client = socket.socket()
        finally:
            os.seteuid(0)
        with client:
            client.settimeout(DEADLINE)
            client.connect(("127.0.0.1", metrics.status()["port"]))
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert client.recv(64).startswith(b"HTTP/1.1 %d " % status)
        metrics.stop()
