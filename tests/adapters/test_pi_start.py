"""How Pi is started, resumed and ended: its plans, and what a launched one does."""

from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from agentctl.adapters.pi.adapter import Pi
from agentctl.adapters.pi.start import Announcement
from agentctl.adapters.plans import LaunchRequest
from agentctl.adapters.registry import find_adapters
from agentctl.errors import Refused, UsageError
from agentctl.truth.look import Look
from agentctl.truth.model import Facts, Launch, Observation
from agentctl.truth.survey import survey
from tests.fakes.pi import PiStage
from tests.launched import PROMPTS, Launched
from tests.waiting import until

OLD = "0.73"
ALWAYS = ("pi", "--mode", "json", "-p")
SESSION = (
    b'{"type":"session","version":3,"id":"01a1","timestamp":"2026-11-15T10:24:41.870Z","cwd":"/x"}\n'
)


STAGE = PiStage


def make_request(home: Path, prompt: str = "paint", **more: object) -> LaunchRequest:
    return LaunchRequest(prompt, str(home), {"HOME": str(home)}, **more)  # type: ignore[arg-type]


class TestLaunch:
    def test_the_prompt_is_on_standard_input_alone(self, tmp_path: Path) -> None:
        command = Pi().launch(make_request(tmp_path, "@note.txt --help"))
        assert command.argv == ALWAYS
        assert command.stdin == b"@note.txt --help"
        assert (command.cwd, command.session_id) == (str(tmp_path), None)

    def test_the_options_of_a_launch(self, tmp_path: Path) -> None:
        request = make_request(
            tmp_path, model="fake/x", system_prompt="ä", native=("--thinking", "high")
        )
        command = Pi().launch(request._replace(name="shed", folder="/f"))
        assert command.argv[4:] == (
            "--model", "fake/x", "--append-system-prompt", "/f/system-prompt", "--thinking", "high",
        )  # fmt: skip
        assert command.files == (("system-prompt", "ä".encode()),)

    @pytest.mark.parametrize("word", ["--session-id=x", "--session", "-c", "--mode", "--no-session"])
    def test_which_session_it_runs_is_not_for_native_words(self, tmp_path: Path, word: str) -> None:
        with pytest.raises(UsageError, match=word.partition("=")[0]):
            Pi().launch(make_request(tmp_path, native=(word,)))


class TestAnnouncement:
    def read_ids(self, *lines: bytes) -> list[str | None]:
        announced = Announcement()
        return [announced(line) for line in lines]

    def test_its_id_counts_once_it_goes_on(self) -> None:
        """Without a key Pi announces the id and dies."""
        warning = b"Warning: using a custom model id\n"
        lines = (warning, SESSION, warning, b'{"type":"agent_start"}\n', b'{"type":"turn_start"}\n')
        assert self.read_ids(*lines) == [None, None, None, "01a1", "01a1"]

    def test_a_later_line_is_not_an_announcement(self) -> None:
        assert (
            self.read_ids(b'{"type":"message_start","id":"9"}\n', b"{half", b"[]\n", b"\xff\n")
            == [None] * 4
        )


class TestResume:
    def make_observation(self, home: Path, cwd: Path) -> Observation:
        path = f"{home}/.pi/agent/sessions/--x--/2026-11-15T10-24-41-870Z_01a1.jsonl"
        return Observation("pi", "01a1", (), Facts(cwd=str(cwd)), transcript=path)

    def test_by_its_file_in_its_directory(self, tmp_path: Path) -> None:
        there = tmp_path / "there"
        there.mkdir()
        observation = self.make_observation(tmp_path, there)
        command = Pi().resume(observation, make_request(tmp_path, "go on"))
        assert command.argv == (*ALWAYS, "--session", observation.transcript)
        assert (command.stdin, command.cwd, command.expected_id) == (b"go on", str(there), "01a1")

    def test_not_without_a_directory_or_a_file(self, tmp_path: Path) -> None:
        observation = self.make_observation(tmp_path, tmp_path / "gone")
        with pytest.raises(Refused, match="directory is gone"):
            Pi().resume(observation, make_request(tmp_path))
        with pytest.raises(Refused, match="no transcript to resume from"):
            Pi().resume(observation._replace(transcript=None), make_request(tmp_path))


def test_the_stop_plan_has_no_interrupt() -> None:
    """An interrupt would leave its tools running."""
    plan = Pi().stop_plan(Observation("pi", "01a1", ()))
    assert [number for number, _ in plan.signals] == [SIGTERM]
    assert plan.markers == (("PI_SESSION_ID", "01a1"),)
    assert Pi().stop_plan(Observation("pi", None, ())).markers == ()


