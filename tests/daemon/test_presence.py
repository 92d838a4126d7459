"""The daemon's own start and end, in the journal."""

import os
from pathlib import Path

from agentctl.daemon.bell import Bell
from agentctl.daemon.presence import Presence
from agentctl.store import journal
from agentctl.truth import procfs
from tests.waiting import until


def test_start_and_end_are_events(tmp_path: Path) -> None:
    notes, bell = str(tmp_path / "state.db"), Bell()
    identity = procfs.read_process(os.getpid(), procfs.boot_id()).identity
    part = Presence(notes, identity, bell)
    part.start()
    until(lambda: bell.seq > 0, "it rings")
    part.stop()
    told = journal.after(notes, 0)
    assert [event.type for event in told] == ["daemon.started", "daemon.stopped"]
    assert told[0].body["data"]["pid"] == os.getpid()
    assert bell.seq == told[-1].seq
    assert part.status() == {}


def test_a_journal_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    identity = procfs.read_process(os.getpid(), procfs.boot_id()).identity
    part = Presence(str(tmp_path / "state.db"), identity, Bell())
    part.start()
    until(lambda: part.status().get("state") == "failing", "it tells")
    part.stop()
