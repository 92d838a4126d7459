"""Where to look for what changes when a session does."""

from agentctl.control.traces import files_of
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Session


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
