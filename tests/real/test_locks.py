"""A launched agent holds its directory exactly while its process lives. On this run's real agent."""

from __future__ import annotations

import signal

from tests.real.desk import Desk


def test_a_directory_has_one_agent(desk: Desk) -> None:
    first = desk.launches("[[gate=%]] count")
    refused = desk.agentctl("launch", desk.adapter, "-p", "me too")
    assert (refused.code, refused.out) == (4, ""), refused
    assert first.id in refused.err
    assert [row["id"] for row in desk.agentctl("list", "--json").json()["sessions"]] == [first.id]
    beside = desk.launches("[[gate=%]] count", "--force")
    assert beside.id != first.id
    desk.signals(first.id, signal.SIGKILL)
    assert desk.locked_directories() == [str(desk.work)]  # the other one's
    desk.signals(beside.id, signal.SIGKILL)
    assert desk.locked_directories() == []
    third = desk.launches("[[gate=%]] count")
    assert desk.agentctl("stop", third.id, "--force").code == 0
    assert desk.locked_directories() == []
    desk.check_room_is_empty()
