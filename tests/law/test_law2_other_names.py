"""Law 2: a live agent is never stopped because its process has another name. It may have the name of a
wrapper, a release or any other; it may run on Node, or under an emulator or a loader."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.testing import Puppet, Stage
from agentctl.testing.player import wait_for_program
from agentctl.truth.survey import HistoryQuery
from tests.fakes.claude import ClaudeStage
from tests.fakes.stages import find_stage
from tests.law.asking import LIVE, agentctl_json, start_agent
from tests.running import agentctl_of

NAMES = {
    "claude-code": ("claude", ".claude-wrapped", "claude-code", "helper"),
    "codex": ("codex-x86_64-unknown-linux-musl", "codex-acp", ".codex-wrapped", "helper"),
    "opencode": ("opencode-cli", ".opencode-wrapped", "helper"),
    "pi": ("bun", "deno", "MainThread", "pi-dev"),  # it calls itself pi, whatever runs it
}
BARE = {"FAKE_START": "bare"}
CASES = [(adapter, alias) for adapter, aliases in NAMES.items() for alias in aliases]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]} as {case[1]}")
def renamed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    adapter, alias = request.param
    stage = find_stage(adapter)(tmp_path)
    stage.alias = alias
    yield stage
    stage.close()


@pytest.mark.few(5)
def test_a_renamed_agent_is_live_and_is_listed(renamed: Stage) -> None:
    puppet, session_id = start_agent(renamed)
    assert_listed(renamed, puppet, session_id)


@pytest.mark.few(4)
def test_a_renamed_agent_that_was_killed_is_stopped(renamed: Stage) -> None:
    """The converse: an agent that is recognised under another name is also known to be gone."""
    puppet, session_id = start_agent(renamed)
    puppet.kill()
    verdict = renamed.session(session_id).verdict
    assert (verdict.status, verdict.outcome) == ("stopped", "killed"), verdict.reason


@pytest.mark.few(2)
def test_wait_and_resume_see_that_a_renamed_agent_lives(renamed: Stage) -> None:
    _, session_id = start_agent(renamed)
    ran = agentctl_of(renamed, "wait", session_id, "--timeout", "1s")
    assert ran.code == 124, ("wait took it for ended", ran)
    ran = agentctl_of(renamed, "resume", session_id, "go on", "--dry-run")
    assert ran.code == 4, ("resume would start a second writer", ran)


def test_an_agent_started_through_a_link_is_listed(tmp_path: Path) -> None:
    """The process table shows the name of the link, /proc/PID/exe that of the binary."""
    stage = find_stage("codex")(tmp_path)
    try:
        real = stage.rename_interpreter("vendor", "bin", "codex")
        link = stage.root / "cx"
        link.symlink_to(real)
        puppet = stage.start(environ={"PUPPET_ALIAS": "cx"})
        puppet.do("work")
        assert puppet.session_id is not None
        assert_listed(stage, puppet, puppet.session_id)
    finally:
        stage.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("alias", ["node", "nodejs", "bun"])
def test_claude_on_node_is_listed(tmp_path: Path, alias: str) -> None:
    """Up to 2.1.112: a script on Node, which calls itself `claude` and overwrites its arguments."""
    stage = ClaudeStage(tmp_path)
    stage.alias = alias
    try:
        environ = {"FAKE_ARGV": "claude", "FAKE_COMM": "claude", "FAKE_VERSION": "2.1.110"}
        puppet = stage.start(environ=environ)
        puppet.do("work")
        assert puppet.session_id is not None
        assert_listed(stage, puppet, puppet.session_id)
    finally:
        stage.close()


def test_claude_inside_an_editor_is_listed(tmp_path: Path) -> None:
    """The Agent SDK starts Claude with the editor's own binary, which then acts as Node."""
    stage = ClaudeStage(tmp_path)
    stage.alias = "some-editor"
    try:
        environ = {"FAKE_ARGV": "claude", "FAKE_COMM": "claude", "ELECTRON_RUN_AS_NODE": "1"}
        puppet = stage.start(environ={**environ, **BARE})
        row = stage.find_row(puppet)
        assert row is not None, "it has no record yet: its title is all there is"
        without = stage.start(environ={"FAKE_ARGV": "claude", "FAKE_COMM": "claude", **BARE})
        assert stage.find_row(without) is None, "a stranger with that title"
    finally:
        stage.close()


def test_a_claude_without_a_record_is_bound_by_its_transcript(tmp_path: Path) -> None:
    """As Claude 2.0, without arguments. One transcript of its directory was written since it began."""
    stage = ClaudeStage(tmp_path)
    stage.alias = "node"
    try:
        puppet = stage.start(environ={"FAKE_ARGV": "claude", "FAKE_COMM": "claude"})
        puppet.do("work")
        stage.record(puppet).unlink()
        assert puppet.session_id is not None
        row = stage.find_row(puppet)
        assert row is not None
        assert (row.observation.session_id, row.verdict.status) == (puppet.session_id, "running")
        assert "inferred" in row.verdict.used[0].note
    finally:
        stage.close()


