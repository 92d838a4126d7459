"""The public JSON: its fields, their order, and null for what is not known."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import Malformed
from agentctl.system.proc import Process, ProcessIdentity
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
    Verdict,
    Worktree,
)
from agentctl.wire import session as shapes
from tests.cli import hostile

ALIVE = Evidence("alive", "proc:7@1", "kernel", at=1.0)
BARE = shapes.wire_session(Session(Observation("demo", None, ()), judge(())))
NEVER_NULL = {"adapter", "status", "activity", "suspended", "reason", "host", "evidence"}


def test_what_is_not_known_is_null() -> None:
    shape = shapes.dump_session(BARE)
    assert {name for name, value in shape.items() if value is not None} == NEVER_NULL
    assert {name for name, kind, _ in shapes.SESSION_FIELDS if "null" not in kind} == NEVER_NULL


def test_hostile_text_comes_through_intact() -> None:
    facts = Facts(cwd=hostile.ALL, model=hostile.ALL, title=hostile.ALL, prompt=hostile.ALL)
    session = Session(Observation("demo", hostile.ALL, (ALIVE,), facts), judge((ALIVE,)))
    problem = Problem("demo", "malformed", hostile.ALL, hostile.ALL)
    text = json.dumps(shapes.dump_sessions([shapes.wire_session(session)], [problem]))
    assert text.isascii()
    assert hostile.harmful(text) == []
    answer = json.loads(text)
    assert {answer["sessions"][0][name] for name in ("id", "cwd", "model", "title", "prompt")} == {
        hostile.ALL
    }
    assert answer["problems"][0]["message"] == hostile.ALL
    message = json.loads(json.dumps(shapes.dump_message(Message("k", "tool", hostile.ALL, tool="t"))))
    assert message == {"role": "tool", "at": None, "tool": "t", "text": hostile.ALL}


def test_the_deciding_evidence_comes_first() -> None:
    working = Evidence("working", "/f@7", "journal", detail="", note="turn working")
    idle = Evidence("idle", "/f@1", "derived")
    session = Session(Observation("demo", "s", (idle, working, ALIVE)), judge((idle, working, ALIVE)))
    shape = shapes.dump_session(shapes.wire_session(session))
    assert [(e["claim"], e["decided"]) for e in shape["evidence"]] == [
        ("alive", True), ("working", True), ("idle", False),
    ]  # fmt: skip
    assert shape["evidence"][0]["at"] == "1970-01-01T00:00:01.000Z"
    assert shape["evidence"][1]["detail"] is None
    assert shape["evidence"][1]["note"] == "turn working"


def test_tokens_and_launch() -> None:
    assert shapes.dump_tokens(None) is None
    assert shapes.dump_tokens(Tokens(input=3)) == {
        "input": 3, "output": None, "cache_read": None, "cache_write": None,
    }  # fmt: skip
    run = HookRun("on-complete", "make test", 2, 1.5, "/output")
    launch = Launch(
        "l", ProcessIdentity("b", 1, 2), "s", "n", "g", None, (("k", "v"),), model="m",
        worktree=Worktree("/r", "/w", "b", "c0ffee"), created_at=0.0, hooks=(run,),
    )  # fmt: skip
    assert shapes.dump_launch(None) is None
    session = shapes.wire_session(Session(Observation("demo", "s", ()), judge(()), launch))
    assert shapes.dump_launch(session.launch) == {
        "id": "l", "name": "n", "group": "g", "spec": None, "meta": {"k": "v"}, "model": "m",
        "created_at": "1970-01-01T00:00:00.000Z", "on_complete": None, "expired_at": None,
        "worktree": {"repository": "/r", "path": "/w", "branch": "b", "base": "c0ffee"},
        "hooks": [{"hook": "on-complete", "command": "make test", "code": 2, "seconds": 1.5,
                   "output": "/output"}],
    }  # fmt: skip


def test_a_nonsense_time_is_null() -> None:
    facts = Facts(started_at=1e300, last_activity_at=0.0)
    session = Session(Observation("demo", "s", (), facts), judge(()))
    shape = shapes.dump_session(shapes.wire_session(session))
    assert shape["started_at"] is None
    assert shape["last_activity_at"] == "1970-01-01T00:00:00.000Z"


texts = st.text(st.characters(codec=None))  # lone surrogates too: other programs write them
counts = st.none() | st.integers()
times = st.none() | st.floats(-6e10, 2.5e11)  # years of four digits: others are not read back
amounts = st.none() | st.floats(-1e12, 1e12) | st.integers(-10, 10)
optional = st.none() | texts
identities = st.builds(ProcessIdentity, texts, st.integers(1, 9999), st.integers(0, 9999))
evidence = st.builds(
    Evidence,
    st.sampled_from(["alive", "gone", "idle"]),
    texts,
    st.sampled_from(["kernel", "journal"]),
    times,
    texts,
    texts,
    st.booleans(),
)
facts = st.builds(
    Facts,
    cwd=optional,
    model=optional,
    title=optional,
    prompt=optional,
    started_at=times,
    last_activity_at=times,
    tokens=st.none() | st.builds(Tokens, counts, counts, counts, counts),
    cost_usd=amounts,
    entry_point=st.sampled_from([None, "headless"]),
    agent_version=optional,
    parent_id=optional,
)
owners = st.none() | st.builds(Process, identities, st.just(1), st.just("S"), texts)
pieces = st.lists(evidence, max_size=3).map(tuple)
verdicts = st.builds(
    Verdict,
    st.sampled_from(["running", "stopped"]),
    st.just("unknown"),
    st.sampled_from([None, "question"]),
    st.sampled_from([None, "killed"]),
    counts,
    texts,
    pieces,
    pieces,
)
launches = st.none() | st.builds(
    Launch,
    texts,
    identities,
    optional,
    optional,
    optional,
    optional,
    st.just((("k", "v"),)),
    created_at=times,
    expired_at=times,
)
observations = st.builds(Observation, texts, optional, pieces, facts, owners, optional)


@given(st.builds(Session, observations, verdicts, launches))
def test_the_text_is_what_json_writes(session: Session) -> None:
    row = shapes.wire_session(session)
    assert shapes.session_text(row) == json.dumps(shapes.dump_session(row))


@given(st.builds(Session, observations, verdicts, launches))
def test_a_row_read_back_is_the_same(session: Session) -> None:
    text = shapes.session_text(shapes.wire_session(session))
    assert shapes.session_text(shapes.parse_session(json.loads(text))) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": 7}, "session: id is not of type string | null"),
        ({"status": None}, "session: status is not of type string"),
        ({"suspended": 1}, "session: suspended is not of type boolean"),
        ({"pid": True}, "session: pid is not of type integer | null"),
        ({"tokens": {"nosuch": 1}}, "tokens: "),
        ({"launch": {"id": "l"}}, "launch: meta is not of type object"),
        ({"evidence": ["x"]}, "evidence: not a JSON object"),
        ({"evidence": [{}]}, "evidence: claim is not of type string"),
    ],
)
def test_a_row_of_another_shape_is_malformed(change: dict[str, object], message: str) -> None:
    with pytest.raises(Malformed) as error:
        shapes.parse_session({**shapes.dump_session(BARE), **change})
    assert str(error.value).startswith(message)


def test_a_field_of_a_newer_version_is_left_out() -> None:
    assert shapes.parse_session({**shapes.dump_session(BARE), "newer": 1}) == BARE
