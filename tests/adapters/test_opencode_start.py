"""How OpenCode is started, resumed and ended: its plans, and what a launched one does."""

import json
import shutil
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from agentctl.adapters.opencode import start
from agentctl.adapters.opencode.adapter import OpenCode
from agentctl.adapters.plans import LaunchRequest
from agentctl.errors import Refused, UsageError
from agentctl.stop.plan import make_plan
from agentctl.truth.model import Facts, Observation
from tests.fakes.opencode import OpenCodeStage, called
from tests.launched import PROMPTS, Launched
from tests.waiting import until

ALWAYS = ("opencode", "run", "--format", "json", "--print-logs", "--log-level", "INFO")
LOG = "timestamp=2026-11-15T10:05:59.176Z level=INFO run=5d22d89c message="
CREATED = (
    f"{LOG}created id=ses_e215443f7ffer8yakobdoFZp5Z slug=curious-squid version=1.18.33 "
    "projectID=global directory=/work path=work workspaceID=undefined parentID=undefined agent=undefined"
)


STAGE = OpenCodeStage


def make_request(home: Path, cwd: Path, prompt: str = "paint", **more: object) -> LaunchRequest:
    return LaunchRequest(prompt, str(cwd), {"HOME": str(home)}, **more)  # type: ignore[arg-type]


class TestLaunch:
    def test_the_prompt_is_on_standard_input_alone(self, tmp_path: Path) -> None:
        command = OpenCode().launch(make_request(tmp_path, tmp_path, '--help "x"\n$(id)'))
        assert command.argv == ALWAYS
        assert command.stdin == b'--help "x"\n$(id)'
        assert command.session_id is None

    def test_it_believes_pwd(self, tmp_path: Path) -> None:
        """A PWD that is not its directory, as a link to it is not, makes a session of another one."""
        link = tmp_path / "link"
        link.symlink_to(tmp_path)
        assert dict(OpenCode().launch(make_request(tmp_path, link)).set) == {"PWD": str(tmp_path)}

    def test_its_words(self, tmp_path: Path) -> None:
        request = make_request(
            tmp_path, tmp_path, model="fake/fake-1", name="a shed", permission_mode="plan",
            native=("--variant", "high"),
        )  # fmt: skip
        assert OpenCode().launch(request).argv == (
            *ALWAYS, "--model", "fake/fake-1", "--agent", "plan", "--variant", "high",
            "--title=a shed",
        )  # fmt: skip
        automatic = OpenCode().launch(make_request(tmp_path, tmp_path, permission_mode="auto"))
        assert automatic.argv == (*ALWAYS, "--auto")

    @pytest.mark.parametrize("word", ["--session=x", "-s", "-c", "--attach", "--dir"])
    def test_which_session_it_runs_and_where_is_not_for_native_words(
        self, tmp_path: Path, word: str
    ) -> None:
        with pytest.raises(UsageError, match=word.partition("=")[0]):
            OpenCode().launch(make_request(tmp_path, tmp_path, native=(word,)))

    def test_a_model_without_a_provider(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="PROVIDER/MODEL"):
            OpenCode().launch(make_request(tmp_path, tmp_path, model="fake-1"))

    def test_a_system_prompt_is_a_file_named_in_the_settings_of_this_run(self, tmp_path: Path) -> None:
        request = make_request(tmp_path, tmp_path, system_prompt="be brief")._replace(folder="/f")
        command = OpenCode().launch(request)
        assert command.files == (("instructions.md", b"be brief"),)
        assert json.loads(dict(command.override)["OPENCODE_CONFIG_CONTENT"]) == {
            "instructions": ["/f/instructions.md"]
        }
        theirs = {"OPENCODE_CONFIG_CONTENT": '{"model": "a/b", "instructions": ["/theirs"]}'}
        beside = OpenCode().launch(request._replace(environ=theirs))
        assert json.loads(dict(beside.override)["OPENCODE_CONFIG_CONTENT"]) == {
            "model": "a/b", "instructions": ["/theirs", "/f/instructions.md"],
        }  # fmt: skip
        with pytest.raises(UsageError, match="not a JSON object"):
            OpenCode().launch(request._replace(environ={"OPENCODE_CONFIG_CONTENT": "["}))


class TestAnnouncement:
    def test_the_log_announces_a_new_session(self) -> None:
        assert start.read_created(CREATED.encode()) == "ses_e215443f7ffer8yakobdoFZp5Z"

    def test_a_sub_agent_s_is_not_it(self) -> None:
        assert (
            start.read_created(CREATED.replace("parentID=undefined", "parentID=ses_1").encode()) is None
        )

    def test_words_in_a_line_are_no_announcement(self) -> None:
        for line in (b"", b"message=created id=ses_1 parentID=undefined", b'{"sessionID":7}', b"{"):
            assert start.read_created(line) is None
            assert start.read_resumed(line) is None
        assert start.read_created(f"{LOG}loop session.id=ses_1 step=0".encode()) is None

    def test_its_output_announces_it_later(self) -> None:
        line = b'{"type":"error","sessionID":"ses_1","error":{"name":"APIError"}}'
        assert (start.read_created(line), start.read_resumed(line)) == ("ses_1", "ses_1")

    def test_a_resumed_one_is_announced_by_its_first_step(self) -> None:
        assert start.read_resumed(f"{LOG}loop session.id=ses_1 step=0".encode()) == "ses_1"


