"""Who is told of what, as plain dicts."""

from pathlib import Path

from agentctl.config import settings
from agentctl.truth.event import Event
from agentctl.wire import notify_shapes

SETTINGS = """
[notify.desk]
desktop = true
[notify.phone]
url = "https://me:secret@ntfy.example/agents?auth=secret"
token = "secret"
on = ["failed"]
groups = ["team"]
[notify.mine]
command = "say x"
"""


def test_targets(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(SETTINGS)
    found = settings.load({"AGENTCTL_HOME": str(tmp_path)}).notify
    last = Event("notify.quiet", 0.0, None, "pi", "4f2a", None, {"data": {"why": "you are there"}})
    told = notify_shapes.targets(found.values(), {"desk": last}, {"phone": 2})
    desk, phone, mine = told["targets"]
    assert [set(one) for one in told["targets"]] == [{n for n, _, _ in notify_shapes.TARGET_FIELDS}] * 3
    assert (desk["way"], desk["to"]) == ("desktop", None)
    assert desk["last"] == {
        "result": "quiet",
        "at": "1970-01-01T00:00:00.000Z",
        "why": "you are there",
        "session_id": "4f2a",
    }
    assert (phone["way"], phone["on"], phone["groups"], phone["pending"]) == (
        "url",
        ["failed"],
        ["team"],
        2,
    )
    assert phone["last"] is None
    assert (mine["way"], mine["to"]) == ("command", "say x")
    assert "secret" not in str(told)


def test_why() -> None:
    assert notify_shapes.why(Event("notify.failed", 1.0, body={"data": {"error": "e"}})) == "e"
    assert notify_shapes.why(Event("notify.delivered", 1.0)) is None
