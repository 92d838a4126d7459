"""The JSON of a comparison."""

import json

from agentctl.compare.model import SLOT_FIELDS, Changes, Comparison, Conflict, Row, envelope, slot
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Facts, HookRun, Launch, Observation, Session, Tokens, Worktree

MADE = Worktree("/r", "/r-worktrees/a", "a", "4f2a")


def _session(model: str | None = None, tokens: Tokens | None = None) -> Session:
    seen = Observation("demo", "4f2a", (), Facts(model="told", tokens=tokens))
    return Session(seen, judge([]), Launch("1", ProcessIdentity("b", 1, 1), model=model))


def test_the_table_is_the_shape() -> None:
    full = Row(
        "a",
        _session("asked", Tokens(1, 2, None, 4)),
        1.23456,
        MADE,
        Changes(1, 2, 3, 4, 5),
        None,
        HookRun("on-complete", "make test", None, 1.0, "/log"),
        (Conflict("b", ("x",)),),
        ("seconds",),
    )
    bare = Row("b", _session(), None, None, None, "it ran in a plain directory", None, None)
    names = [name for name, _, _ in SLOT_FIELDS]
    assert list(slot(full)) == list(slot(bare)) == names
    told = json.loads(json.dumps(envelope(Comparison("g", (full, bare), ()))))
    assert (told["version"], told["group"], told["problems"]) == (1, "g", [])
    assert told["slots"][0]["seconds"] == 1.235
    assert told["slots"][0]["conflicts"] == [{"with": "b", "files": ["x"]}]
    assert told["slots"][0]["check"]["code"] is None
    assert told["slots"][1]["changes_unknown"] == "it ran in a plain directory"


def test_what_follows_from_a_row() -> None:
    row = Row("a", _session("asked", Tokens(1, 2, None, 4)), None, None, None, None, None, None)
    assert (row.model, row.tokens, row.passed, row.done) == ("asked", 7, None, False)
    other = row._replace(session=_session(), check=HookRun("on-complete", "x", 1, 0.0, ""))
    assert (other.model, other.tokens, other.passed) == ("told", None, False)