class TestLaunched:
    """Through the command line."""

    @pytest.fixture
    def pi(self, stage: PiStage) -> Launched:
        return Launched(stage)

    def test_the_id_is_its_own_and_listed(self, pi: Launched, stage: PiStage) -> None:
        session_id = pi.launch("late 0.5, work 600", "--name", "shed")
        (listed,) = pi.call("list", "--json").json()["sessions"]
        assert listed["id"] == session_id
        until(lambda: pi.owner(session_id).argv == ("pi",), "it has erased its arguments")
        session = pi.read_session(session_id)
        assert (session["status"], session["activity"], session["entry_point"]) == (
            "running", "working", "headless",
        )  # fmt: skip
        assert [path for path in stage.files() if session_id in path.name]

    def test_an_old_one_is_listed_before_it_has_a_file(self, pi: Launched, stage: PiStage) -> None:
        stage.environ["PUPPET_PI"] = OLD
        one, two = pi.launch("work 600"), pi.launch("work 600", "--force")
        assert stage.files() == []
        listed = {s["id"]: s["status"] for s in pi.call("list", "--json").json()["sessions"]}
        assert listed == {one: "running", two: "running"}

    def test_an_old_one_is_idle_when_its_file_says_so(self, pi: Launched, stage: PiStage) -> None:
        stage.environ["PUPPET_PI"] = OLD
        session_id = pi.launch("work 0.5, rest")
        until(lambda: pi.read_session(session_id)["status"] == "idle", "its turn is over")

    @pytest.mark.few(2)
    @pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
    def test_a_prompt_arrives_as_it_is(self, pi: Launched, prompt: str) -> None:
        session_id = pi.launch(f"{prompt}, work 600")
        assert f"{prompt}, work 600" in pi.read_texts(session_id)

    @pytest.mark.parametrize("prompt", ["die Error: Unknown provider", "login"])
    def test_a_start_that_fails_leaves_nothing(self, pi: Launched, prompt: str) -> None:
        ran = pi.try_to_launch(prompt)
        assert ran.code == 1
        assert "exit code 1" in ran.err
        assert ("Unknown provider" if prompt != "login" else "No API key found") in ran.err
        pi.assert_nothing_left()

    def test_it_has_no_permission_modes(self, pi: Launched) -> None:
        assert pi.try_to_launch("work 600", "--permission-mode", "plan").code == 2
        pi.assert_nothing_left()

    def test_an_error_of_the_model_s_is_no_success_though_its_code_is_0(self, pi: Launched) -> None:
        assert pi.wait_for_end(pi.launch("work 0.5, fail")) == ("failed", 0)

    def test_a_good_end(self, pi: Launched) -> None:
        assert pi.wait_for_end(pi.launch("work 0.5")) == ("completed", 0)

    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        ("number", "code", "leaves"),
        [(SIGINT, -2, True), (SIGTERM, 143, False), (SIGHUP, 129, False), (SIGKILL, -9, True)],
        ids=["INT", "TERM", "HUP", "KILL"],
    )
    def test_a_kill(self, pi: Launched, number: Signals, code: int, leaves: bool) -> None:
        session_id = pi.launch("tool, work 600")
        pi.runs_a_tool()
        pi.end(session_id, number)
        assert pi.wait_for_end(session_id) == ("killed", code)
        assert bool(pi.tools()) == leaves
        again = pi.call("stop", session_id)
        assert again.code == 0, again.err
        assert not pi.tools()

    @pytest.mark.parametrize("version", [OLD, "1.5"])
    def test_stop_ends_it_and_its_tool(self, pi: Launched, stage: PiStage, version: str) -> None:
        stage.environ["PUPPET_PI"] = version
        session_id = pi.launch("tool, work 600")
        pi.runs_a_tool()
        ran = pi.call("stop", session_id)
        assert (ran.code, ran.err) == (0, "")
        assert "2 ended, 0 survivors" in ran.out
        assert not pi.tools()
        assert pi.wait_for_end(session_id) == ("killed", 143)

    @pytest.mark.parametrize("version", [OLD, "1.5"])
    def test_a_resumed_one_goes_on_under_its_id(
        self, pi: Launched, stage: PiStage, version: str
    ) -> None:
        stage.environ["PUPPET_PI"] = version
        session_id = pi.launch("work 0.5")
        assert pi.wait_for_end(session_id) == ("completed", 0)
        ran = pi.call("resume", session_id, "work 600")
        assert (ran.code, ran.out.strip()) == (0, session_id), ran.err
        session = pi.read_session(session_id)
        assert (session["status"], session["activity"]) == ("running", "working")
        assert pi.call("resume", session_id, "me too").code == 4
        assert len(stage.files()) == 1


def test_before_there_is_a_file_our_note_binds(stage: PiStage) -> None:
    old = {"PUPPET_PI": OLD}
    one, two = stage.start(environ=old), stage.start(environ=old)
    notes = [Launch(f"l{puppet.pid}", puppet.identity, puppet.session_id) for puppet in (one, two)]
    for puppet in (one, two):
        puppet.do("work")
    assert stage.files() == []

    def listed() -> dict[str | None, tuple[int, str, str | None]]:
        sessions = survey(Look.take(stage.environ), find_adapters([stage.adapter]), notes=notes).sessions
        owned = [(s, s.observation.owner) for s in sessions]
        return {
            s.observation.session_id: (owner.pid, s.verdict.status, s.observation.transcript)
            for s, owner in owned
            if owner is not None
        }

    assert listed() == {
        one.session_id: (one.pid, "running", None),
        two.session_id: (two.pid, "running", None),
    }
    two.do("rest")
    (file,) = stage.files()
    assert listed()[two.session_id] == (two.pid, "idle", str(file))
