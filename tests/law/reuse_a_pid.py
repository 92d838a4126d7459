"""Runs inside a pid namespace of its own: an agent dies, its record stays, another process gets its
pid. Called by test_law1 with adapter, newcomer and a directory."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from agentctl.adapters.registry import COMMS, registered
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import boot_id, read_process
from agentctl.testing import Stage
from agentctl.truth.look import Look
from agentctl.truth.survey import Survey, Wanted, survey
from agentctl.truth.visibility import ALONE
from agentctl.truth.warm import Warm
from tests.fakes.stages import named
from tests.fakes.stranger import Stranger
from tests.law.asking import LIVE, working

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


def main(adapter: str, newcomer: str, directory: str) -> None:
    # the numbers right after the interpreter's own are those a fork of ours would take by itself
    LAST_PID.write_text("2000")
    stage = named(adapter)(Path(directory))
    stage.environ[ALONE] = "1"  # the directory is shared with the outside, where nobody uses it
    try:
        with ExitStack() as ends:
            reuse(stage, newcomer, ends)
    finally:
        stage.close()
    print("the stale record is bound to nobody")


def reuse(stage: Stage, newcomer: str, ends: ExitStack) -> None:
    dead, session_id = working(stage)
    assert stage.session(session_id).verdict.status in LIVE
    warm = Warm()  # one that goes on, and has looked at the dead one while it lived
    assert owners(remembering(stage, warm)) == [dead.identity]
    left = {path: path.read_bytes() for path in everything(stage.home)}
    dead.kill()
    LAST_PID.write_text(str(dead.pid - 1))
    if newcomer == "agent":
        new = stage.start(stage.root / "elsewhere")
        assert new.pid == dead.pid, f"pid {new.pid} instead of {dead.pid}"
    else:
        comm = min(COMMS[stage.adapter] - {"#.#.#"}) if "name" in newcomer else "sleep"
        stranger = ends.enter_context(Stranger(comm, stage.environ, stage.work))
        assert stranger.pid == dead.pid, f"pid {stranger.pid} instead of {dead.pid}"
    identity = read_process(dead.pid, boot_id()).identity
    assert identity != dead.identity
    # as if the newcomer had not written yet, or never will: all records are the dead one's
    for path, data in left.items():
        path.write_bytes(data)

    found = stage.survey(Wanted())
    assert owners(remembering(stage, warm)) == owners(found)
    alive = [s for s in found.sessions if s.seen.owner is not None]
    assert session_id not in [s.seen.session_id for s in alive], alive
    verdict = stage.session(session_id).verdict
    assert verdict.status in ("stopped", "unknown"), verdict
    if newcomer == "agent":
        assert [s.seen.owner.identity for s in alive if s.seen.owner] == [identity]
    else:
        assert alive == [], alive
        assert verdict.status == "stopped", verdict


def remembering(stage: Stage, warm: Warm) -> Survey:
    look = Look.take(stage.environ, warm=warm)
    return survey(look, registered([stage.adapter]), Wanted())


def owners(found: Survey) -> list[ProcessIdentity]:
    return [s.seen.owner.identity for s in found.sessions if s.seen.owner is not None]


def everything(directory: Path) -> list[Path]:
    """Regular files only: sockets and FIFOs are nobody's record."""
    return [p for p in directory.rglob("*") if p.is_file() and not p.is_symlink()]


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
