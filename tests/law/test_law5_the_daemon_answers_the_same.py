"""Law 5 with a daemon: `list`, `status` and `why` say the same whether it answers or they look
themselves, at every step of a random history; and `kill -9` of it changes no answer."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import initialize, invariant

from agentctl import __version__
from agentctl.cli import answer
from agentctl.cli.verbs import list as list_verb
from agentctl.daemon_client import protocol
from agentctl.system import clock, pidfd
from agentctl.system.identity import ProcessIdentity
from agentctl.testing import Stage
from tests.daemon.serving import Wire, daemon_of, home_of
from tests.fakes.stages import stages
from tests.law.asking import agentctl_json, environ_of, working
from tests.law.test_law5_one_function_answers_everyone import History, answers, played
from tests.running import agentctl_of
from tests.waiting import until


def by_daemon(stage: Stage, verb: str, *words: str) -> dict[str, Any]:
    """Its answer, and no other."""
    params: dict[str, Any] = {
        "protocol": protocol.PROTOCOL,
        "version": __version__,
        "verb": verb,
        "words": [*words, "--json"],
        "environ": environ_of(stage),
        "cwd": str(stage.root),
        "terminal": None,
        "path": sys.path,
        "until": time.monotonic() + 60,
    }
    with Wire(home_of(stage)) as wire:
        told = wire.ask("ask", **params)
    assert told["result"]["code"] == 0, told
    return dict(json.loads(told["result"]["stdout"]))


def alone(stage: Stage, *words: str) -> dict[str, Any]:
    """What `list` finds by itself, in a process that remembers nothing."""
    given = list_verb.parser().parse_words([*words, "--json"])
    found = list_verb.answer(given, answer.Asker(environ_of(stage), None, str(stage.root)))
    return dict(json.loads("".join(found.out)))


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return answers(one["sessions"]) == answers(other["sessions"]) and sorted(
        map(str, one["problems"])
    ) == sorted(map(str, other["problems"]))


def grow_old(stage: Stage) -> None:
    """Until every file there is may be remembered."""
    written = [p for p in stage.home.rglob("*") if p.is_file()]
    latest = max((p.stat().st_ctime for p in written), default=0.0)
    until(lambda: latest < time.time() - clock.GRAIN, "what was written is old enough")


class Served(History):
    """The same histories, with a daemon that is asked from the beginning to the end."""

    @initialize()
    def a_daemon(self) -> None:
        daemon_of(self.stage)

    @invariant()
    def the_daemon_agrees(self) -> None:
        if not Path(home_of(self.stage), "daemon.sock").exists():  # before the first step
            return
        every = by_daemon(self.stage, "list", "-a")
        assert same(every, alone(self.stage, "-a"))
        assert same(by_daemon(self.stage, "list"), alone(self.stage))
        for row in every["sessions"][:2]:
            name = row["id"] or f"pid:{row['pid']}"
            for verb in ("status", "why"):
                (told,) = by_daemon(self.stage, verb, name)["sessions"]
                assert answers([told]) == answers([row])
        if self.steps % 3 == 1:  # so that the next step contradicts what the daemon has in mind
            grow_old(self.stage)
            assert same(by_daemon(self.stage, "list", "-a"), every)


@pytest.mark.parametrize("stage", stages(), ids=lambda stage: stage.adapter)
def test_a_random_history(stage: type[Stage]) -> None:
    class Mine(Served):
        stage_class = stage

    played(Mine, 3)


@pytest.fixture
def daemon(stage: Stage) -> ProcessIdentity:
    return daemon_of(stage)


def test_the_daemon_is_killed(stage: Stage, daemon: ProcessIdentity) -> None:
    """Its socket stays behind, and nobody listens."""
    working(stage)
    before = agentctl_json(stage, "list")
    with pidfd.Handle(daemon) as handle:
        handle.signal(signal.SIGKILL)
        assert handle.wait(20)
    assert Path(home_of(stage), "daemon.sock").exists()
    assert same(agentctl_json(stage, "list"), before)
    told = agentctl_of(stage, "list", AGENTCTL_DEBUG="1")
    assert "not by the daemon" in told.err


@pytest.mark.usefixtures("daemon")
def test_one_that_is_killed_between_two_questions_is_not_alive_in_the_second(stage: Stage) -> None:
    puppet, session_id = working(stage)
    grow_old(stage)
    for _ in range(2):
        (row,) = by_daemon(stage, "list")["sessions"]
        assert (row["id"], row["status"]) == (session_id, "running")
    puppet.kill(reap=False)
    assert by_daemon(stage, "list")["sessions"] == []
    (row,) = by_daemon(stage, "list", "-a")["sessions"]
    assert (row["id"], row["status"]) == (session_id, "stopped")


@pytest.mark.usefixtures("daemon")
def test_a_transcript_of_the_same_size_says_something_else(stage: Stage) -> None:
    if stage.adapter == "opencode":
        pytest.skip("one database for all: rewritten by SQLite, tested in truth/test_memory.py")
    _, session_id = working(stage)
    grow_old(stage)
    before = by_daemon(stage, "status", session_id)["sessions"][0]
    prompt = before["prompt"]
    for path in stage.home.rglob("*.jsonl"):
        status, data = path.stat(), path.read_bytes()
        path.write_bytes(data.replace(prompt.encode(), prompt[::-1].encode()))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert path.stat().st_size == status.st_size
    after = by_daemon(stage, "status", session_id)["sessions"][0]
    assert after["prompt"] == prompt[::-1] != prompt
