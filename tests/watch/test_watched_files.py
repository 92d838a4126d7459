"""Where to look for what changes when a session does."""

import os
from pathlib import Path

import pytest

from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.truth.judge import judge
from agentctl.truth.model import Authority, Claim, Evidence, Observation, Problem, Session
from agentctl.watch.watched_files import deciding, files_of, foreseen, record_of, works_unseen


def test_where_its_files_are() -> None:
    evidence = (
        Evidence("alive", "proc:7@7", "kernel", note="bound by pid record: /live/7.json"),
        Evidence("working", "/db/x.db#ses_1/msg_2", "journal"),
        Evidence("working", "/t/s@1.jsonl@512", "journal"),
        Evidence("gone", "/proc", "kernel"),
    )
    seen = Observation("demo", "s", evidence, transcript="/db/x.db", tied_by="/live/7.json")
    found = list(dict.fromkeys(files_of(Session(seen, judge(evidence)))))
    assert found == ["/db/x.db", "/db/x.db-wal", "/live/7.json", "/t/s@1.jsonl"]


@pytest.mark.parametrize("name", ["a#b", "a\nb", "#", "a#1@2", "a@1#c/d", "@7"])
def test_a_home_whose_name_has_the_marks_of_a_place(name: str, tmp_path: Path) -> None:
    home = tmp_path / name
    home.mkdir(parents=True)
    record, transcript, database = (str(home / each) for each in ("7.json", "s.jsonl", "x.db"))
    for path in (record, transcript, database):
        Path(path).touch()
    evidence = (
        Evidence("idle", record, "record"),
        Evidence("working", f"{transcript}@512", "journal"),
        Evidence("working", f"{database}#ses_1/msg_2", "journal"),
    )
    session = Session(Observation("demo", "s", evidence, tied_by=record), judge(evidence))
    assert list(dict.fromkeys(files_of(session))) == [record, transcript, database]
    assert record_of(session) == record


def test_of_a_file_that_is_gone_every_path_that_was_meant_is_watched(tmp_path: Path) -> None:
    record = str(tmp_path / "a#b" / "7.json")
    seen = Observation("demo", "s", (), tied_by=record)
    assert record in files_of(Session(seen, judge(())))


def test_the_record_of_one_is_a_file_as_a_whole() -> None:
    def record(address: str, authority: Authority = "record") -> str | None:
        evidence = (
            Evidence("alive", "/live/other.json", "record"),
            Evidence("idle", address, authority),
        )
        return record_of(Session(Observation("demo", "s", evidence), judge(evidence)))

    assert record("/live/7.json") == "/live/7.json"
    assert record("/db/x.db#ses_1") is None
    assert record("/t/s.jsonl@512") is None
    assert record("/t/s.jsonl", "journal") is None
    assert record("proc:7@7") is None


def test_where_a_record_decides_nothing_else_is_watched() -> None:
    alive = Evidence("alive", "proc:7@7", "kernel")
    record = Evidence("idle", "/live/7.json", "record")
    turn = Evidence("working", "/t/s.jsonl@512", "journal")

    def watched(*evidence: Evidence) -> set[str]:
        seen = Observation("demo", "s", evidence, transcript="/t/s.jsonl", tied_by="/live/7.json")
        return set(deciding(Session(seen, judge(evidence))))

    assert watched(alive, record, turn) == {"/live/7.json"}
    everything = {"/live/7.json", "/t/s.jsonl", "/t/s.jsonl-wal"}
    assert watched(alive, record._replace(trusted=False), turn) == everything
    assert watched(alive, turn) == everything


HOMES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", "sessions/*"),
    "codex": ("CODEX_HOME", "thread-writer-locks/*"),
    "opencode": ("OPENCODE_DB", "-wal"),
    "pi": ("PI_CODING_AGENT_SESSION_DIR", "/*"),
}


@pytest.mark.parametrize("adapter", HOMES)
def test_where_the_first_sign_of_a_session_will_be(
    adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of our own process, which is no agent: only its environment is asked for."""
    variable, ending = HOMES[adapter]
    environ = {**os.environ, variable: str(tmp_path / "place")}
    monkeypatch.setattr(Process, "environ", lambda _: environ)
    found = foreseen(_alive(adapter), environ, [])
    assert any(path.startswith(str(tmp_path)) and path.endswith(ending) for path in found), found


def test_one_that_shows_what_it_does_needs_no_sign() -> None:
    bare = _alive("codex")
    evidence = (*bare.seen.evidence, Evidence("idle", "/t/s.jsonl@1", "journal"))
    seen = bare.seen._replace(session_id="s", transcript="/t/s.jsonl", evidence=evidence)
    assert foreseen(Session(seen, judge(evidence)), os.environ, []) == []


def test_an_adapter_that_does_not_say_is_no_obstacle() -> None:
    assert foreseen(_alive("demo"), os.environ, []) == []


def _alive(adapter: str) -> Session:
    process = proc.read_process(os.getpid(), proc.boot_id())
    evidence = (Evidence("alive", process.identity.address, "kernel"),)
    return Session(Observation(adapter, None, evidence, owner=process), judge(evidence))


def test_an_adapter_that_cannot_say_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[str]:
        raise KeyError("nothing")

    monkeypatch.setattr("agentctl.adapters.pi.Pi.signs", broken)
    problems: list[Problem] = []
    assert foreseen(_alive("pi"), os.environ, problems) == []
    assert [(p.adapter, p.kind) for p in problems] == [("pi", "broken")]


def test_who_may_begin_to_work_without_a_sign() -> None:
    def unseen(adapter: str, claim: Claim) -> bool:
        evidence = (Evidence("alive", "proc:7@7", "kernel"), Evidence(claim, "/s@1", "journal"))
        return works_unseen(Session(Observation(adapter, "s", evidence), judge(evidence)))

    assert unseen("pi", "idle")
    assert not unseen("pi", "working"), "it is at work"
    assert not unseen("demo", "idle"), "it writes down what it begins"
    assert not unseen("no such adapter", "idle")
