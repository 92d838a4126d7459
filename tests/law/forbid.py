"""Runs without the privilege to read everything: an agent works, and its records may not be read.
Called by test_law2 with adapter and a directory."""

import os
import sys
from pathlib import Path

from agentctl.truth.survey import Wanted
from tests.fakes.stages import named
from tests.law.asking import working


def main(adapter: str, directory: str) -> None:
    stage = named(adapter)(Path(directory))
    closed = stage.root / "closed"
    closed.touch(0)
    assert not os.access(closed, os.R_OK), "this user reads everything"
    try:
        puppet, session_id = working(stage)
        records = stage.records(puppet)
        for path in records:
            path.chmod(0)
        row = stage.row_of(puppet)
        assert row is not None, "a live agent is not listed"
        assert row.verdict.status != "stopped", row
        found = stage.survey(Wanted())
        assert "forbidden" in {problem.kind for problem in found.problems}, found.problems
        rows = [s for s in found.sessions if s.seen.session_id == session_id]
        assert all(s.verdict.status != "stopped" for s in rows), rows
        for path in records:
            path.parent.chmod(0)
        assert stage.row_of(puppet) is not None, "a live agent is not listed"
        assert all(s.verdict.status != "stopped" for s in stage.survey(Wanted()).sessions)
        for path in records:
            path.parent.chmod(0o700)
    finally:
        stage.close()
    print("forbidden is not dead")


if __name__ == "__main__":
    main(*sys.argv[1:])
