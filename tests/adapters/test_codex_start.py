"""How Codex is started, resumed and ended: its plans, and what a launched one does."""

import itertools
import json
import subprocess
import tomllib
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.codex import start
from agentctl.adapters.codex.adapter import Codex
from agentctl.adapters.plans import LaunchRequest
from agentctl.errors import Refused, StartFailed, UsageError
from agentctl.launch.order import StartRequest, prepare_order
from agentctl.launch.start import launch_agent
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.truth.model import Facts, Observation
from tests.fakes.codex import CodexStage, called, new_id
from tests.launched import PROMPTS, Launched
from tests.waiting import until

ALWAYS = ("--json", "--skip-git-repo-check", "-C")


STAGE = CodexStage


def make_request(home: Path, cwd: Path, prompt: str = "paint", **more: object) -> LaunchRequest:
    return LaunchRequest(prompt, str(cwd), {"HOME": str(home)}, **more)  # type: ignore[arg-type]


def settings(home: Path, text: str) -> None:
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(text)


def config_of(words: tuple[str, ...]) -> dict[str, object]:
    """What `-c` sets, as Codex reads it."""
    values: dict[str, object] = {}
    for before, word in itertools.pairwise(words):
        if before == "-c":
            values.update(tomllib.loads(word))
    return values


def _locks(process: Process) -> list[str]:
    now = proc.read_process(process.pid, process.identity.boot)
    return [path for path in now.list_open_files() if ".lock" in path]


class TestLaunch:
    def test_the_prompt_is_on_standard_input_alone(self, tmp_path: Path) -> None:
        command = Codex().launch(make_request(tmp_path, tmp_path, '--help "x"\n$(id)'))
        assert command.argv == ("codex", "exec", *ALWAYS, str(tmp_path), "-")
        assert command.stdin == b'--help "x"\n$(id)'
        assert command.cwd == str(tmp_path)
        assert command.session_id is None

    def test_a_prompt_of_any_bytes(self, tmp_path: Path) -> None:
        assert Codex().launch(make_request(tmp_path, tmp_path, "\udcff")).stdin == b"\xff"

    def test_native_words_stand_where_they_cannot_take_ours(self, tmp_path: Path) -> None:
        """`-i FILE…` takes every word up to the next option."""
        words = (
            Codex().launch(make_request(tmp_path, tmp_path, native=("-i", "a.png"), model="gpt-x")).argv
        )
        assert words[1:5] == ("exec", "-i", "a.png", "--json")
        assert words[-3:] == ("-m", "gpt-x", "-")

    @pytest.mark.parametrize("word", ["--ephemeral", "-C", "--cd=/x"])
    def test_which_session_it_runs_and_where_is_not_for_native_words(
        self, tmp_path: Path, word: str
    ) -> None:
        with pytest.raises(UsageError, match=word.partition("=")[0]):
            Codex().launch(make_request(tmp_path, tmp_path, native=(word,)))

    @pytest.mark.parametrize("mode", Codex.permission_modes)
    def test_permission_modes(self, tmp_path: Path, mode: str) -> None:
        words = Codex().launch(make_request(tmp_path, tmp_path, permission_mode=mode)).argv
        if mode == "approve-for-me":
            assert "--approve-for-me" in words
        else:
            assert words[words.index("-s") + 1] == mode

    def test_what_it_announces(self) -> None:
        thread = new_id()
        line = f'{{"type":"thread.started","thread_id":"{thread}"}}'.encode()
        assert start.read_id(line) == thread
        for other in (
            b"",
            b'{"type":"turn.started"}',
            b'{"type":"item.completed","item":{"text":"\\"thread.started\\"","thread_id":"x"}}',
            b'{"type":"thread.started","thread_id":7}',
            b"thread.started\xff",
        ):
            assert start.read_id(other) is None


