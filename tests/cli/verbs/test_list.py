"""`agentctl list`, as a person or a script runs it."""

import itertools
import json
import os
import re
import time
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.cli import queries
from agentctl.cli.verbs import list as verb
from agentctl.sessions.query import Selected
from agentctl.state import launch_writes
from agentctl.text import measure_width
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Launch, Observation, Problem, Session
from agentctl.wire.session import SESSION_FIELDS, WireSession, wire_session
from tests.cli import hostile
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, agentctl_on_a_terminal, read_until, started

COLOUR = re.compile(r"\x1b\[\d+m")


def _ids(stage: DemoStage, *words: str) -> list[str]:
    return [session["id"] for session in agentctl_of(stage, "list", *words, "--json").json()["sessions"]]


def test_no_session(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "list")
    assert ran == (0, "no live session; `agentctl list -a` shows the ended ones\n", "")
    assert agentctl_of(stage, "list", "-a").out == "no session, live or ended\n"
    assert agentctl_of(stage, "list", "--status", "waiting").out == "no session matches\n"
    assert agentctl_of(stage, "list", "--json").json() == {"version": 1, "sessions": [], "problems": []}


def test_sessions_that_wait_for_a_person_come_first(stage: DemoStage) -> None:
    resting, working, asking = (stage.start(prompt=p) for p in ("one", "two", "three"))
    resting.do("work")
    resting.do("rest")
    working.do("work")
    asking.do("ask")
    ran = agentctl_of(stage)
    assert ran.err == ""
    assert [re.split(r"  +", line)[5] for line in ran.lines] == ["ABOUT", "three", "two", "one"]
    assert [line.split()[1] for line in ran.lines[1:]] == ["waiting", "running", "idle"]


def test_ended_sessions_are_listed_on_request(stage: DemoStage) -> None:
    running, stopped = stage.start(), stage.start()
    stopped.do("work")
    stopped.kill()
    assert _ids(stage) == [running.session_id]
    assert set(_ids(stage, "-a")) == {running.session_id, stopped.session_id}
    assert set(_ids(stage, "--since", "1h")) == {running.session_id, stopped.session_id}
    assert _ids(stage, "--status", "stopped") == [stopped.session_id]
    assert _ids(stage, "--status", "waiting") == []
    (row,) = agentctl_of(stage, "list", "--status", "stopped").lines[1:]
    assert row.split()[1] == "killed"


