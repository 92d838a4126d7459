"""How OpenCode is started, gone on with and ended: what is described, and what a launched one does."""

from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM

import pytest

from agentctl.adapters.opencode import OpenCode, start
from agentctl.adapters.plans import LaunchRequest
from agentctl.errors import Refused, UsageError
from agentctl.truth.model import Facts, Observation
from tests.fakes.opencode import OpenCodeStage, called

ALWAYS = ("opencode", "run", "--format", "json", "--print-logs", "--log-level", "INFO")
LOG = "timestamp=2026-11-15T10:05:59.176Z level=INFO run=5d22d89c message="
MADE = (
    f"{LOG}created id=ses_e215443f7ffer8yakobdoFZp5Z slug=curious-squid version=1.18.33 "
    "projectID=global directory=/work path=work workspaceID=undefined parentID=undefined agent=undefined"
)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[OpenCodeStage]:
    stage = OpenCodeStage(tmp_path)
    yield stage
    stage.close()


def asked(home: Path, cwd: Path, prompt: str = "paint", **more: object) -> LaunchRequest:
    return LaunchRequest(prompt, str(cwd), {"HOME": str(home)}, **more)  # type: ignore[arg-type]


class TestLaunch:
    def test_the_prompt_is_on_standard_input_alone(self, tmp_path: Path) -> None:
        command = OpenCode().launch(asked(tmp_path, tmp_path, '--help "x"\n$(id)'))
        assert command.argv == ALWAYS
        assert command.stdin == b'--help "x"\n$(id)'
        assert command.session_id is None

    def test_it_believes_pwd(self, tmp_path: Path) -> None:
        """A PWD that is not its directory, as a link to it is not, makes a session of another one."""
        link = tmp_path / "link"
        link.symlink_to(tmp_path)
        assert dict(OpenCode().launch(asked(tmp_path, link)).set) == {"PWD": str(tmp_path)}

    def test_its_words(self, tmp_path: Path) -> None:
        request = asked(
            tmp_path, tmp_path, model="fake/fake-1", name="a shed", permission_mode="plan",
            native=("--variant", "high"),
        )  # fmt: skip
        assert OpenCode().launch(request).argv == (
            *ALWAYS, "--model", "fake/fake-1", "--agent", "plan", "--variant", "high",
            "--title", "a shed",
        )  # fmt: skip
        automatic = OpenCode().launch(asked(tmp_path, tmp_path, permission_mode="auto"))
        assert automatic.argv == (*ALWAYS, "--auto")

    def test_a_model_without_a_provider(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="PROVIDER/MODEL"):
            OpenCode().launch(asked(tmp_path, tmp_path, model="fake-1"))

    def test_it_has_no_system_prompt_to_append_to(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no system prompt"):
            OpenCode().launch(asked(tmp_path, tmp_path, system_prompt="be brief"))


class TestAnnouncement:
    def test_the_log_tells_when_it_is_made(self) -> None:
        assert start.made(MADE.encode()) == "ses_e215443f7ffer8yakobdoFZp5Z"

    def test_a_sub_agent_s_is_not_it(self) -> None:
        assert start.made(MADE.replace("parentID=undefined", "parentID=ses_1").encode()) is None

    def test_words_in_a_line_are_no_announcement(self) -> None:
        for line in (b"", b"message=created id=ses_1 parentID=undefined", b'{"sessionID":7}', b"{"):
            assert start.made(line) is None
            assert start.goes_on(line) is None
        assert start.made(f"{LOG}loop session.id=ses_1 step=0".encode()) is None

    def test_its_output_tells_late(self) -> None:
        line = b'{"type":"error","sessionID":"ses_1","error":{"name":"APIError"}}'
        assert (start.made(line), start.goes_on(line)) == ("ses_1", "ses_1")

    def test_a_resumed_one_tells_when_it_goes_on(self) -> None:
        assert start.goes_on(f"{LOG}loop session.id=ses_1 step=0".encode()) == "ses_1"


class TestResume:
    def seen(self, home: Path, cwd: Path) -> Observation:
        database = f"{home}/.local/share/opencode/opencode.db"
        return Observation("opencode", "ses_1", (), Facts(cwd=str(cwd)), transcript=database)

    def test_in_its_directory_as_it_is_written_down(self, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(tmp_path)
        command = OpenCode().resume(self.seen(tmp_path, link), asked(tmp_path, Path("/"), "go on"))
        assert command.argv == (*ALWAYS, "--session", "ses_1")
        assert (command.cwd, command.stdin) == (str(link), b"go on")
        assert command.set == (("PWD", str(link)),)
        assert command.expected == "ses_1"

    def test_an_id_in_its_arguments_is_no_proof(self, tmp_path: Path) -> None:
        command = OpenCode().resume(self.seen(tmp_path, tmp_path), asked(tmp_path, tmp_path))
        assert command.session_id is None
        assert command.announced is start.goes_on

    def test_in_the_database_that_has_it(self, tmp_path: Path) -> None:
        command = OpenCode().resume(self.seen(tmp_path, tmp_path), asked(tmp_path / "other", tmp_path))
        assert dict(command.set)["OPENCODE_DB"] == f"{tmp_path}/.local/share/opencode/opencode.db"

    def test_one_whose_directory_is_gone_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Refused, match="directory is gone"):
            OpenCode().resume(self.seen(tmp_path, tmp_path / "gone"), asked(tmp_path, tmp_path))

    def test_one_from_before_the_database_is_refused(self, tmp_path: Path) -> None:
        seen = self.seen(tmp_path, tmp_path)._replace(
            transcript=f"{tmp_path}/storage/session/ses_1.json"
        )
        with pytest.raises(Refused, match=r"before OpenCode 1\.2"):
            OpenCode().resume(seen, asked(tmp_path, tmp_path))


class TestStopPlan:
    def test_a_signal_and_its_commands_by_its_pid(self, stage: OpenCodeStage) -> None:
        puppet = stage.run()
        puppet.do("work")
        plan = OpenCode().stop_plan(stage.session(puppet.session_id or "").seen)
        assert [number for number, _ in plan.signals] == [SIGTERM]
        assert plan.markers == (("OPENCODE_PID", str(puppet.pid)),)
        assert plan.refusal == ""

    def test_a_server_is_not_ended(self, stage: OpenCodeStage) -> None:
        puppet = stage.start(environ=called("serve", "--port", "0"))
        puppet.do("work")
        plan = OpenCode().stop_plan(stage.session(puppet.session_id or "").seen)
        assert (plan.signals, plan.markers) == ((), ())
        assert f"pid {puppet.pid}" in plan.refusal
        assert f"/session/{puppet.session_id}/abort" in plan.instead

    def test_one_that_has_ended_needs_no_process(self) -> None:
        assert OpenCode().stop_plan(Observation("opencode", "ses_1", ())).refusal == ""
