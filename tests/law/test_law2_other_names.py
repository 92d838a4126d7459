"""Law 2: a live agent is never stopped because its process has another name. It may be called by a
wrapper's name, a release's, any name at all; it may run on Node, or under an emulator or a loader."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.testing import Puppet, Stage
from agentctl.testing.player import wait_for_program
from agentctl.truth.survey import Wanted
from tests.fakes.claude import ClaudeStage
from tests.fakes.stages import named
from tests.law.asking import LIVE, agentctl_json, working
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
    stage = named(adapter)(tmp_path)
    stage.alias = alias
    yield stage
    stage.close()


def test_a_renamed_agent_is_live_and_is_listed(renamed: Stage) -> None:
    puppet, session_id = working(renamed)
    assert_listed(renamed, puppet, session_id)


def test_a_renamed_agent_that_was_killed_is_stopped(renamed: Stage) -> None:
    """The other half: whoever is recognised under another name is also known to be gone."""
    puppet, session_id = working(renamed)
    puppet.kill()
    verdict = renamed.session(session_id).verdict
    assert (verdict.status, verdict.outcome) == ("stopped", "killed"), verdict.reason


def test_wait_and_resume_do_not_take_a_renamed_agent_for_an_ended_one(renamed: Stage) -> None:
    _, session_id = working(renamed)
    ran = agentctl_of(renamed, "wait", session_id, "--timeout", "1s")
    assert ran.code == 124, ("wait took it for ended", ran)
    ran = agentctl_of(renamed, "resume", session_id, "go on", "--dry-run")
    assert ran.code == 4, ("resume would start a second writer", ran)


def test_through_a_link_of_another_name(tmp_path: Path) -> None:
    """The table shows the link's name, /proc/PID/exe the binary's."""
    stage = named("codex")(tmp_path)
    try:
        real = stage.masked("vendor", "bin", "codex")
        link = stage.root / "cx"
        link.symlink_to(real)
        puppet = stage.start(environ={"PUPPET_ALIAS": "cx"})
        puppet.do("work")
        assert puppet.session_id is not None
        assert_listed(stage, puppet, puppet.session_id)
    finally:
        stage.close()


@pytest.mark.parametrize("alias", ["node", "nodejs", "bun"])
def test_claude_on_node(tmp_path: Path, alias: str) -> None:
    """Up to 2.1.112: a script on Node, which calls itself `claude` and overwrites its arguments."""
    stage = ClaudeStage(tmp_path)
    stage.alias = alias
    try:
        given = {"FAKE_ARGV": "claude", "FAKE_COMM": "claude", "FAKE_VERSION": "2.1.110"}
        puppet = stage.start(environ=given)
        puppet.do("work")
        assert puppet.session_id is not None
        assert_listed(stage, puppet, puppet.session_id)
    finally:
        stage.close()


def test_claude_inside_an_editor(tmp_path: Path) -> None:
    """The Agent SDK starts it with the editor's own binary, which is asked to be Node."""
    stage = ClaudeStage(tmp_path)
    stage.alias = "some-editor"
    try:
        given = {"FAKE_ARGV": "claude", "FAKE_COMM": "claude", "ELECTRON_RUN_AS_NODE": "1"}
        puppet = stage.start(environ={**given, **BARE})
        row = stage.row_of(puppet)
        assert row is not None, "it has no record yet: its title is all there is"
        without = stage.start(environ={"FAKE_ARGV": "claude", "FAKE_COMM": "claude", **BARE})
        assert stage.row_of(without) is None, "a stranger with that title"
    finally:
        stage.close()


def test_claude_before_it_kept_records(tmp_path: Path) -> None:
    """2.0: no record, no arguments. One transcript of its directory was written since it began."""
    stage = ClaudeStage(tmp_path)
    stage.alias = "node"
    try:
        puppet = stage.start(environ={"FAKE_ARGV": "claude", "FAKE_COMM": "claude"})
        puppet.do("work")
        stage.record(puppet).unlink()
        assert puppet.session_id is not None
        row = stage.row_of(puppet)
        assert row is not None
        assert (row.seen.session_id, row.verdict.status) == (puppet.session_id, "running")
        assert "inferred" in row.verdict.used[0].note
    finally:
        stage.close()


