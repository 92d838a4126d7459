"""`agentctl stop`: the proof, for people and for scripts."""

import os
import re
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from agentctl.cli.verbs import stop
from agentctl.errors import SourceError
from agentctl.stop import stop as module
from agentctl.system import proc
from agentctl.testing import Puppet
from agentctl.wire.session import SESSION_FIELDS, STOPPED_FIELDS
from tests.cli.groups import add_to_group, id_of
from tests.fakes.codex import CodexStage, called
from tests.fakes.doomed import Doomed, alive
from tests.running import agentctl_as_stranger, agentctl_of, environ_of, open_home, started
from tests.waiting import until

STAGE = Doomed


def is_alive(puppet: Puppet) -> bool:
    process = proc.find_process(puppet.identity)
    return process is not None and process.is_alive


def test_a_stop_prints_a_line_of_proof(stage: Doomed) -> None:
    agent, _ = stage.working()
    agent.do("tool")
    ran = agentctl_of(stage, "stop", id_of(agent)[:8])
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(
        rf"{agent.session_id} stopped \(interrupted.*\): 2 ended, 0 survivors, \d+\.\d s, by SIGINT\n",
        ran.out,
    )
    assert not is_alive(agent)
    assert stage.living() == []


def test_a_stop_of_an_ended_session_succeeds_and_prints_the_outcome(stage: Doomed) -> None:
    agent, _ = stage.working()
    agent.finish()
    ran = agentctl_of(stage, "stop", id_of(agent))
    assert (ran.code, ran.out) == (0, f"{agent.session_id} had stopped already (completed)\n")


def test_as_json(stage: Doomed) -> None:
    agent, _ = stage.working()
    agent.do("tool")
    ran = agentctl_of(stage, "stop", id_of(agent), "--json", "--force")
    answer = ran.json()
    assert (ran.code, ran.err) == (0, "")
    assert list(answer) == ["version", "sessions", "problems", "stopped"]
    (session,), (stopped,) = answer["sessions"], answer["stopped"]
    assert list(session) == [name for name, _, _ in SESSION_FIELDS]
    assert (session["status"], session["outcome"]) == ("stopped", "killed")
    assert list(stopped) == [name for name, _, _ in STOPPED_FIELDS]
    assert (stopped["id"], stopped["adapter"], stopped["already"]) == (agent.session_id, "demo", False)
    assert (stopped["ended"], stopped["survivors"], stopped["spared"]) == (2, [], [])
    assert stopped["signals"] == ["SIGKILL"]


