"""The files that change when a session does."""

import os
from pathlib import Path

import pytest

from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.truth.judge import judge
from agentctl.truth.model import Authority, Claim, Evidence, Observation, Problem, Session
from agentctl.watch.watched_files import (
    expected_files,
    may_work_unseen,
    record_file,
    session_files,
    status_files,
)


def test_the_files_of_a_session() -> None:
    evidence = (
        Evidence("alive", "proc:7@7", "kernel", note="bound by pid record: /live/7.json"),
        Evidence("working", "/db/x.db#ses_1/msg_2", "journal"),
        Evidence("working", "/t/s@1.jsonl@512", "journal"),
        Evidence("gone", "/proc", "kernel"),
    )
    observation = Observation("demo", "s", evidence, transcript="/db/x.db", owner_source="/live/7.json")
    files = list(dict.fromkeys(session_files(Session(observation, judge(evidence)))))
    assert files == ["/db/x.db", "/db/x.db-wal", "/live/7.json", "/t/s@1.jsonl"]


@pytest.mark.parametrize("name", ["a#b", "a\nb", "#", "a#1@2", "a@1#c/d", "@7"])
def test_a_home_may_have_the_characters_of_an_address_in_its_name(name: str, tmp_path: Path) -> None:
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
    session = Session(Observation("demo", "s", evidence, owner_source=record), judge(evidence))
    assert list(dict.fromkeys(session_files(session))) == [record, transcript, database]
    assert record_file(session) == record


def test_every_possible_path_of_a_missing_file_is_watched(tmp_path: Path) -> None:
    record = str(tmp_path / "a#b" / "7.json")
    observation = Observation("demo", "s", (), owner_source=record)
    assert record in session_files(Session(observation, judge(())))


def test_a_record_is_a_whole_file() -> None:
    def find_record(address: str, authority: Authority = "record") -> str | None:
        evidence = (
            Evidence("alive", "/live/other.json", "record"),
            Evidence("idle", address, authority),
        )
        return record_file(Session(Observation("demo", "s", evidence), judge(evidence)))

    assert find_record("/live/7.json") == "/live/7.json"
    assert find_record("/db/x.db#ses_1") is None
    assert find_record("/t/s.jsonl@512") is None
    assert find_record("/t/s.jsonl", "journal") is None
    assert find_record("proc:7@7") is None


def test_only_the_record_is_watched_if_it_decides() -> None:
    alive = Evidence("alive", "proc:7@7", "kernel")
    record = Evidence("idle", "/live/7.json", "record")
    turn = Evidence("working", "/t/s.jsonl@512", "journal")

    def list_status_files(*evidence: Evidence) -> set[str]:
        observation = Observation(
            "demo", "s", evidence, transcript="/t/s.jsonl", owner_source="/live/7.json"
        )
        return set(status_files(Session(observation, judge(evidence))))

    assert list_status_files(alive, record, turn) == {"/live/7.json"}
    everything = {"/live/7.json", "/t/s.jsonl", "/t/s.jsonl-wal"}
    assert list_status_files(alive, record._replace(trusted=False), turn) == everything
    assert list_status_files(alive, turn) == everything


HOMES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", "sessions/*"),
    "codex": ("CODEX_HOME", "thread-writer-locks/*"),
    "opencode": ("OPENCODE_DB", "-wal"),
    "pi": ("PI_CODING_AGENT_SESSION_DIR", "/*"),
}


@pytest.mark.parametrize("adapter", HOMES)
def test_the_first_file_of_a_new_session_is_expected(
    adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own process stands for the agent: only its environment is read."""
    variable, ending = HOMES[adapter]
    environ = {**os.environ, variable: str(tmp_path / "place")}
    monkeypatch.setattr(Process, "environ", lambda _: environ)
    files = expected_files(make_live_session(adapter), environ, [])
    assert any(path.startswith(str(tmp_path)) and path.endswith(ending) for path in files), files


def test_a_session_with_evidence_needs_no_expected_file() -> None:
    bare = make_live_session("codex")
    evidence = (*bare.observation.evidence, Evidence("idle", "/t/s.jsonl@1", "journal"))
    observation = bare.observation._replace(session_id="s", transcript="/t/s.jsonl", evidence=evidence)
    assert expected_files(Session(observation, judge(evidence)), os.environ, []) == []


def test_an_adapter_without_signs_expects_no_file() -> None:
    assert expected_files(make_live_session("demo"), os.environ, []) == []


def make_live_session(adapter: str) -> Session:
    process = proc.read_process(os.getpid(), proc.read_boot_id())
    evidence = (Evidence("alive", process.identity.address, "kernel"),)
    return Session(Observation(adapter, None, evidence, owner=process), judge(evidence))


def test_an_error_in_an_adapter_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_key_error(*_: object) -> list[str]:
        raise KeyError("nothing")

    monkeypatch.setattr("agentctl.adapters.pi.adapter.Pi.signs", raise_key_error)
    problems: list[Problem] = []
    assert expected_files(make_live_session("pi"), os.environ, problems) == []
    assert [(p.adapter, p.kind) for p in problems] == [("pi", "broken")]


def test_which_sessions_may_begin_to_work_without_a_sign() -> None:
    def is_unseen(adapter: str, claim: Claim) -> bool:
        evidence = (Evidence("alive", "proc:7@7", "kernel"), Evidence(claim, "/s@1", "journal"))
        return may_work_unseen(Session(Observation(adapter, "s", evidence), judge(evidence)))

    assert is_unseen("pi", "idle")
    assert not is_unseen("pi", "working"), "it is at work"
    assert not is_unseen("demo", "idle"), "it records what it begins"
    assert not is_unseen("no such adapter", "idle")