class TestSystemPrompt:
    @given(st.text(st.characters(exclude_categories=["Cs"])))
    def test_any_text_is_what_codex_reads(self, text: str) -> None:
        assert tomllib.loads(f"x={start._toml(text)}") == {"x": text}

    def test_it_comes_after_the_user_s_own(self, tmp_path: Path) -> None:
        """Codex would put ours in the place of theirs."""
        settings(tmp_path, 'developer_instructions = "be brief"\n')
        words = Codex().launch(make_request(tmp_path, tmp_path, system_prompt='say "no"')).argv
        assert config_of(words) == {"developer_instructions": 'be brief\n\nsay "no"'}

    def test_broken_settings_are_left_for_codex_to_report(self, tmp_path: Path) -> None:
        settings(tmp_path, "developer_instructions = [")
        words = Codex().launch(make_request(tmp_path, tmp_path, system_prompt="x")).argv
        assert config_of(words) == {"developer_instructions": "x"}

    def test_one_too_long_for_an_argument(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="too long"):
            Codex().launch(make_request(tmp_path, tmp_path, system_prompt="x" * 200_000))


class TestTrust:
    """Codex notes for ever that it trusts a repository it was once let write to."""

    def is_trusted(self, home: Path, cwd: Path, mode: str | None) -> bool:
        words = Codex().launch(make_request(home, cwd, permission_mode=mode)).argv
        projects = config_of(words).get("projects")
        assert projects in (None, {str(cwd): {"trust_level": "trusted"}})
        return projects is not None

    @pytest.fixture(autouse=True)
    def _repository(self, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()

    def test_elsewhere_codex_notes_nothing(self, tmp_path: Path) -> None:
        (tmp_path / ".git").rmdir()
        assert not self.is_trusted(tmp_path, tmp_path, "workspace-write")

    def test_for_one_run_where_it_may_write(self, tmp_path: Path) -> None:
        assert self.is_trusted(tmp_path, tmp_path, "workspace-write")
        assert self.is_trusted(tmp_path, tmp_path, "danger-full-access")
        assert not self.is_trusted(tmp_path, tmp_path, "read-only")
        assert not self.is_trusted(tmp_path, tmp_path, None)

    def test_the_user_s_own_sandbox_counts(self, tmp_path: Path) -> None:
        settings(tmp_path, 'sandbox_mode = "workspace-write"\n')
        assert self.is_trusted(tmp_path, tmp_path, None)
        assert not self.is_trusted(tmp_path, tmp_path, "read-only")

    def test_a_decision_of_the_user_stands(self, tmp_path: Path) -> None:
        settings(tmp_path, f'[projects."{tmp_path}"]\ntrust_level = "untrusted"\n')
        assert not self.is_trusted(tmp_path, tmp_path, "workspace-write")

    def test_also_for_a_worktree_of_it(self, tmp_path: Path) -> None:
        main, tree = tmp_path / "main", tmp_path / "tree"
        (tree / "deep").mkdir(parents=True)
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        for words in (
            ("init", "-q", str(main)),
            ("-C", str(main), *who, "commit", "-q", "--allow-empty", "-m", "x"),
            ("-C", str(main), "worktree", "add", "-q", str(tree / "checkout")),
        ):
            subprocess.run(["git", *words], check=True, env={"HOME": str(tmp_path), "PATH": "/usr/bin"})
        checkout = tree / "checkout"
        assert self.is_trusted(tmp_path, checkout, "workspace-write")
        settings(tmp_path, f'[projects."{main}"]\ntrust_level = "untrusted"\n')
        assert not self.is_trusted(tmp_path, checkout, "workspace-write")
        assert not self.is_trusted(tmp_path, main, "workspace-write")
        assert self.is_trusted(tmp_path, tree / "deep", "workspace-write")


class TestResume:
    def make_observation(self, home: Path, cwd: Path | None, folder: str = "sessions") -> Observation:
        thread = new_id()
        path = f"{home}/.codex/{folder}/2026/11/15/rollout-2026-11-15T04-53-22-{thread}.jsonl"
        facts = Facts(cwd=str(cwd) if cwd else None, model="gpt-then")
        return Observation("codex", thread, (), facts, transcript=path)

    def test_by_its_id_in_its_directory_with_its_model(self, tmp_path: Path) -> None:
        observation = self.make_observation(tmp_path, tmp_path)
        command = Codex().resume(observation, make_request(tmp_path, Path("/"), "go on"))
        assert command.argv[:-1] == (
            "codex", "exec", *ALWAYS, str(tmp_path), "-m", "gpt-then", "resume", observation.session_id,
        )  # fmt: skip
        assert (command.argv[-1], command.stdin, command.cwd) == ("-", b"go on", str(tmp_path))
        assert (command.session_id, command.expected_id) == (None, observation.session_id)
        assert command.set == ()

    def test_with_another_model_when_asked(self, tmp_path: Path) -> None:
        command = Codex().resume(
            self.make_observation(tmp_path, None), make_request(tmp_path, tmp_path, model="gpt-now")
        )
        assert command.argv[-5:-3] == ("-m", "gpt-now")
        assert command.cwd == str(tmp_path)

    def test_in_the_home_that_has_it(self, tmp_path: Path) -> None:
        command = Codex().resume(
            self.make_observation(tmp_path, tmp_path), make_request(tmp_path / "other", tmp_path)
        )
        assert command.set == (("CODEX_HOME", f"{tmp_path}/.codex"),)

    def test_an_archived_one_is_refused(self, tmp_path: Path) -> None:
        observation = self.make_observation(tmp_path, tmp_path, "archived_sessions")
        with pytest.raises(Refused, match="archived") as refused:
            Codex().resume(observation, make_request(tmp_path, tmp_path))
        assert refused.value.hint == f"codex unarchive {observation.session_id}"

    def test_one_whose_directory_is_gone_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Refused, match="directory is gone"):
            Codex().resume(
                self.make_observation(tmp_path, tmp_path / "gone"), make_request(tmp_path, tmp_path)
            )