def test_ctrl_c_names_the_session_that_may_be_alive(
    stage: Doomed, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = stage.start()

    def interrupt(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_jobs", interrupt)
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(KeyboardInterrupt, match=f"not proven .* stop --force {agent.session_id}"):
        stop.run(stop.parser().parse_words([agent.session_id or ""]))


def test_a_stubborn_agent_is_killed_after_the_timeout(stage: Doomed) -> None:
    agent, _ = stage.working()
    agent.do("stubborn")
    ran = agentctl_of(stage, "stop", id_of(agent), "--timeout", "0.1s")
    assert ran.code == 0
    assert "by SIGINT then SIGTERM then SIGKILL" in ran.out


def test_a_dry_run_ends_no_process(stage: Doomed) -> None:
    agent, _ = stage.working()
    agent.do("tool")
    until(lambda: len(stage.living("sleep")) == 1, "its tool runs")
    (tool,) = stage.living("sleep")
    ran = agentctl_of(stage, "stop", id_of(agent), "--dry-run")
    assert ran.lines == [
        f"{agent.session_id} would get SIGINT (3 s), SIGTERM (3 s), SIGKILL (5 s) as pid {agent.pid}",
        f"  and then its pid {tool.pid}: sleep 1000",
    ]
    (planned,) = agentctl_of(stage, "stop", id_of(agent), "--dry-run", "--json").json()["planned"]
    assert planned["pid"] == agent.pid
    assert planned["processes"] == [{"pid": tool.pid, "command": "sleep 1000"}]
    assert is_alive(agent)
    assert alive(tool)
    agent.kill()
    ran = agentctl_of(stage, "stop", id_of(agent), "--dry-run")
    assert ran.out == f"{agent.session_id} has stopped already (killed)\n"


def test_an_unknown_id_does_not_hinder_the_others(stage: Doomed) -> None:
    (one, _), (two, _) = stage.working(), stage.working()
    ran = agentctl_of(stage, "stop", id_of(one), "nosuch", id_of(two))
    assert ran.code == 3
    assert [line.split()[0] for line in ran.lines] == [one.session_id, two.session_id]
    assert "nosuch" in ran.err
    assert not is_alive(one)
    assert not is_alive(two)


def test_a_group_is_stopped(stage: Doomed) -> None:
    agents = [stage.working()[0] for _ in range(4)]
    add_to_group(stage, *agents[:3])
    agents[0].finish()
    ran = agentctl_of(stage, "stop", "--group", "g")
    assert ran.code == 0, ran.err
    assert sorted("already" in line for line in ran.lines) == [False, False, True]
    assert [is_alive(agent) for agent in agents] == [False, False, False, True]
    assert agentctl_of(stage, "stop", "--group", "none").code == 3


def test_a_process_without_a_session(stage: Doomed) -> None:
    agent = stage.start()
    stage.records(agent)[0].unlink()
    ran = agentctl_of(stage, "stop", f"pid:{agent.pid}")
    assert ran.code == 0
    assert ran.out.startswith(f"pid:{agent.pid} stopped (its process is gone): 1 ended, 0 survivors")
    assert not is_alive(agent)


def test_from_inside_the_agents_own_shell(stage: Doomed) -> None:
    """The agent is our ancestor: it ends, we and our shell do not, and the other tools do."""
    agent, _ = stage.working()
    agent.do("tool")
    output = stage.root / "output"
    words = f"{sys.executable} -m agentctl stop {agent.session_id}"
    exports = " ".join(
        f"{name}={value}" for name, value in environ_of(stage).items() if name.startswith("PYTHON")
    )
    agent.do(f"tool {exports} {words} > {output}.new 2>&1; mv {output}.new {output}")
    until(output.exists, "agentctl has printed what it did")
    lines = output.read_text().splitlines()
    assert re.fullmatch(rf"{agent.session_id} stopped \(.*\): 2 ended, 0 survivors, .*", lines[0]), lines
    spared = sorted(line.rpartition(": ")[2] for line in lines[1:])
    assert spared == ["agentctl runs in it", "this very agentctl"], lines
    assert not is_alive(agent)
    until(lambda: stage.living() == [], "all have ended")


def test_survivors_are_named_and_fail(stage: Doomed) -> None:
    """Two processes run one session, as some agents allow: one is stopped, the session goes on."""
    agent, _ = stage.working()
    twin = stage.start(resume=agent.session_id)
    twin.do("work")
    ran = agentctl_of(stage, "stop", id_of(agent))
    assert ran.code == 1
    assert f"{agent.session_id} goes on under pid" in ran.out


def test_a_server_with_other_sessions_is_stopped_only_with_owner(tmp_path: Path) -> None:
    stage = CodexStage(tmp_path)
    try:
        daemon = stage.start(environ=called("app-server", "--listen", "unix://", bare=True))
        for step in ("load", "work", "load", "work"):
            daemon.do(step)
        ran = agentctl_of(stage, "stop", id_of(daemon))
        assert (ran.code, ran.out) == (4, "")
        assert "--owner" in ran.err
        assert is_alive(daemon)
        ran = agentctl_of(stage, "stop", id_of(daemon), "--owner")
        assert ran.code == 0, ran.err
        assert not is_alive(daemon)
    finally:
        stage.close()


@pytest.mark.slow
def test_a_session_of_an_unknown_process_is_not_stopped(stage: Doomed) -> None:
    agent, _ = stage.working()
    other = stage.start()
    for puppet in (agent, other):
        stage.records(puppet)[0].unlink()
    ran = agentctl_of(stage, "stop", id_of(agent))
    assert (ran.code, ran.out) == (5, "")
    assert "cannot tell which process runs it" in ran.err
    assert is_alive(agent)
    assert is_alive(other)


@pytest.mark.slow
def test_a_short_doubt_is_waited_out(stage: Doomed) -> None:
    """An agent that another stop is just ending loses its record before its process."""
    agent, _ = stage.working()
    other = stage.start()
    records = {path: path.read_bytes() for each in (agent, other) for path in stage.records(each)[:1]}
    for path in records:
        path.unlink()
    with started(stage, "stop", id_of(agent)) as child:
        until(lambda: child.poll() is not None or is_watching(child.pid), "it waits for changes")
        for path, data in records.items():
            path.write_bytes(data)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, b"")
    assert f"{agent.session_id} stopped (" in out.decode()
    assert not is_alive(agent)
    assert is_alive(other)


def is_watching(pid: int) -> bool:
    """Return True if it waits for changes: by then it has looked."""
    try:
        files = proc.read_process(pid, proc.read_boot_id()).list_open_files()
    except SourceError:  # it has just ended
        return False
    return any("inotify" in name for name in files)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_users_agent_is_refused() -> None:
    with open_home() as root:
        stage = Doomed(root)
        try:
            agent, _ = stage.working()
            for path in (root, *root.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
            # the owner of the process is known before any of its files is read
            ran = agentctl_as_stranger(
                {**stage.environ, "AGENTCTL_CONFINE": ""}, "stop", f"pid:{agent.pid}"
            )
            assert (ran.code, ran.out) == (4, ""), ran
            assert f"only that user may stop it: sudo -u '#0' agentctl stop pid:{agent.pid}" in ran.err
            assert is_alive(agent)
        finally:
            stage.close()


@pytest.mark.parametrize("words", [(), ("x", "--group", "g"), ("x", "--timeout", "soon")])
def test_wrong_words_are_usage_errors(stage: Doomed, words: tuple[str, ...]) -> None:
    assert agentctl_of(stage, "stop", *words).code == 2
