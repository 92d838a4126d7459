"""How Claude Code is started, resumed and ended: its plans, and what a launched one does."""

import json
import os
import uuid
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from agentctl.adapters.claude_code.adapter import ClaudeCode
from agentctl.adapters.plans import LaunchRequest
from agentctl.adapters.registry import find_adapters
from agentctl.errors import Refused, UsageError
from agentctl.truth.look import Look
from agentctl.truth.model import Facts, Launch, Observation
from agentctl.truth.survey import survey
from tests.fakes.claude import ClaudeStage
from tests.launched import PROMPTS, Launched
from tests.waiting import until

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")


STAGE = ClaudeStage


def make_request(home: Path, prompt: str = "paint", **more: object) -> LaunchRequest:
    return LaunchRequest(prompt, str(home), {"HOME": str(home)}, **more)  # type: ignore[arg-type]


class TestLaunch:
    def test_under_an_id_of_ours_with_the_prompt_on_standard_input(self, tmp_path: Path) -> None:
        command = ClaudeCode().launch(make_request(tmp_path, '--help "x"\n$(id)'))
        assert command.argv == ("claude", "-p", "--session-id", command.session_id)
        assert command.stdin == b'--help "x"\n$(id)'
        assert uuid.UUID(command.session_id).version == 4
        assert command.session_id != ClaudeCode().launch(make_request(tmp_path)).session_id

    def test_a_prompt_of_any_bytes(self, tmp_path: Path) -> None:
        assert ClaudeCode().launch(make_request(tmp_path, "\udcff")).stdin == b"\xff"

    def test_values_may_begin_with_a_dash(self, tmp_path: Path) -> None:
        request = make_request(tmp_path, model="-m", name="-n", native=("--", "-x"))
        assert ClaudeCode().launch(request).argv[4:] == ("--model=-m", "--name=-n", "--", "-x")

    @pytest.mark.parametrize("mode", sorted(set(ClaudeCode.permission_modes) - {"bypassPermissions"}))
    def test_permission_modes(self, tmp_path: Path, mode: str) -> None:
        words = ClaudeCode().launch(make_request(tmp_path, permission_mode=mode)).argv
        assert words[4:] == ("--permission-mode", mode)

    @ROOT
    def test_root_must_say_that_it_is_a_sandbox(self, tmp_path: Path) -> None:
        request = make_request(tmp_path, permission_mode="bypassPermissions")
        with pytest.raises(UsageError) as refused:
            ClaudeCode().launch(request)
        assert "IS_SANDBOX=1" in refused.value.hint
        command = ClaudeCode().launch(request._replace(environ={"IS_SANDBOX": "1"}))
        assert command.argv[4:] == ("--permission-mode", "bypassPermissions")
        assert command.set == ()

    def test_a_system_prompt_goes_by_a_file(self, tmp_path: Path) -> None:
        command = ClaudeCode().launch(make_request(tmp_path, system_prompt="ä\udcff", folder="/f"))
        assert command.argv[4:] == ("--append-system-prompt-file=/f/system-prompt",)
        assert command.files == (("system-prompt", b"\xc3\xa4\xff"),)

    @pytest.mark.parametrize("word", ["--session-id=x", "--resume", "-c", "--bg"])
    def test_which_session_it_runs_is_not_for_native_words(self, tmp_path: Path, word: str) -> None:
        with pytest.raises(UsageError, match=word.partition("=")[0]):
            ClaudeCode().launch(make_request(tmp_path, native=(word,)))


class TestResume:
    def make_observation(self, home: Path, cwd: Path | None) -> Observation:
        session_id = str(uuid.uuid4())
        path = f"{home}/.claude/projects/-x/{session_id}.jsonl"
        return Observation(
            "claude-code", session_id, (), Facts(cwd=str(cwd) if cwd else None), transcript=path
        )

    def test_by_its_id_in_its_directory(self, tmp_path: Path) -> None:
        there = tmp_path / "there"
        there.mkdir()
        observation = self.make_observation(tmp_path, there)
        command = ClaudeCode().resume(observation, make_request(tmp_path, "go on", model="m"))
        assert command.argv == ("claude", "-p", "--resume", observation.session_id, "--model=m")
        assert (command.stdin, command.cwd) == (b"go on", str(there))
        assert (command.session_id, command.set) == (observation.session_id, ())

    def test_below_the_directory_that_has_it(self, tmp_path: Path) -> None:
        observation = self.make_observation(tmp_path / "other", tmp_path)
        command = ClaudeCode().resume(observation, make_request(tmp_path))
        assert command.set == (("CLAUDE_CONFIG_DIR", f"{tmp_path}/other/.claude"),)

    def test_not_without_a_directory_or_a_transcript(self, tmp_path: Path) -> None:
        observation = self.make_observation(tmp_path, tmp_path / "gone")
        with pytest.raises(Refused, match="directory is gone"):
            ClaudeCode().resume(observation, make_request(tmp_path))
        with pytest.raises(Refused, match="no transcript to resume from"):
            ClaudeCode().resume(observation._replace(transcript=None), make_request(tmp_path))


