"""Kill an agent, keep its records and give its pid to another process, in a pid namespace of its own.
test_law1 calls this with an adapter, a newcomer and a directory."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from agentctl.adapters.registry import BUILT_IN, find_adapters, read_agent
from agentctl.system.proc import ProcessIdentity, read_boot_id, read_process
from agentctl.testing import Stage
from agentctl.truth.look import Look
from agentctl.truth.memory import Memory
from agentctl.truth.survey import HistoryQuery, Survey, survey
from agentctl.truth.visibility import ALONE
from tests.fakes.stages import find_stage
from tests.fakes.stranger import Stranger
from tests.law.asking import LIVE, start_agent

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


def main(adapter: str, newcomer: str, directory: str) -> None:
    # far from the numbers that a fork of ours would take by itself
    LAST_PID.write_text("2000")
    stage = find_stage(adapter)(Path(directory))
    stage.environ[ALONE] = "1"  # the directory is shared with the outside, where no process uses it
    try:
        with ExitStack() as ends:
            reuse(stage, newcomer, ends)
    finally:
        stage.close()
    print("the stale record is bound to no process")


def reuse(stage: Stage, newcomer: str, ends: ExitStack) -> None:
    dead, session_id = start_agent(stage)
    assert stage.session(session_id).verdict.status in LIVE
    memory = Memory()  # it has seen the dead agent alive
    assert list_owners(survey_with(stage, memory)) == [dead.identity]
    records = {path: path.read_bytes() for path in list_files(stage.home)}
    dead.kill()
    LAST_PID.write_text(str(dead.pid - 1))
    if newcomer == "agent":
        new = stage.start(stage.root / "elsewhere")
        assert new.pid == dead.pid, f"pid {new.pid} instead of {dead.pid}"
    else:
        names = read_agent(BUILT_IN[stage.adapter]).processes - {"#.#.#"}
        comm = min(names) if "name" in newcomer else "sleep"
        stranger = ends.enter_context(Stranger(comm, stage.environ, stage.work))
        assert stranger.pid == dead.pid, f"pid {stranger.pid} instead of {dead.pid}"
    identity = read_process(dead.pid, read_boot_id()).identity
    assert identity != dead.identity
    # as if the newcomer had not written yet, or never will: all records are the dead agent's
    for path, data in records.items():
        path.write_bytes(data)

    after = stage.survey(HistoryQuery())
    assert list_owners(survey_with(stage, memory)) == list_owners(after)
    alive = [s for s in after.sessions if s.observation.owner is not None]
    assert session_id not in [s.observation.session_id for s in alive], alive
    verdict = stage.session(session_id).verdict
    assert verdict.status in ("stopped", "unknown"), verdict
    if newcomer == "agent":
        assert [s.observation.owner.identity for s in alive if s.observation.owner] == [identity]
    else:
        assert alive == [], alive
        assert verdict.status == "stopped", verdict


def survey_with(stage: Stage, memory: Memory) -> Survey:
    look = Look.take(stage.environ, memory=memory)
    return survey(look, find_adapters([stage.adapter]), HistoryQuery())


def list_owners(survey: Survey) -> list[ProcessIdentity]:
    return [s.observation.owner.identity for s in survey.sessions if s.observation.owner is not None]


def list_files(directory: Path) -> list[Path]:
    """Return the regular files: sockets and FIFOs are no records."""
    return [p for p in directory.rglob("*") if p.is_file() and not p.is_symlink()]


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
