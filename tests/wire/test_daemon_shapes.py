"""The JSON of `daemon status`."""

from agentctl.wire.daemon_shapes import DAEMON_FIELDS, daemon
from agentctl.wire.session import VERSION


def test_none_runs() -> None:
    assert daemon(None) == {"version": VERSION, "daemon": None}


def test_the_table_is_the_shape() -> None:
    told = daemon({"pid": 7, "something": "newer"})["daemon"]
    assert list(told) == [name for name, _, _ in DAEMON_FIELDS]
    assert (told["pid"], told["seq"]) == (7, None)
