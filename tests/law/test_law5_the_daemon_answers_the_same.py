"""Law 5 with a daemon: `list`, `status` and `why` say the same whether the daemon answers or not,
at every step of a random history; and `kill -9` of the daemon changes no answer."""

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
from agentctl.cli import queries, query_options
from agentctl.daemon_client import protocol
from agentctl.system import clock, pidfd
from agentctl.system.proc import ProcessIdentity
from agentctl.testing import Stage
from tests.daemon.serving import Wire, daemon_of, home_of
from tests.fakes.stages import stages
from tests.law.asking import agentctl_json, environ_of, start_agent
from tests.law.test_law5_one_function_answers_everyone import History, play, strip_clocks
from tests.running import agentctl_of
from tests.waiting import until


def ask_daemon(stage: Stage, verb: str, *words: str) -> dict[str, Any]:
    """Return the answer of the daemon itself."""
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
        reply = wire.ask("ask", **params)
    assert reply["result"]["code"] == 0, reply
    return dict(json.loads(reply["result"]["stdout"]))


def ask_without_daemon(stage: Stage, *words: str) -> dict[str, Any]:
    """Return the answer of `list` without a daemon, which remembers nothing."""
    arguments = query_options.list_parser().parse_words([*words, "--json"])
    options = queries.read_list_options(arguments)
    answer = queries.answer_list(options, queries.Asker(environ_of(stage), None, str(stage.root)))
    return dict(json.loads("".join(answer.out)))


def are_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return strip_clocks(one["sessions"]) == strip_clocks(other["sessions"]) and sorted(
        map(str, one["problems"])
    ) == sorted(map(str, other["problems"]))


def wait_until_old(stage: Stage) -> None:
    """Wait until every file is old enough to be remembered."""
    files = [p for p in stage.home.rglob("*") if p.is_file()]
    newest = max((p.stat().st_ctime for p in files), default=0.0)
    until(lambda: newest < time.time() - clock.GRAIN, "the files are old enough")


class Served(History):
    """The same histories, with a daemon that answers from beginning to end."""

    @initialize()
    def a_daemon(self) -> None:
        daemon_of(self.stage)

    @invariant()
    def the_daemon_agrees(self) -> None:
        if not Path(home_of(self.stage), "daemon.sock").exists():  # before the first step
            return
        every = ask_daemon(self.stage, "list", "-a")
        assert are_same(every, ask_without_daemon(self.stage, "-a"))
        assert are_same(ask_daemon(self.stage, "list"), ask_without_daemon(self.stage))
        for row in every["sessions"][:2]:
            name = row["id"] or f"pid:{row['pid']}"
            for verb in ("status", "why"):
                (answer,) = ask_daemon(self.stage, verb, name)["sessions"]
                assert strip_clocks([answer]) == strip_clocks([row])
        if self.steps % 3 == 1:  # so that the next step contradicts what the daemon remembers
            wait_until_old(self.stage)
            assert are_same(ask_daemon(self.stage, "list", "-a"), every)


@pytest.mark.parametrize("stage", stages(), ids=lambda stage: stage.adapter)
def test_a_random_history(stage: type[Stage], *, whole: bool) -> None:
    class Mine(Served):
        stage_class = stage

    play(Mine, 3 if whole else 1)


@pytest.fixture
def daemon(stage: Stage) -> ProcessIdentity:
    return daemon_of(stage)


def test_a_killed_daemon_changes_no_answer(stage: Stage, daemon: ProcessIdentity) -> None:
    """Its socket stays, and no process listens."""
    start_agent(stage)
    before = agentctl_json(stage, "list")
    with pidfd.Handle(daemon) as handle:
        handle.signal(signal.SIGKILL)
        assert handle.wait(20)
    assert Path(home_of(stage), "daemon.sock").exists()
    assert are_same(agentctl_json(stage, "list"), before)
    ran = agentctl_of(stage, "list", AGENTCTL_DEBUG="1")
    assert "not answered by the daemon" in ran.err


@pytest.mark.usefixtures("daemon")
def test_an_agent_killed_between_two_questions_is_stopped_in_the_second(stage: Stage) -> None:
    puppet, session_id = start_agent(stage)
    wait_until_old(stage)
    for _ in range(2):
        (row,) = ask_daemon(stage, "list")["sessions"]
        assert (row["id"], row["status"]) == (session_id, "running")
    puppet.kill(reap=False)
    assert ask_daemon(stage, "list")["sessions"] == []
    (row,) = ask_daemon(stage, "list", "-a")["sessions"]
    assert (row["id"], row["status"]) == (session_id, "stopped")


@pytest.mark.usefixtures("daemon")
def test_a_transcript_rewritten_in_the_same_size_is_read_again(stage: Stage) -> None:
    if stage.adapter == "opencode":
        pytest.skip("one database for all: rewritten by SQLite, tested in truth/test_memory.py")
    _, session_id = start_agent(stage)
    wait_until_old(stage)
    before = ask_daemon(stage, "status", session_id)["sessions"][0]
    prompt = before["prompt"]
    for path in stage.home.rglob("*.jsonl"):
        status, data = path.stat(), path.read_bytes()
        path.write_bytes(data.replace(prompt.encode(), prompt[::-1].encode()))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert path.stat().st_size == status.st_size
    after = ask_daemon(stage, "status", session_id)["sessions"][0]
    assert after["prompt"] == prompt[::-1] != prompt