class TestStopPlan:
    def test_an_interrupt_first_and_its_tools_by_name(self, stage: CodexStage) -> None:
        puppet = stage.start(environ=called("exec", "--json", "-"))
        puppet.do("work")
        session_id = puppet.session_id or ""
        plan = Codex().stop_plan(stage.session(session_id).observation)
        assert [number for number, _ in plan.signals] == [SIGINT, SIGTERM]
        assert ("CODEX_SESSION_ID", session_id) in plan.markers
        assert plan.refusal == ""

    @pytest.mark.parametrize(
        ("words", "who"),
        [(("--listen", "unix://", "--managed-daemon"), "daemon"), ((), "app server")],
    )
    def test_a_shared_server_is_not_ended(
        self, stage: CodexStage, words: tuple[str, ...], who: str
    ) -> None:
        puppet = stage.start(environ=called("app-server", *words))
        puppet.do("work")
        plan = Codex().stop_plan(stage.session(puppet.session_id or "").observation)
        assert plan.signals == ()
        assert who in plan.refusal
        assert f"pid {puppet.pid}" in plan.refusal
        assert plan.instead

    def test_one_that_has_ended_needs_no_process(self) -> None:
        assert Codex().stop_plan(Observation("codex", "x", ())).refusal == ""


class TestLaunched:
    """Through the command line, with a Codex behind its launcher."""

    @pytest.fixture
    def codex(self, stage: CodexStage) -> Launched:
        return Launched(stage)

    def test_the_id_is_the_thread_s_and_its_owner_the_native_process(
        self, codex: Launched, stage: CodexStage
    ) -> None:
        session_id = codex.launch("late 0.5, work 600", "--name", "shed")
        assert stage.rollout(session_id).exists()
        session = codex.read_session(session_id)
        assert (session["status"], session["activity"], session["launch"]["name"]) == (
            "running", "working", "shed",
        )  # fmt: skip
        assert codex.owner(session_id).comm == "codex"
        (listed,) = codex.call("list", "--json").json()["sessions"]
        assert listed["id"] == session_id

    @pytest.mark.few(2)
    @pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
    def test_a_prompt_arrives_as_it_is(self, codex: Launched, prompt: str) -> None:
        session_id = codex.launch(f"{prompt}, work 600")
        assert codex.read_texts(session_id) == [f"{prompt}, work 600"]
        assert prompt not in codex.owner(session_id).argv

    def test_a_start_that_fails_leaves_nothing(self, codex: Launched) -> None:
        ran = codex.try_to_launch("die Error: Model provider `nope` not found")
        assert ran.code == 1
        assert "exit code 1" in ran.err
        assert "Model provider `nope` not found" in ran.err
        codex.assert_nothing_left()

    def test_an_interrupt(self, codex: Launched) -> None:
        session_id = codex.launch("tool, work 600")
        codex.runs_a_tool()
        codex.end(session_id, SIGINT)
        assert codex.wait_for_end(session_id) == ("interrupted", 1)
        until(lambda: not codex.tools(), "it has ended its tool")

    def test_an_error_of_the_model_s(self, codex: Launched) -> None:
        session_id = codex.launch("work 1, fail")
        assert codex.wait_for_end(session_id) == ("failed", 1)

    @pytest.mark.parametrize("number", [SIGTERM, SIGKILL])
    def test_a_kill_leaves_its_tools_alive(self, codex: Launched, number: Signals) -> None:
        session_id = codex.launch("tool, work 600")
        codex.runs_a_tool()
        codex.end(session_id, number)
        assert codex.wait_for_end(session_id) == ("killed", -number)
        assert codex.tools()
        again = codex.call("stop", session_id)
        assert again.code == 0, again.err
        assert not codex.tools()

    def test_stop_ends_wrapper_agent_and_tool(self, codex: Launched) -> None:
        session_id = codex.launch("tool, work 600")
        codex.runs_a_tool()
        ran = codex.call("stop", session_id)
        assert (ran.code, ran.err) == (0, "")
        assert "3 ended, 0 survivors" in ran.out
        assert codex.wait_for_end(session_id) == ("interrupted", 1)
        until(lambda: not codex.stage.processes(), "nothing runs")

    def test_the_turn_is_over_when_the_thread_is_released(self, codex: Launched) -> None:
        session_id = codex.launch("work 1, linger 600")
        until(lambda: codex.read_session(session_id)["status"] == "idle", "its turn is over")
        assert codex.owner(session_id).is_alive

    @pytest.mark.parametrize(
        ("ending", "status"), [("work 0.1, fade 600", "idle"), ("work 0.1, void 600", "running")]
    )
    def test_the_last_moments_are_not_its_end(self, codex: Launched, ending: str, status: str) -> None:
        """It lives for some 30 ms without its lock, and without any descriptor while it is killed: our
        own note ties it to its session then; the process alone would be another row."""
        session_id = codex.launch(ending, "--group", "g")
        owner = codex.owner(session_id)
        until(lambda: not _locks(owner), "it holds nothing")
        (session,) = json.loads(codex.call("list", "-a", "--group", "g", "--json").out)["sessions"]
        assert (session["id"], session["status"], session["outcome"]) == (session_id, status, None)
        assert "bound by launch note" in session["evidence"][0]["note"]

    def test_a_resumed_one_goes_on_under_its_id(self, codex: Launched, tmp_path: Path) -> None:
        session_id = codex.launch("exit 0")
        assert codex.wait_for_end(session_id) == ("completed", 0)
        ran = codex.call("resume", session_id, "work 600")
        assert (ran.code, ran.out.strip()) == (0, session_id), ran.err
        session = codex.read_session(session_id)
        assert (session["status"], session["cwd"]) == ("running", str(codex.stage.work))
        refused = codex.call("resume", session_id, "me too")
        assert refused.code == 4
        assert f"pid {session['pid']}" in refused.err

    def test_a_resume_that_fails_loses_nothing(self, codex: Launched, stage: CodexStage) -> None:
        session_id = codex.launch("exit 0")
        codex.wait_for_end(session_id)
        before = stage.rollout(session_id).read_bytes()
        ran = codex.call("resume", session_id, "die Error: thread is archived")
        assert ran.code == 1
        assert "thread is archived" in ran.err
        assert codex.wait_for_end(session_id) == ("completed", 0)
        assert CodexStage.rollout(codex.stage, session_id).read_bytes() == before  # type: ignore[arg-type]

    def test_a_new_thread_instead_of_the_old_one_is_no_success(self, codex: Launched) -> None:
        """What Codex does with a name that it does not know."""
        thread = new_id()
        wish = StartRequest("codex", "work 600", str(codex.stage.work))
        order = prepare_order(wish, codex.stage.environ)
        words = (*order.command.argv[:-1], "resume", "no-such-thread", "-")
        trap = order._replace(command=order.command._replace(argv=words, expected_id=thread))
        with pytest.MonkeyPatch.context() as patch:
            for name, value in codex.stage.environ.items():
                patch.setenv(name, value)
            with pytest.raises(StartFailed, match=f"instead of {thread}"):
                launch_agent(codex.stage.environ["AGENTCTL_HOME"], trap)
        codex.assert_nothing_left()
