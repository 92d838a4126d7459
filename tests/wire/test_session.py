"""The public JSON: its fields, their order, and null for what is not known."""

import json

import pytest

from agentctl.system.identity import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import (
    Evidence,
    Facts,
    HookRun,
    Launch,
    Message,
    Observation,
    Problem,
    Session,
    Tokens,
    Worktree,
)
from agentctl.wire import session as shapes
from tests.cli import hostile

ALIVE = Evidence("alive", "proc:7@1", "kernel", at=1.0)
BARE = Session(Observation("demo", None, ()), judge(()))
NEVER_NULL = {"adapter", "status", "activity", "suspended", "reason", "host", "evidence"}


def _names(fields: tuple[tuple[str, str, str], ...]) -> list[str]:
    return [name for name, _, _ in fields]


def test_a_session_has_the_fields_of_the_reference_in_order() -> None:
    assert list(shapes.session(BARE)) == _names(shapes.SESSION_FIELDS)


def test_so_have_evidence_problems_and_messages() -> None:
    assert list(shapes.evidence(ALIVE, decided=True)) == _names(shapes.EVIDENCE_FIELDS)
    assert list(shapes.problem(Problem("", "gone", "x"))) == _names(shapes.PROBLEM_FIELDS)
    assert list(shapes.message(Message("k", "user", "x"))) == _names(shapes.MESSAGE_FIELDS)


def test_what_is_not_known_is_null() -> None:
    shape = shapes.session(BARE)
    assert {name for name, value in shape.items() if value is not None} == NEVER_NULL
    told = {name for name, kind, _ in shapes.SESSION_FIELDS if "null" not in kind}
    assert told == NEVER_NULL


@pytest.mark.parametrize("fields", [shapes.SESSION_FIELDS, shapes.EVIDENCE_FIELDS])
def test_every_field_is_described(fields: tuple[tuple[str, str, str], ...]) -> None:
    for name, kind, what in fields:
        assert name
        assert kind
        assert what


def test_hostile_text_comes_through_intact() -> None:
    facts = Facts(cwd=hostile.ALL, model=hostile.ALL, title=hostile.ALL, prompt=hostile.ALL)
    session = Session(Observation("demo", hostile.ALL, (ALIVE,), facts), judge((ALIVE,)))
    problem = Problem("demo", "malformed", hostile.ALL, hostile.ALL)
    written = json.dumps(shapes.envelope([session], [problem]))
    assert written.isascii()
    assert hostile.harmful(written) == []
    read = json.loads(written)
    assert {read["sessions"][0][name] for name in ("id", "cwd", "model", "title", "prompt")} == {
        hostile.ALL
    }
    assert read["problems"][0]["message"] == hostile.ALL
    message = json.loads(json.dumps(shapes.message(Message("k", "tool", hostile.ALL, tool="t"))))
    assert message == {"role": "tool", "at": None, "tool": "t", "text": hostile.ALL}


def test_the_deciding_evidence_comes_first() -> None:
    working = Evidence("working", "/f@7", "journal", detail="", note="turn working")
    idle = Evidence("idle", "/f@1", "derived")
    session = Session(Observation("demo", "s", (idle, working, ALIVE)), judge((idle, working, ALIVE)))
    shape = shapes.session(session)
    assert [(e["claim"], e["decided"]) for e in shape["evidence"]] == [
        ("alive", True), ("working", True), ("idle", False),
    ]  # fmt: skip
    assert shape["evidence"][0]["at"] == "1970-01-01T00:00:01.000Z"
    assert shape["evidence"][1]["detail"] is None
    assert shape["evidence"][1]["note"] == "turn working"


def test_tokens_and_launch() -> None:
    assert shapes.tokens(None) is None
    assert shapes.tokens(Tokens(input=3)) == {
        "input": 3, "output": None, "cache_read": None, "cache_write": None,
    }  # fmt: skip
    run = HookRun("on-complete", "make test", 2, 1.5, "/said")
    launch = Launch(
        "l", ProcessIdentity("b", 1, 2), "s", "n", "g", None, (("k", "v"),), model="m",
        worktree=Worktree("/r", "/w", "b", "c0ffee"), created_at=0.0, hooks=(run,),
    )  # fmt: skip
    assert shapes.launch(None) is None
    assert shapes.launch(launch) == {
        "id": "l", "name": "n", "group": "g", "spec": None, "meta": {"k": "v"}, "model": "m",
        "created_at": "1970-01-01T00:00:00.000Z", "on_complete": None, "expired_at": None,
        "worktree": {"repository": "/r", "path": "/w", "branch": "b", "base": "c0ffee"},
        "hooks": [{"hook": "on-complete", "command": "make test", "code": 2, "seconds": 1.5,
                   "output": "/said"}],
    }  # fmt: skip


def test_a_nonsense_time_is_null() -> None:
    facts = Facts(started_at=1e300, last_activity_at=0.0)
    shape = shapes.session(Session(Observation("demo", "s", (), facts), judge(())))
    assert shape["started_at"] is None
    assert shape["last_activity_at"] == "1970-01-01T00:00:00.000Z"
