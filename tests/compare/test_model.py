"""The JSON of a comparison."""

import json

from agentctl.compare.model import (
    SLOT_FIELDS,
    Changes,
    Comparison,
    Conflict,
    Row,
    wire_comparison,
    wire_slot,
)
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Facts, HookRun, Launch, Observation, Session, Tokens, Worktree

WORKTREE = Worktree("/r", "/r-worktrees/a", "a", "4f2a")


def _session(model: str | None = None, tokens: Tokens | None = None) -> Session:
    observation = Observation("demo", "4f2a", (), Facts(model="reported", tokens=tokens))
    return Session(observation, judge([]), Launch("1", ProcessIdentity("b", 1, 1), model=model))


def test_a_slot_has_the_fields_of_its_table() -> None:
    full = Row(
        "a",
        _session("requested", Tokens(1, 2, None, 4)),
        1.23456,
        WORKTREE,
        Changes(1, 2, 3, 4, 5),
        None,
        HookRun("on-complete", "make test", None, 1.0, "/log"),
        (Conflict("b", ("x",)),),
        ("seconds",),
    )
    bare = Row("b", _session(), None, None, None, "it ran in a plain directory", None, None)
    names = [name for name, _, _ in SLOT_FIELDS]
    assert list(wire_slot(full)) == list(wire_slot(bare)) == names
    answer = json.loads(json.dumps(wire_comparison(Comparison("g", (full, bare), ()))))
    assert (answer["version"], answer["group"], answer["problems"]) == (1, "g", [])
    assert answer["slots"][0]["seconds"] == 1.235
    assert answer["slots"][0]["conflicts"] == [{"with": "b", "files": ["x"]}]
    assert answer["slots"][0]["check"]["code"] is None
    assert answer["slots"][1]["changes_unknown"] == "it ran in a plain directory"


def test_a_row_knows_its_model_tokens_and_check() -> None:
    row = Row("a", _session("requested", Tokens(1, 2, None, 4)), None, None, None, None, None, None)
    assert (row.model, row.tokens, row.has_passed, row.is_done) == ("requested", 7, None, False)
    other = row._replace(session=_session(), check=HookRun("on-complete", "x", 1, 0.0, ""))
    assert (other.model, other.tokens, other.has_passed) == ("reported", None, False)
