"""`agentctl list`, as a person or a script runs it."""

import itertools
import json
import os
import re
import time
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.cli.verbs import list as verb
from agentctl.state import launch_writes
from agentctl.text import width
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Launch, Observation, Problem, Session
from agentctl.truth.survey import Survey
from agentctl.wire.session import SESSION_FIELDS
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
    assert agentctl_of(stage, "list", "--status", "waiting").out == "no such session\n"
    assert agentctl_of(stage, "list", "--json").json() == {"version": 1, "sessions": [], "problems": []}


def test_who_needs_a_person_comes_first(stage: DemoStage) -> None:
    resting, working, asking = (stage.start(prompt=p) for p in ("one", "two", "three"))
    resting.do("work")
    resting.do("rest")
    working.do("work")
    asking.do("ask")
    ran = agentctl_of(stage)
    assert ran.err == ""
    assert [re.split(r"  +", line)[5] for line in ran.lines] == ["ABOUT", "three", "two", "one"]
    assert [line.split()[1] for line in ran.lines[1:]] == ["waiting", "running", "idle"]


def test_ended_ones_are_history(stage: DemoStage) -> None:
    living, ended = stage.start(), stage.start()
    ended.do("work")
    ended.kill()
    assert _ids(stage) == [living.session_id]
    assert set(_ids(stage, "-a")) == {living.session_id, ended.session_id}
    assert set(_ids(stage, "--since", "1h")) == {living.session_id, ended.session_id}
    assert _ids(stage, "--status", "stopped") == [ended.session_id]
    assert _ids(stage, "--status", "waiting") == []
    (row,) = agentctl_of(stage, "list", "--status", "stopped").lines[1:]
    assert row.split()[1] == "killed"


def test_since_leaves_out_what_is_older(stage: DemoStage) -> None:
    ended = stage.start()
    ended.finish()
    path = stage.home / ".demo-agent" / "sessions" / f"{ended.session_id}.jsonl"
    os.utime(path, (1e9, 1e9))
    assert _ids(stage, "-a") == [ended.session_id]
    assert _ids(stage, "--since", "1h") == []
    assert _ids(stage, "-a", "--since", "1h") == []


def test_several_statuses(stage: DemoStage) -> None:
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
    launch_writes.begin(paths.notes_file(stage.environ["AGENTCTL_HOME"]), note)
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
    assert agentctl_of(stage, "list", "-a", "--cwd", "/nonexistent").out == "no such session\n"
    shown = agentctl_of(stage, "list", "--cwd", "/nonexistent").out
    assert shown.startswith("no such live session; `agentctl list -a`")


@pytest.mark.parametrize("cwd", ["link/deep", "nonsense\0here", "relative", ""])
def test_by_directory_when_the_agent_wrote_it_its_own_way(stage: DemoStage, cwd: str) -> None:
    directory = stage.home / ".demo-agent" / "sessions"
    directory.mkdir(parents=True)
    (stage.root / "link").symlink_to(stage.work)
    written = str(stage.root / cwd) if cwd.startswith("link") else cwd
    record = {"type": "session", "at": 1.0, "cwd": written}
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


def test_what_is_wrong_goes_to_standard_error_and_into_json(stage: DemoStage) -> None:
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


@pytest.mark.parametrize("columns", [1, 7, 20, 40, 60, 80, 120, 300])
def test_rows_fit_the_terminal_whatever_is_in_them(stage: DemoStage, columns: int) -> None:
    puppet = stage.start(stage.work / hostile.WIDE / "\x1b[31m\n\u202e")
    puppet.do("work")
    hostile.poison(stage, puppet)
    plain = stage.start(prompt="漢字" * 90)
    plain.do("ask")
    ran = agentctl_on_a_terminal(stage, "list", columns=columns)
    rows = COLOUR.sub("", ran.out).splitlines()
    assert len(rows) == 3
    assert all(width(row) <= columns for row in rows), rows
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


def test_one_session_a_line(stage: DemoStage) -> None:
    for _ in range(3):
        stage.start()
    lines = agentctl_of(stage, "list", "--json").lines
    assert sum('"adapter": "demo"' in line for line in lines) == 3


# watching


def test_an_age_alone_is_no_new_picture(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Looked at every minute for half an hour, with one change in the middle."""
    minutes = itertools.count(step=60)
    running, idle = (_session(Evidence(claim, "/f", "journal", 0.0)) for claim in ("working", "idle"))
    looks = iter([Survey([running], [])] * 15 + [Survey([idle], [])] * 15)
    monkeypatch.setattr(verb, "REFRESH", 0.0)
    monkeypatch.setattr(verb, "_found", lambda *_: next(looks))
    monkeypatch.setattr(time, "time", lambda: float(next(minutes)))
    with pytest.raises(StopIteration):
        verb.run(verb.parser().parse_args(["--watch"]))
    pictures = capfd.readouterr().out.split("ID ")[1:]
    assert [re.findall("running|idle", picture) for picture in pictures] == [["running"], ["idle"]]


def test_a_start_told_a_millisecond_later_is_no_new_picture(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    working, idle = (Evidence(claim, "/f", "journal", 0.0) for claim in ("working", "idle"))
    looks = iter(
        Survey([_session(turn, began)], []) for turn in (working, idle) for began in (1.0, 1.001, 1.002)
    )
    monkeypatch.setattr(verb, "REFRESH", 0.0)
    monkeypatch.setattr(verb, "_found", lambda *_: next(looks))
    with pytest.raises(StopIteration):
        verb.run(verb.parser().parse_args(["--watch", "--json"]))
    pictures = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [picture["sessions"][0]["status"] for picture in pictures] == ["running", "idle"]
    assert pictures[0]["sessions"][0]["evidence"][0]["at"] == "1970-01-01T00:00:01.000Z"


def _session(turn: Evidence, began: float = 0.0) -> Session:
    evidence = (Evidence("alive", "proc:1@1", "kernel", began), turn)
    return Session(Observation("demo", "s", evidence), judge(evidence))


def test_watch_writes_what_changed(stage: DemoStage) -> None:
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


def test_watching_json_writes_one_line_a_picture(stage: DemoStage) -> None:
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
    found = Survey([], [Problem("demo", "broken", "x" * 50)])
    screen = verb._screen([f"row {n}" for n in range(10)], found)
    assert screen.startswith("\x1b[Hrow 0\x1b[K\n")
    assert screen.count("\n") == 5
    assert "… 7 more lines" in screen
    short = verb._screen(["row 0"], found)
    assert "agentctl: demo: bro…" in short


def test_from_any_directory(stage: DemoStage, tmp_path: Path) -> None:
    """The demo home of the stage is found by environment alone."""
    puppet = stage.start(environ={"DEMO_AGENT_HOME": str(tmp_path / "elsewhere")})
    puppet.do("work")
    (session,) = agentctl_of(stage, "list", "--json").json()["sessions"]
    assert session["transcript"].startswith(str(tmp_path / "elsewhere"))