class TestStopPlan:
    def test_an_interrupt_first_and_its_tools_by_name(self, stage: ClaudeStage) -> None:
        puppet = stage.start()
        puppet.do("work")
        session_id = puppet.session_id or ""
        plan = ClaudeCode().stop_plan(stage.session(session_id).observation)
        assert [number for number, _ in plan.signals] == [SIGINT, SIGTERM]
        assert plan.markers == (("CLAUDE_CODE_SESSION_ID", session_id),)
        assert plan.pid_markers == ("CLAUDE_PID",)
        assert plan.refusal == ""

    def test_a_background_job_is_for_its_supervisor(self, stage: ClaudeStage) -> None:
        puppet = stage.start(environ={"FAKE_KIND": "bg"})
        puppet.do("work")
        first = (puppet.session_id or "")[:8]
        for step in ("rest", "clear", "work"):
            puppet.do(step)
            plan = ClaudeCode().stop_plan(stage.session(puppet.session_id or "").observation)
            assert plan.signals == ()
            assert plan.instead == f"claude stop {first}"
        assert puppet.session_id is not None
        assert not puppet.session_id.startswith(first)

    def test_one_that_has_ended_needs_no_process(self) -> None:
        assert ClaudeCode().stop_plan(Observation("claude-code", None, ())).markers == ()