def test_claudes_own_grep_is_no_session(tmp_path: Path) -> None:
    """Its shell runs searches with Claude's own binary, under the name of the tool."""
    stage = ClaudeStage(tmp_path)
    try:
        binary = stage.masked(*stage.binary)
        given = {**stage.environ, **stage._interpreter()}
        for name in ("ugrep", "bfs", "rg"):
            with subprocess.Popen(
                [name, "-c", "input()"],
                executable=binary,
                env=given,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as tool:
                try:
                    wait_for_program(tool.pid)
                    assert stage.survey(Wanted()).sessions == [], name
                finally:
                    tool.communicate(b"\n", timeout=20)
    finally:
        stage.close()


def test_a_server_that_opencode_runs_with_its_own_binary_is_no_session(tmp_path: Path) -> None:
    stage = named("opencode")(tmp_path)
    try:
        binary = stage.masked("lib", "node_modules", "opencode-ai", "bin", "opencode.exe")
        given = {**stage.environ, **stage._interpreter(), "BUN_BE_BUN": "1"}
        with subprocess.Popen([binary, "-c", "input()"], env=given, stdin=subprocess.PIPE) as server:
            try:
                wait_for_program(server.pid)
                assert stage.survey(Wanted()).sessions == []
            finally:
                server.communicate(b"\n", timeout=20)
    finally:
        stage.close()


def test_whoever_writes_the_agents_files_may_run_an_open_turn(tmp_path: Path) -> None:
    """No name, no record and no lock tell of it. But before an open turn is called killed, everybody who
    has files of this agent open to write is looked for."""
    stage = named("codex")(tmp_path)
    try:
        puppet, session_id = working(stage)
        puppet.kill()
        assert stage.session(session_id).verdict.outcome == "killed"
        rollout = next(p for p in stage.records(puppet) if p.suffix == ".jsonl")
        with rollout.open("ab") as opened:  # whoever looks is not looked at: so a child has it open
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


def test_not_who_only_has_it_as_its_output(tmp_path: Path) -> None:
    """Codex' own updater has a log of Codex' as its standard error, which was given to it."""
    stage = named("codex")(tmp_path)
    try:
        puppet, session_id = working(stage)
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


def test_confinement_hides_a_live_agent_and_does_not_end_it(tmp_path: Path) -> None:
    """A variable of ours that leaks into a person's shell turns no live session into a dead one."""
    for adapter in NAMES:
        stage = named(adapter)(tmp_path / adapter)
        try:
            _, session_id = working(stage)
            answer = agentctl_json(stage, "list", "-a", AGENTCTL_CONFINE="A_LEAKED=export")
            rows = {row["id"]: row for row in answer["sessions"]}
            assert rows[session_id]["status"] == "unknown", rows[session_id]["reason"]
            assert "AGENTCTL_CONFINE" in rows[session_id]["reason"]
        finally:
            stage.close()


def test_an_interpreter_of_strangers_is_no_agent(tmp_path: Path) -> None:
    stage = ClaudeStage(tmp_path)
    stage.alias = "node"
    try:
        given = {**stage.environ, **stage._interpreter()}
        with subprocess.Popen(
            [stage.masked("bin", "x"), "-c", "input()"], env=given, stdin=subprocess.PIPE
        ) as stranger:
            try:
                wait_for_program(stranger.pid)
                assert stage.survey(Wanted()).sessions == []
            finally:
                stranger.communicate(b"\n", timeout=20)
    finally:
        stage.close()


def assert_listed(stage: Stage, puppet: Puppet, session_id: str) -> None:
    row = stage.row_of(puppet)
    assert row is not None, "a live agent is not listed"
    assert row.verdict.status in LIVE, row.verdict.reason
    rows = [s for s in stage.survey(Wanted()).sessions if s.seen.session_id == session_id]
    assert [r.verdict.status in LIVE for r in rows] == [True], [r.verdict.reason for r in rows]
    assert os.path.exists(f"/proc/{puppet.pid}")