class TestResume:
    def make_observation(self, home: Path, cwd: Path) -> Observation:
        database = f"{home}/.local/share/opencode/opencode.db"
        return Observation("opencode", "ses_1", (), Facts(cwd=str(cwd)), transcript=database)

    def test_in_its_directory_as_it_is_written_down(self, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(tmp_path)
        command = OpenCode().resume(
            self.make_observation(tmp_path, link), make_request(tmp_path, Path("/"), "go on")
        )
        assert command.argv == (*ALWAYS, "--session", "ses_1")
        assert (command.cwd, command.stdin) == (str(link), b"go on")
        assert command.set == (("PWD", str(link)),)
        assert command.expected_id == "ses_1"

    def test_an_id_in_its_arguments_is_no_proof(self, tmp_path: Path) -> None:
        command = OpenCode().resume(
            self.make_observation(tmp_path, tmp_path), make_request(tmp_path, tmp_path)
        )
        assert command.session_id is None
        assert command.read_id is start.read_resumed

    def test_in_the_database_that_has_it(self, tmp_path: Path) -> None:
        command = OpenCode().resume(
            self.make_observation(tmp_path, tmp_path), make_request(tmp_path / "other", tmp_path)
        )
        assert dict(command.set)["OPENCODE_DB"] == f"{tmp_path}/.local/share/opencode/opencode.db"

    def test_one_whose_directory_is_gone_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Refused, match="directory is gone"):
            OpenCode().resume(
                self.make_observation(tmp_path, tmp_path / "gone"), make_request(tmp_path, tmp_path)
            )

    def test_one_from_before_the_database_is_refused(self, tmp_path: Path) -> None:
        observation = self.make_observation(tmp_path, tmp_path)._replace(
            transcript=f"{tmp_path}/storage/session/ses_1.json"
        )
        with pytest.raises(Refused, match=r"before OpenCode 1\.2"):
            OpenCode().resume(observation, make_request(tmp_path, tmp_path))


class TestStopPlan:
    def test_a_signal_and_its_commands_by_its_pid(self, stage: OpenCodeStage) -> None:
        puppet = stage.run()
        puppet.do("work")
        plan = OpenCode().stop_plan(stage.session(puppet.session_id or "").observation)
        assert [number for number, _ in plan.signals] == [SIGTERM]
        assert (plan.markers, plan.pid_markers) == ((), ("OPENCODE_PID",))
        assert plan.refusal == ""

    def test_a_server_is_not_ended(self, stage: OpenCodeStage) -> None:
        puppet = stage.start(environ=called("serve", "--port", "0"))
        puppet.do("work")
        plan = OpenCode().stop_plan(stage.session(puppet.session_id or "").observation)
        assert f"pid {puppet.pid}" in plan.refusal
        assert f"/session/{puppet.session_id}/abort" in plan.instead

    def test_ending_a_server_ends_all_its_commands(self, stage: OpenCodeStage) -> None:
        """At SIGINT it would stay if it was started in the background of a shell."""
        puppet = stage.start(environ=called("serve", "--port", "0"))
        puppet.do("work")
        session = stage.session(puppet.session_id or "")
        plan = make_plan(session, [session], whole_owner=True)
        assert [number for number, _ in plan.signals] == [SIGTERM]
        assert (plan.markers, plan.pid_markers) == ((), ("OPENCODE_PID",))

    def test_one_that_has_ended_needs_no_process(self) -> None:
        assert OpenCode().stop_plan(Observation("opencode", "ses_1", ())).refusal == ""