class TestLaunched:
    """Through the command line."""

    @pytest.fixture
    def claude(self, stage: ClaudeStage) -> Launched:
        return Launched(stage)

    def test_the_id_is_its_own_and_listed(self, claude: Launched, stage: ClaudeStage) -> None:
        session_id = claude.launch("late 0.5, work 600", "--name", "shed", "--model", "opus")
        (listed,) = claude.call("list", "--json").json()["sessions"]
        assert listed["id"] == session_id
        until(lambda: claude.read_session(session_id)["activity"] == "working", "its turn is open")
        owner = claude.owner(session_id)
        words = ("claude", "-p", "--session-id", session_id, "--model=opus", "--name=shed")
        assert owner.argv == words
        record = json.loads((stage.config / "sessions" / f"{owner.pid}.json").read_text())
        assert record["sessionId"] == session_id

    @pytest.mark.few(2)
    @pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
    def test_a_prompt_arrives_as_it_is(self, claude: Launched, prompt: str) -> None:
        session_id = claude.launch(f"{prompt}, work 600")
        until(lambda: claude.read_session(session_id)["activity"] == "working", "its turn is open")
        assert claude.read_texts(session_id) == [f"{prompt}, work 600"]
        assert prompt not in claude.owner(session_id).argv

    def test_it_gets_the_caller_s_environment_without_marks(
        self, claude: Launched, stage: ClaudeStage
    ) -> None:
        stage.environ |= {"CLAUDECODE": "1", "CLAUDE_CODE_CHILD_SESSION": "1", "GIT_EDITOR": "true"}
        stage.environ |= {"CLAUDE_CODE_USE_VERTEX": "1", "PI_SESSION_ID": "x"}
        session_id = claude.launch("work 600", "--env", "CLAUDE_PID=7")
        environ = claude.owner(session_id).environ()
        assert environ["CLAUDE_CODE_USE_VERTEX"] == "1"
        assert environ["CLAUDE_PID"] == "7"
        for name in ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "GIT_EDITOR", "PI_SESSION_ID"):
            assert name not in environ

    def test_an_unknown_permission_mode_lists_the_known_ones(self, claude: Launched) -> None:
        ran = claude.try_to_launch("work 600", "--permission-mode", "yolo")
        assert ran.code == 2
        assert "acceptEdits" in ran.err
        claude.assert_nothing_left()

    @pytest.mark.parametrize(
        ("prompt", "words"),
        [
            ("late 0.3, die error: unknown option", "unknown option"),
            ("login", "Not logged in"),
            ("model 0.5", "unrecognized_model"),
        ],
    )
    def test_a_start_that_fails_leaves_nothing(
        self, claude: Launched, stage: ClaudeStage, prompt: str, words: str
    ) -> None:
        stage.environ["AGENTCTL_SETTLE"] = "20s"
        ran = claude.try_to_launch(prompt)
        assert (ran.code, words in ran.err) == (1, True), ran.err
        assert "exit code 1" in ran.err
        claude.assert_nothing_left()

    def test_an_interrupt_is_no_success_though_its_code_is_0(self, claude: Launched) -> None:
        session_id = claude.launch("tool, work 600")
        claude.runs_a_tool()
        claude.end(session_id, SIGINT)
        assert claude.wait_for_end(session_id) == ("interrupted", 0)
        until(lambda: not claude.tools(), "it has ended its tool")

    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        ("number", "code"), [(SIGTERM, 143), (SIGHUP, 129), (SIGKILL, -9)], ids=["TERM", "HUP", "KILL"]
    )
    def test_a_kill(self, claude: Launched, number: Signals, code: int) -> None:
        session_id = claude.launch("tool, work 600")
        claude.runs_a_tool()
        claude.end(session_id, number)
        assert claude.wait_for_end(session_id) == ("killed", code)
        assert bool(claude.tools()) == (number == SIGKILL)
        again = claude.call("stop", session_id)
        assert again.code == 0, again.err
        assert not claude.tools()

    def test_ends_of_its_own(self, claude: Launched) -> None:
        assert claude.wait_for_end(claude.launch("work 0.5")) == ("completed", 0)
        assert claude.wait_for_end(claude.launch("work 0.5, fail")) == ("failed", 1)

    def test_stop_ends_it_and_its_tool(self, claude: Launched) -> None:
        session_id = claude.launch("tool, work 600")
        claude.runs_a_tool()
        ran = claude.call("stop", session_id)
        assert (ran.code, ran.err) == (0, "")
        assert "2 ended, 0 survivors" in ran.out
        assert claude.wait_for_end(session_id) == ("interrupted", 0)

    def test_a_resumed_one_goes_on_under_its_id(self, claude: Launched, stage: ClaudeStage) -> None:
        session_id = claude.launch("work 0.5")
        assert claude.wait_for_end(session_id) == ("completed", 0)
        ran = claude.call("resume", session_id, "work 600")
        assert (ran.code, ran.out.strip()) == (0, session_id), ran.err
        until(lambda: claude.read_session(session_id)["activity"] == "working", "its turn is open")
        assert claude.read_session(session_id)["cwd"] == str(stage.work)
        assert claude.read_texts(session_id)[-1] == "work 600"
        refused = claude.call("resume", session_id, "me too")
        assert refused.code == 4
        assert f"pid {claude.owner(session_id).pid}" in refused.err


def test_without_record_and_argument_our_note_binds(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={"FAKE_START": "bare"})
    note = Launch("l1", puppet.identity, str(uuid.uuid4()))
    look, adapters = Look.take(stage.environ), find_adapters([stage.adapter])
    (session,) = survey(look, adapters, notes=[note]).sessions
    assert session.observation.session_id == note.session_id
    assert session.verdict.status == "running"
    assert "launch note" in session.verdict.used[0].note


def test_the_last_line_before_a_resume_is_not_its_status(stage: ClaudeStage) -> None:
    """It would be called idle, though it has yet to read its prompt."""
    first = stage.start()
    first.do("work")
    first.do("rest")
    first.finish()
    argv = ("-p", "--resume", first.session_id or "")
    stage.start(resume=first.session_id, environ={"FAKE_START": "bare"}, argv=argv)
    verdict = stage.session(first.session_id or "").verdict
    assert (verdict.status, verdict.activity) == ("running", "unknown")


@pytest.mark.parametrize("size", [70_000, 300_000])
def test_a_long_system_prompt_hides_no_ending(stage: ClaudeStage, size: int) -> None:
    """Claude Code writes the system prompt once more between the last reply and the end."""
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    snapshot = {"parentUuid": None, "attachment": {"type": "prompt_snapshot", "text": "s" * size}}
    with stage.transcript(puppet.session_id).open("a") as file:
        file.write(json.dumps(snapshot, separators=(",", ":")) + "\n")
    puppet.finish()
    assert stage.session(puppet.session_id or "").verdict.outcome == "completed"
