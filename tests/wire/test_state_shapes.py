"""The public JSON of locks, settings and pruning: every field in its table, absent facts null."""

import json

from agentctl.state.lock import Lock
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import namespace
from agentctl.truth.model import Problem
from agentctl.wire import state_shapes

PERSON = Lock("/d", "", None, None, "me", "because", 0.0, 60.0)
AGENT = Lock("/d", "1a", ProcessIdentity("b", 7, 9), namespace(), None, None, 0.0, None, "4f2a", "n")


def test_a_lock_has_the_fields_of_its_table() -> None:
    for given in (PERSON, AGENT):
        assert list(state_shapes.lock(given)) == [name for name, _, _ in state_shapes.LOCK_FIELDS]


def test_absent_facts_are_null() -> None:
    person, agent = state_shapes.lock(PERSON), state_shapes.lock(AGENT)
    assert (person["kind"], person["pid"], person["launch_id"]) == ("person", None, None)
    assert person["expires_at"] == "1970-01-01T00:01:00.000Z"
    assert (agent["kind"], agent["pid"], agent["session_id"], agent["by"]) == ("agent", 7, "4f2a", None)
    assert not agent["foreign"]


def test_envelopes() -> None:
    problem = Problem("", "forbidden", "m", "s")
    shape = state_shapes.locks([PERSON], [problem])
    assert list(shape) == ["version", "locks", "problems"]
    assert shape["problems"] == [problem._asdict()]
    told = state_shapes.settings("/f", [("defaults.model", None, "default", "")])
    assert list(told) == ["version", "file", "settings"]
    assert list(told["settings"][0]) == [name for name, _, _ in state_shapes.SETTING_FIELDS]
    gone = state_shapes.pruned([("lock", "/d", "w")], [], dry_run=True)
    assert (gone["version"], gone["dry_run"]) == (1, True)
    assert list(gone["pruned"][0]) == [name for name, _, _ in state_shapes.PRUNED_FIELDS]


def test_a_path_that_is_no_text_is_json() -> None:
    odd = PERSON._replace(directory="/\udcff\n")
    assert json.loads(json.dumps(state_shapes.lock(odd)))["directory"] == "/\udcff\n"