class TestLaunched:
    """Through the command line."""

    @pytest.fixture
    def opencode(self, stage: OpenCodeStage) -> Launched:
        return Launched(stage)

    def test_the_id_is_the_session_s_own(self, opencode: Launched) -> None:
        session_id = opencode.launch("late 0.5, work 600", "--name", "shed")
        assert session_id.startswith("ses_")
        until(lambda: opencode.read_session(session_id)["activity"] == "working", "its turn is open")
        session = opencode.read_session(session_id)
        assert (session["status"], session["title"], session["cwd"]) == (
            "running", "shed", str(opencode.stage.work),
        )  # fmt: skip
        (listed,) = opencode.call("list", "--json").json()["sessions"]
        assert listed["id"] == session_id

    def test_its_directory_is_the_one_given_with_cwd(self, opencode: Launched, tmp_path: Path) -> None:
        """Whatever PWD the caller has."""
        link = tmp_path / "link"
        link.symlink_to(opencode.stage.work)
        session_id = opencode.launch("work 600", cwd=link)
        assert opencode.read_session(session_id)["cwd"] == str(opencode.stage.work)

    def test_two_in_one_directory_are_told_apart(self, opencode: Launched) -> None:
        ids = [opencode.launch("work 600"), opencode.launch("work 600", "--force")]
        listed = opencode.call("list", "--json").json()["sessions"]
        assert {(session["id"], session["status"]) for session in listed} == {
            (session_id, "running") for session_id in ids
        }
        assert len({session["pid"] for session in listed}) == 2

    @pytest.mark.few(2)
    @pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
    def test_a_prompt_arrives_as_it_is(self, opencode: Launched, prompt: str) -> None:
        session_id = opencode.launch(f"{prompt}, work 600")
        until(lambda: bool(opencode.read_texts(session_id)), "it is written down")
        assert opencode.read_texts(session_id) == [f"{prompt}, work 600"]
        assert prompt not in opencode.owner(session_id).argv

    def test_without_our_notes_it_is_bound_all_the_same(self, opencode: Launched) -> None:
        session_id = opencode.launch("work 600")
        shutil.rmtree(opencode.stage.environ["AGENTCTL_HOME"])
        session = opencode.read_session(session_id)
        assert (session["status"], session["launch"]) == ("running", None)

    def test_a_model_that_does_not_exist(self, opencode: Launched) -> None:
        """It has a session, and a prompt in it: whether we see it live is a matter of luck."""
        ran = opencode.try_to_launch("x", "--model", "fake/nope")
        if ran.code == 0:
            assert opencode.wait_for_end(ran.out.strip()) == ("failed", 1)
        else:
            assert "exit code 1" in ran.err
            opencode.assert_nothing_left()

    def test_a_start_that_fails_leaves_nothing(self, opencode: Launched) -> None:
        ran = opencode.try_to_launch("die Failed to change directory")
        assert ran.code == 1
        assert "exit code 1" in ran.err
        assert "Failed to change directory" in ran.err
        opencode.assert_nothing_left()

    def test_an_error_of_the_model_s(self, opencode: Launched) -> None:
        session_id = opencode.launch("work 1, fail")
        assert opencode.wait_for_end(session_id) == ("failed", 1)

    @pytest.mark.few(1)
    @pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGKILL])
    def test_any_signal_kills_it_and_leaves_its_commands(
        self, opencode: Launched, number: Signals
    ) -> None:
        session_id = opencode.launch("tool, work 600")
        opencode.runs_a_tool()
        opencode.end(session_id, number)
        assert opencode.wait_for_end(session_id) == ("killed", -number)
        assert opencode.tools()
        again = opencode.call("stop", session_id)
        assert again.code == 0, again.err
        assert not opencode.tools()

    def test_stop_ends_agent_and_command(self, opencode: Launched) -> None:
        session_id = opencode.launch("tool, work 600")
        opencode.runs_a_tool()
        ran = opencode.call("stop", session_id)
        assert (ran.code, ran.err) == (0, "")
        assert "2 ended, 0 survivors" in ran.out
        assert opencode.wait_for_end(session_id) == ("killed", -SIGTERM)
        until(lambda: not opencode.stage.processes(), "nothing runs")

    def test_a_resumed_one_goes_on_in_its_directory(self, opencode: Launched, tmp_path: Path) -> None:
        """From anywhere, and with any PWD: elsewhere OpenCode would work in silence, for ever."""
        session_id = opencode.launch("exit 0")
        assert opencode.wait_for_end(session_id) == ("completed", 0)
        ran = opencode.call("resume", session_id, "exit 0", PWD=str(tmp_path))
        assert (ran.code, ran.out.strip()) == (0, session_id), ran.err
        assert opencode.wait_for_end(session_id) == ("completed", 0)
        assert opencode.read_texts(session_id).count("exit 0") == 2

    def test_a_live_one_is_refused(self, opencode: Launched) -> None:
        session_id = opencode.launch("work 600")
        refused = opencode.call("resume", session_id, "me too")
        assert refused.code == 4
        assert f"pid {opencode.read_session(session_id)['pid']}" in refused.err

    def test_one_that_opencode_does_not_find(self, opencode: Launched) -> None:
        """Its id is in the arguments of the process that looks for it: that is no success."""
        session_id = opencode.launch("exit 0")
        opencode.wait_for_end(session_id)
        ran = opencode.call("resume", session_id, "late 1, die Error: Session not found")
        assert ran.code == 1
        assert "Session not found" in ran.err
        assert opencode.wait_for_end(session_id) == ("completed", 0)

    def test_beside_one_that_agentctl_did_not_start(self, opencode: Launched) -> None:
        """Directory and time do not tell the two apart any more; our launch note does."""
        stage = opencode.stage
        assert isinstance(stage, OpenCodeStage)
        other = stage.run()
        other.do("work")
        session_id = opencode.launch("work 600")
        assert session_id != other.session_id
        assert opencode.read_session(session_id)["status"] == "running"