def test_since_leaves_out_older_sessions(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.finish()
    path = stage.home / ".demo-agent" / "sessions" / f"{puppet.session_id}.jsonl"
    os.utime(path, (1e9, 1e9))
    assert _ids(stage, "-a") == [puppet.session_id]
    assert _ids(stage, "--since", "1h") == []
    assert _ids(stage, "-a", "--since", "1h") == []


def test_by_several_statuses(stage: DemoStage) -> None:
    asking, working = stage.start(), stage.start()
    asking.do("ask")
    working.do("work")
    assert _ids(stage, "--status", "waiting, idle") == [asking.session_id]
    assert _ids(stage, "--status", "waiting,running") == [asking.session_id, working.session_id]


def test_by_adapter(stage: DemoStage) -> None:
    puppet = stage.start()
    assert _ids(stage, "--adapter", "demo") == [puppet.session_id]
    assert _ids(stage, "--adapter", "codex") == []
    assert _ids(stage, "--adapter", "codex", "--adapter", "demo") == [puppet.session_id]


def test_by_group(stage: DemoStage) -> None:
    mine, _ = stage.start(), stage.start()
    note = Launch("1", mine.identity, mine.session_id, name="a label", group="nightly")
    launch_writes.begin_launch(paths.database_file(stage.environ["AGENTCTL_HOME"]), note)
    assert _ids(stage, "--group", "nightly") == [mine.session_id]
    assert _ids(stage, "--group", "other") == []
    assert "a label" in agentctl_of(stage, "list", "--group", "nightly").out


def test_by_directory(stage: DemoStage) -> None:
    inside = stage.start(stage.work / "project" / "deep")
    beside = stage.start(stage.work / "project-2")
    link = stage.root / "link"
    link.symlink_to(stage.work / "project")
    for directory in (str(stage.work / "project"), "work/project", "work/../work/project/", "link"):
        assert _ids(stage, "--cwd", directory) == [inside.session_id], directory
    assert set(_ids(stage, "--cwd", "work")) == {inside.session_id, beside.session_id}
    assert set(_ids(stage, "--cwd", "/")) == {inside.session_id, beside.session_id}
    assert agentctl_of(stage, "list", "-a", "--cwd", "/nonexistent").out == "no session matches\n"
    out = agentctl_of(stage, "list", "--cwd", "/nonexistent").out
    assert out.startswith("no live session matches; `agentctl list -a`")


@pytest.mark.parametrize("cwd", ["link/deep", "nonsense\0here", "relative", ""])
def test_by_directory_when_the_agent_recorded_an_odd_one(stage: DemoStage, cwd: str) -> None:
    directory = stage.home / ".demo-agent" / "sessions"
    directory.mkdir(parents=True)
    (stage.root / "link").symlink_to(stage.work)
    recorded_cwd = str(stage.root / cwd) if cwd.startswith("link") else cwd
    record = {"type": "session", "at": 1.0, "cwd": recorded_cwd}
    (directory / "old.jsonl").write_text(json.dumps(record) + "\n")
    assert _ids(stage, "-a", "--cwd", "work") == (["old"] if cwd.startswith("link") else [])


def test_json_has_the_fields_of_the_reference(stage: DemoStage) -> None:
    stage.start().do("work")
    (session,) = agentctl_of(stage, "list", "--json").json()["sessions"]
    assert list(session) == [name for name, _, _ in SESSION_FIELDS]
    assert session["exit_code"] is None
    assert session["title"] is None
    assert session["launch"] is None
    assert session["cost_usd"] is None


def test_problems_go_to_standard_error_and_into_json(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    live = stage.records(puppet)[0]
    live.write_text("rubbish")
    ran = agentctl_of(stage, "list")
    assert f"agentctl: demo: malformed: not a record of a live process ({live})\n" == ran.err
    assert ran.code == 0
    assert len(ran.lines) == 2  # the agent is listed all the same
    ran = agentctl_of(stage, "list", "--json")
    assert ran.err == ""
    assert ran.json()["problems"] == [
        {
            "adapter": "demo",
            "kind": "malformed",
            "message": "not a record of a live process",
            "source": str(live),
        }
    ]


@pytest.mark.few(3)
@pytest.mark.parametrize("columns", [1, 7, 20, 40, 60, 80, 120, 300])
def test_rows_with_any_text_fit_the_terminal(stage: DemoStage, columns: int) -> None:
    puppet = stage.start(stage.work / hostile.WIDE / "\x1b[31m\n\u202e")
    puppet.do("work")
    hostile.poison(stage, puppet)
    plain = stage.start(prompt="漢字" * 90)
    plain.do("ask")
    ran = agentctl_on_a_terminal(stage, "list", columns=columns)
    rows = COLOUR.sub("", ran.out).splitlines()
    assert len(rows) == 3
    assert all(measure_width(row) <= columns for row in rows), rows
    assert hostile.harmful(COLOUR.sub("", ran.out)) == []
    assert columns == 1 or len(rows[0]) > 1


def test_hostile_ids_break_no_row(stage: DemoStage) -> None:
    directory = stage.home / ".demo-agent" / "sessions"
    directory.mkdir(parents=True)
    names = ["\x1b[31mred\nrow\u202e", "漢字漢字漢字漢字漢字", "\udcff\udcfe", "a b", "$(x)", "-rf"]
    for name in names:
        (directory / f"{name}.jsonl").write_text('{"type": "session", "at": 1.0, "cwd": "/w"}\n')
    ran = agentctl_of(stage, "list", "-a")
    assert ran.code == 0
    assert len(ran.lines) == 1 + len(names)
    assert hostile.harmful(ran.out) == []
    assert sorted(_ids(stage, "-a")) == sorted(names)


def test_json_carries_hostile_text_intact(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    hostile.poison(stage, puppet)
    ran = agentctl_of(stage, "list", "--json")
    (session,) = ran.json()["sessions"]
    assert session["prompt"] == session["model"] == session["agent_version"] == hostile.ALL
    assert session["cwd"] == f"/{hostile.ALL}"
    assert hostile.harmful(ran.out) == []


def test_json_has_one_session_per_line(stage: DemoStage) -> None:
    for _ in range(3):
        stage.start()
    lines = agentctl_of(stage, "list", "--json").lines
    assert sum('"adapter": "demo"' in line for line in lines) == 3


# watching


def test_an_age_alone_is_no_new_picture(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One look per minute for half an hour, with one change in the middle."""
    minutes = itertools.count(step=60)
    running, idle = (_session(Evidence(claim, "/f", "journal", 0.0)) for claim in ("working", "idle"))
    looks = iter([Selected([running], [])] * 15 + [Selected([idle], [])] * 15)
    monkeypatch.setattr(verb, "REFRESH", 0.0)
    monkeypatch.setattr(queries, "list_sessions", lambda *_: next(looks))
    monkeypatch.setattr(time, "time", lambda: float(next(minutes)))
    with pytest.raises(StopIteration):
        verb.run(verb.parser().parse_args(["--watch"]))
    pictures = capfd.readouterr().out.split("ID ")[1:]
    assert [re.findall("running|idle", picture) for picture in pictures] == [["running"], ["idle"]]


def test_a_start_time_a_millisecond_later_is_no_new_picture(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    working, idle = (Evidence(claim, "/f", "journal", 0.0) for claim in ("working", "idle"))
    looks = iter(
        Selected([_session(turn, began)], [])
        for turn in (working, idle)
        for began in (1.0, 1.001, 1.002)
    )
    monkeypatch.setattr(verb, "REFRESH", 0.0)
    monkeypatch.setattr(queries, "list_sessions", lambda *_: next(looks))
    with pytest.raises(StopIteration):
        verb.run(verb.parser().parse_args(["--watch", "--json"]))
    pictures = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [picture["sessions"][0]["status"] for picture in pictures] == ["running", "idle"]
    assert pictures[0]["sessions"][0]["evidence"][0]["at"] == "1970-01-01T00:00:01.000Z"


def _session(turn: Evidence, began: float = 0.0) -> WireSession:
    evidence = (Evidence("alive", "proc:1@1", "kernel", began), turn)
    return wire_session(Session(Observation("demo", "s", evidence), judge(evidence)))


def test_watch_writes_a_picture_after_each_change(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    with started(stage, "list", "--watch") as child:
        first = read_until(child, b"a prompt\n")
        for step, word in (("ask", b"waiting"), ("work", b"running"), ("rest", b"idle")):
            puppet.do(step)
            picture = read_until(child, b"a prompt\n")
            assert word in picture
            assert picture.count(b"STATUS") == 1, picture
    assert first.count(b"STATUS") == 1
    assert b"\x1b" not in first


def test_watch_as_json_writes_one_line_per_picture(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    with started(stage, "list", "--watch", "--json") as child:
        first = json.loads(read_until(child, b"\n"))
        puppet.do("ask")
        second = json.loads(read_until(child, b"\n"))
    assert [p["sessions"][0]["status"] for p in (first, second)] == ["running", "waiting"]


def test_watch_ends_with_its_reader(stage: DemoStage) -> None:
    with started(stage, "list", "--watch") as child:
        read_until(child, b"\n")
        assert child.stdout is not None
        child.stdout.close()  # what `head -1` does
        assert child.wait(20) == 0
        assert child.stderr is not None
        assert child.stderr.read() == b""
        child.stdout = None


def test_a_watched_screen_keeps_its_height(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    size = os.terminal_size((20, 6))
    monkeypatch.setattr(os, "get_terminal_size", lambda _: size)
    monkeypatch.setenv("COLUMNS", "20")
    selected = Selected([], [Problem("demo", "broken", "x" * 50)])
    screen = verb._redraw([f"row {n}" for n in range(10)], selected)
    assert screen.startswith("\x1b[Hrow 0\x1b[K\n")
    assert screen.count("\n") == 5
    assert "… 7 more lines" in screen
    short = verb._redraw(["row 0"], selected)
    assert "agentctl: demo: bro…" in short


def test_an_agent_s_home_is_taken_from_its_environment(stage: DemoStage, tmp_path: Path) -> None:
    """Only the environment of the agent's process names this home."""
    puppet = stage.start(environ={"DEMO_AGENT_HOME": str(tmp_path / "elsewhere")})
    puppet.do("work")
    (session,) = agentctl_of(stage, "list", "--json").json()["sessions"]
    assert session["transcript"].startswith(str(tmp_path / "elsewhere"))
