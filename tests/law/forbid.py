"""Look at a working agent whose records may not be read, without the privilege to read everything.
test_law2_absent_is_not_dead calls this with an adapter and a directory."""

import os
import sys
from pathlib import Path

from agentctl.truth.survey import HistoryQuery
from tests.fakes.stages import find_stage
from tests.law.asking import start_agent


def main(adapter: str, directory: str) -> None:
    stage = find_stage(adapter)(Path(directory))
    closed = stage.root / "closed"
    closed.touch(0)
    assert not os.access(closed, os.R_OK), "this user reads everything"
    try:
        puppet, session_id = start_agent(stage)
        records = stage.records(puppet)
        for path in records:
            path.chmod(0)
        row = stage.find_row(puppet)
        assert row is not None, "a live agent is not listed"
        assert row.verdict.status != "stopped", row
        survey = stage.survey(HistoryQuery())
        assert "forbidden" in {problem.kind for problem in survey.problems}, survey.problems
        rows = [s for s in survey.sessions if s.observation.session_id == session_id]
        assert all(s.verdict.status != "stopped" for s in rows), rows
        for path in records:
            path.parent.chmod(0)
        assert stage.find_row(puppet) is not None, "a live agent is not listed"
        assert all(s.verdict.status != "stopped" for s in stage.survey(HistoryQuery()).sessions)
        for path in records:
            path.parent.chmod(0o700)
    finally:
        stage.close()
    print("forbidden is not dead")


if __name__ == "__main__":
    main(*sys.argv[1:])