def test_claudes_own_grep_is_no_session(tmp_path: Path) -> None:
    """Its shell runs searches with Claude's own binary, under the name of the tool."""
    stage = ClaudeStage(tmp_path)
    try:
        binary = stage.rename_interpreter(*stage.binary)
        environ = {**stage.environ, **stage._interpreter()}
        for name in ("ugrep", "bfs", "rg"):
            with subprocess.Popen(
                [name, "-c", "input()"],
                executable=binary,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as tool:
                try:
                    wait_for_program(tool.pid)
                    assert stage.survey(HistoryQuery()).sessions == [], name
                finally:
                    tool.communicate(b"\n", timeout=20)
    finally:
        stage.close()


def test_a_server_run_with_opencodes_own_binary_is_no_session(tmp_path: Path) -> None:
    stage = find_stage("opencode")(tmp_path)
    try:
        binary = stage.rename_interpreter("lib", "node_modules", "opencode-ai", "bin", "opencode.exe")
        environ = {**stage.environ, **stage._interpreter(), "BUN_BE_BUN": "1"}
        with subprocess.Popen([binary, "-c", "input()"], env=environ, stdin=subprocess.PIPE) as server:
            try:
                wait_for_program(server.pid)
                assert stage.survey(HistoryQuery()).sessions == []
            finally:
                server.communicate(b"\n", timeout=20)
    finally:
        stage.close()


def test_a_process_with_the_transcript_open_for_writing_makes_it_unknown(tmp_path: Path) -> None:
    """Its name, records and locks do not show it. But before we call an open turn killed, we look for
    processes that have files of this agent open for writing."""
    stage = find_stage("codex")(tmp_path)
    try:
        puppet, session_id = start_agent(stage)
        puppet.kill()
        assert stage.session(session_id).verdict.outcome == "killed"
        rollout = next(p for p in stage.records(puppet) if p.suffix == ".jsonl")
        with rollout.open("ab") as opened:  # we do not suspect ourselves, so a child has it open
            holder = subprocess.Popen(["sleep", "60"], env=stage.environ, pass_fds=[opened.fileno()])
        try:
            wait_for_program(holder.pid)
            verdict = stage.session(session_id).verdict
            assert verdict.status == "unknown"
            assert f"pid {holder.pid}" in verdict.reason
        finally:
            holder.kill()
            holder.wait()
    finally:
        stage.close()


def test_a_process_with_a_log_as_its_output_is_no_suspect(tmp_path: Path) -> None:
    """Codex' own updater inherits a log of Codex as its standard error."""
    stage = find_stage("codex")(tmp_path)
    try:
        puppet, session_id = start_agent(stage)
        puppet.kill()
        with (stage.home / ".codex" / "updater.log").open("ab") as log:
            updater = subprocess.Popen(["sleep", "60"], env=stage.environ, stderr=log)
        try:
            wait_for_program(updater.pid)
            assert stage.session(session_id).verdict.outcome == "killed"
        finally:
            updater.kill()
            updater.wait()
    finally:
        stage.close()


def test_a_live_agent_outside_of_the_confinement_is_unknown(tmp_path: Path) -> None:
    """A variable of ours may leak into a person's shell."""
    for adapter in NAMES:
        stage = find_stage(adapter)(tmp_path / adapter)
        try:
            _, session_id = start_agent(stage)
            answer = agentctl_json(stage, "list", "-a", AGENTCTL_CONFINE="A_LEAKED=export")
            rows = {row["id"]: row for row in answer["sessions"]}
            assert rows[session_id]["status"] == "unknown", rows[session_id]["reason"]
            assert "AGENTCTL_CONFINE" in rows[session_id]["reason"]
        finally:
            stage.close()


def test_an_interpreter_that_runs_no_agent_is_not_listed(tmp_path: Path) -> None:
    stage = ClaudeStage(tmp_path)
    stage.alias = "node"
    try:
        environ = {**stage.environ, **stage._interpreter()}
        with subprocess.Popen(
            [stage.rename_interpreter("bin", "x"), "-c", "input()"], env=environ, stdin=subprocess.PIPE
        ) as stranger:
            try:
                wait_for_program(stranger.pid)
                assert stage.survey(HistoryQuery()).sessions == []
            finally:
                stranger.communicate(b"\n", timeout=20)
    finally:
        stage.close()


def assert_listed(stage: Stage, puppet: Puppet, session_id: str) -> None:
    row = stage.find_row(puppet)
    assert row is not None, "a live agent is not listed"
    assert row.verdict.status in LIVE, row.verdict.reason
    rows = [s for s in stage.survey(HistoryQuery()).sessions if s.observation.session_id == session_id]
    assert [r.verdict.status in LIVE for r in rows] == [True], [r.verdict.reason for r in rows]
    assert os.path.exists(f"/proc/{puppet.pid}")
